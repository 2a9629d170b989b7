#pragma once
// The nouns that all data is described with: element type, shape, named spec, and batches in columns. Environments
// declare them, replay stores rows of them, messages carry them and learners bind them to graph inputs.
#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <troupe/core/error.hpp>

namespace troupe {

enum class DType : std::uint8_t { kF32 = 0, kF64 = 1, kBF16 = 2, kI32 = 3, kI64 = 4, kU8 = 5 };

/// Bytes of one element.
std::size_t dtype_bytes(DType dtype);
/// "float32", "float64", "bfloat16", "int32", "int64", "uint8": NumPy's names.
std::string_view to_string(DType dtype);

/// Up to kMaxRank dimension sizes, outermost first, row-major. Rank 0 is a scalar with one element.
class Shape {
 public:
  static constexpr int kMaxRank = 8;

  Shape() = default;
  Shape(std::initializer_list<std::int64_t> dims);
  explicit Shape(std::span<const std::int64_t> dims);

  int rank() const { return rank_; }
  std::int64_t operator[](int axis) const { return dims_[static_cast<std::size_t>(axis)]; }
  std::span<const std::int64_t> dims() const { return {dims_.data(), static_cast<std::size_t>(rank_)}; }
  /// Product of the dimensions.
  std::int64_t elements() const;
  /// This shape with one more dimension in front, e.g. the batch.
  Shape with_leading(std::int64_t size) const;
  /// "[256, 17]".
  std::string to_string() const;

  friend bool operator==(const Shape&, const Shape&) = default;

 private:
  std::array<std::int64_t, kMaxRank> dims_{};  // unused entries stay 0, so that == may compare all of them
  int rank_ = 0;
};

/// That an array is a stack of planes, as the last images of an episode are seen as one: a dimension of the array is
/// made of `planes` equal parts. Stacks of neighbouring steps have planes in common, so who stores or sends steps may
/// keep each plane once (core/stacks.hpp). It is a hint, and a wrong one costs memory, not bits.
struct Stack {
  std::int64_t planes = 1;  ///< 1: it is no stack
  int axis = -1;            ///< the dimension; -1 is the last one
  friend bool operator==(const Stack&, const Stack&) = default;
};

/// A named array of fixed dtype and shape, without its batch dimension.
struct TensorSpec {
  std::string name;
  DType dtype = DType::kF32;
  Shape shape;
  Stack stack = {};

  std::size_t bytes() const { return dtype_bytes(dtype) * static_cast<std::size_t>(shape.elements()); }
  std::string to_string() const;  ///< "observation: float32[17]"
  /// Whether both are the same arrays, however they may be stored.
  friend bool operator==(const TensorSpec& a, const TensorSpec& b) {
    return a.name == b.name && a.dtype == b.dtype && a.shape == b.shape;
  }
};

/// The columns of an item or batch, in order. Names are unique.
using Signature = std::vector<TensorSpec>;

/// Bytes of one row over all columns, packed without padding.
std::size_t row_bytes(const Signature& signature);
/// Index of the column `name`, or -1.
int find(const Signature& signature, std::string_view name);
/// Errors with kShapeMismatch, naming `where` and the first column that differs.
Status check_same(const Signature& got, const Signature& expected, std::string_view where);

/// `rows` rows in columns: columns[c] holds rows x signature[c].bytes(), contiguous. Borrowed for the call.
struct BatchView {
  const Signature* signature = nullptr;
  std::int64_t rows = 0;
  std::vector<std::span<const std::byte>> columns;
  /// Of rows whose stacks are split (core/stacks.hpp), the planes that their columns name; else empty.
  std::vector<std::span<const std::byte>> planes = {};

  /// Column `index` as elements of T; T must have the dtype's size.
  template <typename T>
  std::span<const T> as(std::size_t index) const {
    return {reinterpret_cast<const T*>(columns[index].data()), columns[index].size() / sizeof(T)};
  }
  /// Index of the column `name`, or -1.
  int find(std::string_view name) const;
  /// Rows [first, first + count).
  BatchView slice(std::int64_t first, std::int64_t count) const;
};

/// The same, to be filled by the callee.
struct MutableBatchView {
  const Signature* signature = nullptr;
  std::int64_t rows = 0;
  std::vector<std::span<std::byte>> columns;

  template <typename T>
  std::span<T> as(std::size_t index) const {
    return {reinterpret_cast<T*>(columns[index].data()), columns[index].size() / sizeof(T)};
  }
  BatchView view() const;
  /// Rows [first, first + count).
  MutableBatchView slice(std::int64_t first, std::int64_t count) const;
};

/// A number that is a NaN or an infinity, and where it stands.
struct NotFinite {
  std::size_t index = 0;
  double value = 0;
};
/// The first one among numbers of `dtype`, which need not be aligned; integers are finite.
std::optional<NotFinite> first_not_finite(DType dtype, std::span<const std::byte> values);

/// A batch that owns its memory: one 64-byte-aligned allocation, every column aligned to 64 bytes. Zero when made.
class BatchBuffer {
 public:
  BatchBuffer(Signature signature, std::int64_t rows);
  BatchBuffer(const BatchBuffer&) = delete;
  BatchBuffer& operator=(const BatchBuffer&) = delete;

  const MutableBatchView& mutable_view() { return view_; }
  BatchView view() const { return view_.view(); }

 private:
  Signature signature_;
  std::vector<std::byte> storage_;
  MutableBatchView view_;
};

}  // namespace troupe
