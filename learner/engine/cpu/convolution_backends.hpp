#pragma once
// The back ends behind make_convolution(), one source each; nobody else calls them.
#include <troupe/learner/engine/cpu/convolution.hpp>

namespace troupe::learner {

// Built only where oneDNN was found; kF32 or kBF16.
Result<std::unique_ptr<ConvPlan>> make_onednn_convolution(const ConvShape& shape, std::int64_t packed_for, DType dtype);
Result<std::size_t> onednn_packed_bytes(const ConvShape& shape, DType dtype);
Result<std::unique_ptr<ConvPlan>> make_onednn_pack(const ConvShape& shape, DType dtype);
/// Whether it has that pass for this processor.
bool onednn_convolves(const ConvShape& shape, DType dtype);

/// Patches of an image as rows of a matrix, and products of it; kF32 or kF64.
Result<std::unique_ptr<ConvPlan>> make_patch_convolution(const ConvShape& shape, DType dtype, const ComputeBy& by);

}  // namespace troupe::learner
