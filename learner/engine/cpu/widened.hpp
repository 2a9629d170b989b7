#pragma once
// bfloat16 on processors without instructions for it: operands, which are bfloat16 or are rounded to it, are widened to
// float32, where every one of them is exact, and the float32 plan computes with float32 sums. So results are those of
// bfloat16 everywhere, at a little less than the speed of float32; the first such plan of a process says so in the log.
#include <cstddef>
#include <memory>

#include <troupe/learner/engine/cpu/convolution.hpp>
#include <troupe/learner/engine/cpu/gemm.hpp>

namespace troupe::learner {

/// Reads bfloat16 and writes float32, by a float32 plan of that shape.
std::unique_ptr<GemmPlan> widen(std::unique_ptr<GemmPlan> plan, const GemmShape& shape);

/// Images are bfloat16, by a float32 plan of that shape; the packed weight is what a rounding pack made.
std::unique_ptr<ConvPlan> widen(std::unique_ptr<ConvPlan> plan, const ConvShape& shape);

/// Rounds a weight's `elements` to bfloat16, as float32, in the order that `pack` brings them into; null: as they are.
std::unique_ptr<ConvPlan> rounding_pack(std::unique_ptr<ConvPlan> pack, std::size_t elements);

}  // namespace troupe::learner
