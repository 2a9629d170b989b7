#pragma once
// The seam between reduce.cpp and the instruction sets that the arithmetic is compiled for. Private to reduce_*.cpp.
#include <cstddef>

#include <troupe/collectives/communicator.hpp>

namespace troupe::collectives::detail {

/// The inputs that one pass over memory reduces in registers; more are reduced block by block in the cache.
constexpr std::size_t kFanIn = 4;

struct ReduceKernels {
  /// reduce_tree() for 1..kFanIn inputs; shares is null or has one an input, and is only given with kMean.
  void (*tree)(const float* const* inputs, const float* shares, std::size_t ranks, ReduceOp op, std::size_t count,
               float* const* outputs, std::size_t output_count);
  void (*round_bf16)(const float* values, float share, std::size_t count, float* out);
};

extern const ReduceKernels kGenericReduce, kAvx2Reduce, kAvx512Reduce;  // the last two on x86-64 only

}  // namespace troupe::collectives::detail
