#include <troupe/collectives/reduce.hpp>

#include <algorithm>
#include <array>
#include <bit>
#include <numeric>

#include <troupe/collectives/detail/reduce_kernels.hpp>

namespace troupe::collectives {
namespace {

using detail::kFanIn;

const detail::ReduceKernels& kernels() {
#if defined(TROUPE_X86_REDUCE)
  static const detail::ReduceKernels& best = __builtin_cpu_supports("avx512f") ? detail::kAvx512Reduce
                                             : __builtin_cpu_supports("avx2")  ? detail::kAvx2Reduce
                                                                               : detail::kGenericReduce;
  return best;
#else
  return detail::kGenericReduce;
#endif
}

constexpr std::size_t kBlock = 1024;  // elements of a partial result: one for each level of the tree stays in the cache

/// The tree of more than kFanIn inputs for at most kBlock elements. It splits at the largest power of two of inputs:
/// that is the tree of neighbours, read from its root.
void tree_of_many(std::span<const float* const> inputs, std::span<const float> shares, ReduceOp op, std::size_t count,
                  std::span<float* const> outputs) {
  if (inputs.size() <= kFanIn) {
    kernels().tree(inputs.data(), shares.empty() ? nullptr : shares.data(), inputs.size(), op, count, outputs.data(),
                   outputs.size());
    return;
  }
  const std::size_t left = std::bit_ceil(inputs.size()) / 2;
  alignas(64) std::array<float, kBlock> left_sum;
  alignas(64) std::array<float, kBlock> right_sum;
  const std::array<float*, 2> sums{left_sum.data(), right_sum.data()};
  const std::span<const float> no_shares;
  tree_of_many(inputs.first(left), shares.empty() ? no_shares : shares.first(left), op, count,
               std::span(sums).first(1));
  tree_of_many(inputs.subspan(left), shares.empty() ? no_shares : shares.subspan(left), op, count,
               std::span(sums).last(1));
  const std::array<const float*, 2> halves{left_sum.data(), right_sum.data()};
  kernels().tree(halves.data(), nullptr, 2, op, count, outputs.data(), outputs.size());
}

}  // namespace

std::vector<float> mean_shares(std::span<const double> weights) {
  const double total = std::accumulate(weights.begin(), weights.end(), 0.0);
  std::vector<float> shares;
  for (const double weight : weights) shares.push_back(static_cast<float>(weight / total));
  return shares;
}

void reduce_tree(std::span<const float* const> inputs, std::span<const float> shares, ReduceOp op, std::size_t count,
                 std::span<float* const> outputs) {
  if (op != ReduceOp::kMean) shares = {};
  if (inputs.size() <= kFanIn) return tree_of_many(inputs, shares, op, count, outputs);
  std::vector<const float*> block_inputs(inputs.begin(), inputs.end());
  std::vector<float*> block_outputs(outputs.begin(), outputs.end());
  for (std::size_t done = 0; done < count; done += kBlock) {
    tree_of_many(block_inputs, shares, op, std::min(kBlock, count - done), block_outputs);
    for (const float*& input : block_inputs) input += kBlock;
    for (float*& output : block_outputs) output += kBlock;
  }
}

void reduce(std::span<const float* const> inputs, std::span<const double> weights, ReduceOp op, std::size_t count,
            float* out) {
  const std::vector<float> shares = op == ReduceOp::kMean ? mean_shares(weights) : std::vector<float>{};
  reduce_tree(inputs, shares, op, count, std::array{out});
}

void round_bf16(const float* values, float share, std::size_t count, float* out) {
  if (share == 0) {
    std::fill_n(out, count, 0.0f);
    return;
  }
  kernels().round_bf16(values, share, count, out);
}

}  // namespace troupe::collectives
