#include <troupe/learner/engine/kept_length.hpp>

#include <algorithm>
#include <array>
#include <cmath>

namespace troupe::learner {
namespace {

/// Columns that one thread takes at once: a few cache lines of each row.
constexpr std::int64_t kKeptColumns = 64;
/// What a length is at least taken for, as in torch.nn.functional.normalize: zeros stay.
constexpr double kLeastLength = 1e-8;

}  // namespace

KeptLengths::KeptLengths(const ParamLayout& layout) : KeptLengths(layout, 0, layout.elements) {}

KeptLengths::KeptLengths(const ParamLayout& layout, std::int64_t begin, std::int64_t end) {
  for (const KeptLength& kept : layout.kept) {
    Work work{.columns = kept.columns, .length = kept.length};
    bool within = true;
    for (const std::size_t index : kept.entries) {
      const ParamEntry& entry = layout.entries[index];
      work.matrices.push_back({entry.offset, entry.shape.elements() / kept.columns});
      within = within && begin <= entry.offset && entry.offset + entry.shape.elements() <= end;
    }
    for (std::int64_t column = 0; within && column < kept.columns; column += kKeptColumns) {
      work.begin = column;
      work.end = std::min(column + kKeptColumns, kept.columns);
      works_.push_back(work);
    }
  }
}

void KeptLengths::restore(float* values, std::uint16_t* shadow, std::size_t part, std::size_t parts) const {
  const std::size_t all = works_.size();
  for (std::size_t w = all * part / parts; w < all * (part + 1) / parts; ++w) restore(works_[w], values, shadow);
}

void KeptLengths::restore(const Work& work, float* values, std::uint16_t* shadow) {
  std::array<double, kKeptColumns> factors{};  // at first the sums of squares
  const std::int64_t count = work.end - work.begin;
  const auto for_each_row = [&](auto visit) {
    for (const Matrix& matrix : work.matrices) {
      const std::int64_t first = matrix.offset + work.begin;
      for (std::int64_t row = 0; row < matrix.rows; ++row) visit(first + row * work.columns);
    }
  };
  for_each_row([&](std::int64_t at) {
    for (std::int64_t i = 0; i < count; ++i) {
      const double x = values[at + i];
      factors[static_cast<std::size_t>(i)] += x * x;
    }
  });
  for (double& factor : factors) factor = work.length / std::max(std::sqrt(factor), kLeastLength);
  for_each_row([&](std::int64_t at) {
    for (std::int64_t i = 0; i < count; ++i) {
      values[at + i] = static_cast<float>(values[at + i] * factors[static_cast<std::size_t>(i)]);
    }
    if (shadow != nullptr) kernels_f32().to_bf16(values, shadow, at, at + count);
  });
}

}  // namespace troupe::learner
