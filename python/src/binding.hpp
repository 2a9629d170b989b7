#pragma once
// What the parts of troupe._core share: errors as exceptions, columns, arrays of their own.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <troupe/core/error.hpp>
#include <troupe/core/tensor.hpp>
#include <troupe/replay/table.hpp>

namespace troupe::python {

namespace nb = nanobind;

/// TroupeError(message, code), with the code's name in the C++ library.
[[noreturn]] inline void raise(const Error& error) {
  const nb::object type = nb::module_::import_("troupe.error").attr("TroupeError");
  const nb::object made = type(error.message, std::string(to_string(error.code)));
  PyErr_SetObject(type.ptr(), made.ptr());
  throw nb::python_error();
}
template <typename T>
T value_or_raise(Result<T> result) {
  if (!result.ok()) raise(result.error());
  return std::move(result).value();
}
inline void or_raise(const Status& status) {
  if (!status.ok()) raise(status.error());
}

inline Error wrong_type(nb::handle value, const std::string& what, const std::string& expected) {
  const nb::object type = nb::borrow(value.type()).attr("__name__");
  return {Code::kInvalidArgument, what + ": got a " + nb::cast<std::string>(type) + ", expected " + expected};
}

/// What a user has handed over as a T. Raises TroupeError saying what it is instead.
template <typename T>
T cast_or_raise(nb::handle value, const std::string& what, const char* expected) {
  try {
    return nb::cast<T>(value);
  } catch (const std::bad_cast&) {
    raise(wrong_type(value, what, expected));
  }
}

/// Name, NumPy's name of the type, shape.
using Column = std::tuple<std::string, std::string, std::vector<std::int64_t>>;

inline Column column_of(const TensorSpec& tensor) {
  return {tensor.name, std::string(to_string(tensor.dtype)), {tensor.shape.dims().begin(), tensor.shape.dims().end()}};
}

/// As Table.info has it.
inline nb::dict dict_of(const replay::TableInfo& info) {
  nb::dict numbers;
  numbers["items"] = info.items;
  numbers["bytes"] = info.bytes;
  numbers["inserts"] = info.inserts;
  numbers["samples"] = info.samples;
  numbers["evictions"] = info.evictions;
  return numbers;
}

/// An array of any type, as bytes.
using Rows = nb::ndarray<nb::ro, nb::c_contig, nb::device::cpu>;

/// Memory to be filled, and who frees it for a NumPy array.
template <typename T>
std::pair<T*, nb::capsule> owned(std::size_t size) {
  auto* const memory = new T[size];
  return {memory, nb::capsule(memory, [](void* p) noexcept { delete[] static_cast<T*>(p); })};
}
template <typename T>
std::pair<nb::ndarray<nb::numpy, T>, T*> array(std::size_t size) {
  const auto [memory, owner] = owned<T>(size);
  return {nb::ndarray<nb::numpy, T>(memory, {size}, owner), memory};
}

template <typename T>
nb::object copied(std::span<const T> values) {
  const auto [made, memory] = array<T>(values.size());
  std::ranges::copy(values, memory);
  return nb::cast(made);
}

/// As DLPack names it.
inline nb::dlpack::dtype dlpack_type(DType dtype) {
  switch (dtype) {
    case DType::kF32:
      return nb::dtype<float>();
    case DType::kF64:
      return nb::dtype<double>();
    case DType::kI32:
      return nb::dtype<std::int32_t>();
    case DType::kI64:
      return nb::dtype<std::int64_t>();
    default:
      return nb::dtype<std::uint8_t>();
  }
}

/// Of a column or a tensor of this name. Errors: kInvalidArgument.
inline Result<DType> dtype_of(const std::string& name, nb::dlpack::dtype type) {
  for (const DType dtype : {DType::kF32, DType::kF64, DType::kI32, DType::kI64, DType::kU8}) {
    if (dlpack_type(dtype) == type) return dtype;
  }
  return Error{Code::kInvalidArgument, name + ": expected float32, float64, int32, int64 or uint8"};
}

/// The sizes of an array's dimensions from `first` on. Errors: kShapeMismatch for more than a tensor has.
template <typename Array>
Result<Shape> shape_of(const std::string& name, const Array& array, std::size_t first = 0) {
  if (array.ndim() > first + Shape::kMaxRank) {
    return Error{Code::kShapeMismatch, name + ": " + std::to_string(array.ndim()) + " dimensions are too many"};
  }
  std::vector<std::int64_t> sizes;
  for (std::size_t i = first; i < array.ndim(); ++i) sizes.push_back(static_cast<std::int64_t>(array.shape(i)));
  return Shape(std::span<const std::int64_t>(sizes));
}

/// `rows` rows of a tensor, [rows, ...] (or, without `rows`, one), and its memory, to be filled.
inline std::pair<nb::ndarray<nb::numpy>, std::byte*> tensor_array(const TensorSpec& of,
                                                                  std::optional<std::size_t> rows) {
  const auto [memory, owner] = owned<std::byte>(of.bytes() * rows.value_or(1));
  std::vector<std::size_t> shape;
  if (rows) shape.push_back(*rows);
  for (const std::int64_t dim : of.shape.dims()) shape.push_back(static_cast<std::size_t>(dim));
  return {nb::ndarray<nb::numpy>(memory, shape.size(), shape.data(), owner, nullptr, dlpack_type(of.dtype)), memory};
}

/// Adds the class Table.
void bind_table(nb::module_& m);
/// Adds the class SequenceTables.
void bind_sequences(nb::module_& m);
/// Adds the class ReplayClient.
void bind_client(nb::module_& m);
/// Adds main(), and the classes that roles in Python are given.
void bind_program(nb::module_& m);

}  // namespace troupe::python
