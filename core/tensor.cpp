#include <troupe/core/tensor.hpp>

#include <fmt/format.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <memory>

#include <troupe/core/check.hpp>

namespace troupe {

std::size_t dtype_bytes(DType dtype) {
  switch (dtype) {
    case DType::kF32:
    case DType::kI32:
      return 4;
    case DType::kF64:
    case DType::kI64:
      return 8;
    case DType::kBF16:
      return 2;
    case DType::kU8:
      return 1;
  }
  TROUPE_CHECK(false, "dtype {} is not one of the enum", static_cast<int>(dtype));
}

std::string_view to_string(DType dtype) {
  switch (dtype) {
    case DType::kF32:
      return "float32";
    case DType::kF64:
      return "float64";
    case DType::kBF16:
      return "bfloat16";
    case DType::kI32:
      return "int32";
    case DType::kI64:
      return "int64";
    case DType::kU8:
      return "uint8";
  }
  return "unknown";
}

Shape::Shape(std::initializer_list<std::int64_t> dims) : Shape(std::span(dims.begin(), dims.size())) {}

Shape::Shape(std::span<const std::int64_t> dims) : rank_(static_cast<int>(dims.size())) {
  TROUPE_CHECK(dims.size() <= kMaxRank, "rank {} > {}", dims.size(), kMaxRank);
  for (std::size_t i = 0; i < dims.size(); ++i) {
    TROUPE_CHECK(dims[i] >= 0, "dimension {} is {}", i, dims[i]);
    dims_[i] = dims[i];
  }
}

std::int64_t Shape::elements() const {
  std::int64_t product = 1;
  for (std::int64_t dim : dims()) product *= dim;
  return product;
}

Shape Shape::with_leading(std::int64_t size) const {
  std::vector<std::int64_t> longer{size};
  longer.insert(longer.end(), dims().begin(), dims().end());
  return Shape(std::span<const std::int64_t>(longer));
}

std::string Shape::to_string() const { return fmt::format("[{}]", fmt::join(dims(), ", ")); }

std::string TensorSpec::to_string() const {
  return fmt::format("{}: {}{}", name, troupe::to_string(dtype), shape.to_string());
}

std::size_t row_bytes(const Signature& signature) {
  std::size_t total = 0;
  for (const TensorSpec& spec : signature) total += spec.bytes();
  return total;
}

int find(const Signature& signature, std::string_view name) {
  for (std::size_t i = 0; i < signature.size(); ++i) {
    if (signature[i].name == name) return static_cast<int>(i);
  }
  return -1;
}

Status check_same(const Signature& got, const Signature& expected, std::string_view where) {
  if (got.size() != expected.size()) {
    return Error{Code::kShapeMismatch,
                 fmt::format("{}: got {} columns, expected {}", where, got.size(), expected.size())};
  }
  for (std::size_t i = 0; i < got.size(); ++i) {
    if (got[i] != expected[i]) {
      return Error{Code::kShapeMismatch, fmt::format("{}: column {} is {}, expected {}", where, i, got[i].to_string(),
                                                     expected[i].to_string())};
    }
  }
  return {};
}

namespace {

template <typename View>
View rows_of(const View& view, std::int64_t first, std::int64_t count) {
  View part{view.signature, count, {}};
  for (std::size_t c = 0; c < view.columns.size(); ++c) {
    const std::size_t bytes = (*view.signature)[c].bytes();
    part.columns.push_back(
        view.columns[c].subspan(static_cast<std::size_t>(first) * bytes, static_cast<std::size_t>(count) * bytes));
  }
  return part;
}

}  // namespace

BatchView BatchView::slice(std::int64_t first, std::int64_t count) const {
  BatchView part = rows_of(*this, first, count);
  part.planes = planes;
  return part;
}

MutableBatchView MutableBatchView::slice(std::int64_t first, std::int64_t count) const {
  return rows_of(*this, first, count);
}

int BatchView::find(std::string_view name) const { return troupe::find(*signature, name); }

BatchView MutableBatchView::view() const {
  BatchView result{signature, rows, {}};
  result.columns.assign(columns.begin(), columns.end());
  return result;
}

namespace {

template <typename T>
std::optional<NotFinite> first_not_finite(std::span<const std::byte> values) {
  for (std::size_t i = 0; i < values.size() / sizeof(T); ++i) {
    T value;
    std::memcpy(&value, values.data() + i * sizeof(T), sizeof(T));
    if (!std::isfinite(value)) return NotFinite{i, value};
  }
  return std::nullopt;
}

}  // namespace

std::optional<NotFinite> first_not_finite(DType dtype, std::span<const std::byte> values) {
  if (dtype == DType::kF32) return first_not_finite<float>(values);
  if (dtype == DType::kF64) return first_not_finite<double>(values);
  if (dtype != DType::kBF16) return std::nullopt;
  for (std::size_t i = 0; i < values.size() / 2; ++i) {
    std::uint16_t upper = 0;  // half of a float32
    std::memcpy(&upper, values.data() + 2 * i, sizeof(upper));
    const auto value = std::bit_cast<float>(std::uint32_t{upper} << 16);
    if (!std::isfinite(value)) return NotFinite{i, value};
  }
  return std::nullopt;
}

BatchBuffer::BatchBuffer(Signature signature, std::int64_t rows) : signature_(std::move(signature)) {
  constexpr std::size_t kAlign = 64;
  auto padded = [](std::size_t bytes) { return (bytes + kAlign - 1) / kAlign * kAlign; };
  std::size_t total = kAlign;  // room to align the start
  for (const TensorSpec& spec : signature_) total += padded(spec.bytes() * static_cast<std::size_t>(rows));
  storage_.resize(total);
  void* start = storage_.data();
  std::size_t space = total;
  std::align(kAlign, total - kAlign, start, space);
  auto* cursor = static_cast<std::byte*>(start);
  view_ = {&signature_, rows, {}};
  for (const TensorSpec& spec : signature_) {
    const std::size_t bytes = spec.bytes() * static_cast<std::size_t>(rows);
    view_.columns.emplace_back(cursor, bytes);
    cursor += padded(bytes);
  }
}

}  // namespace troupe
