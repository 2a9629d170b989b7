#pragma once
// The arithmetic of a reduction, on one core: shared by back ends and by their tests' reference.
#include <cstddef>
#include <span>

#include <troupe/collectives/communicator.hpp>

namespace troupe::collectives {

/// out[i] = reduction over ranks r of inputs[r][i], i < count, in rank order and float32, so that the bits depend on
/// nothing else. weights: one for each rank, read by kMean only: sum(w_r x_r) / sum(w_r), where ranks of weight 0 are
/// not read and the sum of weights is > 0. A NaN makes the minimum and the maximum NaN too. out overlaps no input.
void reduce(std::span<const float* const> inputs, std::span<const double> weights, ReduceOp op, std::size_t count,
            float* out);

}  // namespace troupe::collectives
