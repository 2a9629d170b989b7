#include <troupe/collectives/reduce.hpp>

#include <algorithm>
#include <numeric>

namespace troupe::collectives {
namespace {

template <typename Combine>
void fold(std::span<const float* const> inputs, std::size_t count, float* __restrict out, Combine combine) {
  std::copy_n(inputs[0], count, out);
  for (const float* input : inputs.subspan(1)) {
    for (std::size_t i = 0; i < count; ++i) out[i] = combine(out[i], input[i]);
  }
}

void weighted_mean(std::span<const float* const> inputs, std::span<const double> weights, std::size_t count,
                   float* __restrict out) {
  std::fill_n(out, count, 0.0f);
  for (std::size_t r = 0; r < inputs.size(); ++r) {
    if (weights[r] == 0) continue;  // such a rank has no values, perhaps not even finite ones
    const auto weight = static_cast<float>(weights[r]);
    for (std::size_t i = 0; i < count; ++i) out[i] += weight * inputs[r][i];
  }
  const auto total = static_cast<float>(std::accumulate(weights.begin(), weights.end(), 0.0));
  for (std::size_t i = 0; i < count; ++i) out[i] /= total;
}

}  // namespace

void reduce(std::span<const float* const> inputs, std::span<const double> weights, ReduceOp op, std::size_t count,
            float* out) {
  switch (op) {
    case ReduceOp::kSum:
      return fold(inputs, count, out, [](float a, float b) { return a + b; });
    case ReduceOp::kMean:
      return weighted_mean(inputs, weights, count, out);
    case ReduceOp::kMin:
      return fold(inputs, count, out, [](float a, float b) { return b < a || b != b ? b : a; });
    case ReduceOp::kMax:
      return fold(inputs, count, out, [](float a, float b) { return b > a || b != b ? b : a; });
    case ReduceOp::kProduct:
      return fold(inputs, count, out, [](float a, float b) { return a * b; });
  }
}

}  // namespace troupe::collectives
