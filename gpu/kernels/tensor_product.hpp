#pragma once
// Small products of float32 operands on tensor cores. These multiply numbers of 11 bits (TF32) and add up in float32.
// Where TF32 is not asked for, each operand is split into two such numbers, and three products make up for what one
// would round off: a b = (a1 + a2)(b1 + b2), less a2 b2, which is 2^-22 of it; Ootomo and Yokota 2022, arXiv
// 2203.03341. Their adders cut off where others round, so no sum stays in them for longer than a slice.
#include <cuda_runtime.h>

#include <troupe/gpu/kernels/tile.hpp>

namespace troupe_cuda {

/// split: as precise as float32.
cudaError_t tensor_product(bool split, const TiledOperands& operands, cudaStream_t stream);

}  // namespace troupe_cuda
