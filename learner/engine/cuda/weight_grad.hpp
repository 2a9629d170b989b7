#pragma once
// How the gradient of a convolution's weight is shared among the processors of a GPU. It adds up all pixels of a batch,
// in a fixed order. cuDNN's kernels for bfloat16 that keep such an order give each tile of the result to one processor,
// so their time goes with the number of pixels, while most of the GPU does nothing: they took 65 of the 112 ms of a
// step of ResNet-50 on an H200, as long for 64 as for 256 channels. So the sum is cut here: bits depend on the shape
// alone. Those for float32 share among all processors (DrQ-v2's step took eight times as long in parts).
#include <cstddef>
#include <cstdint>

#include <troupe/learner/engine/cpu/convolution.hpp>

namespace troupe::learner {

/// Of kernels that mix the channels of single pixels: it is one product over all pixels, and cuBLASLt shares long sums.
bool is_product(const ConvShape& conv);

/// Into how many parts of the batch, of equal size, any other is cut in bfloat16: each is a node of its own that runs
/// beside the others (node_order.hpp), and their results are added up. 1: not at all, as forward passes and images'
/// gradients always are. Each part begins at an address that the library wants and has pixels enough to be worth a
/// kernel.
std::int64_t batch_parts(const ConvShape& conv);

}  // namespace troupe::learner
