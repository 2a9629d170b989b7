#pragma once
// How a parameter or a tensor of state begins: Init, carried out when a program is compiled.
#include <cstdint>
#include <span>

#include <troupe/core/tensor.hpp>
#include <troupe/learner/graph/graph.hpp>

namespace troupe::learner {

/// Fills `tensor`, of this shape, by a generator of its own. The same seed gives the same bits.
void initialise(std::span<float> tensor, const Shape& shape, Init init, std::uint64_t seed);

}  // namespace troupe::learner
