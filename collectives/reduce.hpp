#pragma once
// The arithmetic of a reduction, on one core: shared by all back ends and by their tests' reference. One fixed binary
// tree over ranks, in float32: neighbours first, (0+1), (2+3), then pairs of pairs, an odd one carried up unchanged.
// The bits depend on nothing else, so a back end may reduce any aligned subtree where its inputs lie (all ranks of a
// host) and give the tree of the results the same bits as the tree of all.
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include <troupe/collectives/communicator.hpp>

namespace troupe::collectives {

/// What each rank's values are multiplied with in kMean: w_r / sum(w), rounded to float32 once, so that equal weights
/// of a power of two of ranks scale exactly. The sum must be > 0.
std::vector<float> mean_shares(std::span<const double> weights);

/// Every outputs[o][i] = tree over ranks r of inputs[r][i], i < count. shares: empty, or for kMean one a rank, with
/// which its values are multiplied first; a rank whose share is 0 counts as zeros and is not read. kMean without shares
/// is a sum. A NaN makes the minimum and the maximum NaN too. An output may be an input, but not overlap one otherwise.
/// Reads every input and writes every output once.
void reduce_tree(std::span<const float* const> inputs, std::span<const float> shares, ReduceOp op, std::size_t count,
                 std::span<float* const> outputs);

/// The same for one output and plain weights, which only kMean reads.
void reduce(std::span<const float* const> inputs, std::span<const double> weights, ReduceOp op, std::size_t count,
            float* out);

/// values[i] times `share`, rounded to bfloat16 and back: what a rank contributes when CallOptions::wire is kBF16
/// (share 1 but in kMean; with share 0 zeros, and values is not read), and what becomes of every result. Nearest even;
/// every NaN stays one. out may be values.
void round_bf16(const float* values, float share, std::size_t count, float* out);

}  // namespace troupe::collectives
