#pragma once
// How the gradient of a convolution's weight is shared among the processors of a GPU. It adds up all pixels of a batch,
// in a fixed order. cuDNN's kernels that keep such an order give each tile of the result to one processor, so their
// time goes with the number of pixels, while most of the GPU does nothing: on an H100 they took 65 of the 112 ms of a
// step of ResNet-50, as long for 64 as for 256 channels. So the sum is cut here: bits depend on the shape alone.
#include <cstddef>
#include <cstdint>

#include <troupe/learner/engine/cpu/convolution.hpp>

namespace troupe::learner {

/// Of kernels that mix the channels of single pixels: it is one product over all pixels, and cuBLASLt shares long sums.
bool is_product(const ConvShape& conv);

/// Into how many parts of the batch, of equal size, any other is cut: each is a node of its own that runs beside the
/// others (node_order.hpp), and their results are added up. 1: not at all, which forward passes and images' gradients
/// never are. Each part begins at an address that the library wants, also in bfloat16, and has pixels enough to be
/// worth a kernel.
std::int64_t batch_parts(const ConvShape& conv);

}  // namespace troupe::learner
