#pragma once
// The back ends behind make_convolution(), one source each; nobody else calls them.
#include <troupe/learner/convolution.hpp>

namespace troupe::learner {

// Built only where oneDNN was found; kF32 or kBF16.
Result<std::unique_ptr<ConvPlan>> make_onednn_convolution(const ConvShape& shape, std::int64_t packed_for, DType dtype);
Result<std::size_t> onednn_packed_bytes(const ConvShape& shape, DType dtype);
Result<std::unique_ptr<ConvPlan>> make_onednn_pack(const ConvShape& shape, DType dtype);

/// Patches of an image as rows of a matrix, and Eigen's products of it; kF32 or kF64.
std::unique_ptr<ConvPlan> make_eigen_convolution(const ConvShape& shape, DType dtype);

}  // namespace troupe::learner
