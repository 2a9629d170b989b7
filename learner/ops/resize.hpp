#pragma once
// Images, [n, h, w, c] split by rows, at another size: up or down, by any factor.
#include <cstdint>

#include <troupe/learner/graph/op.hpp>

namespace troupe::learner {

/// Output row i is input row floor(i * h / height), as PyTorch's "nearest"; columns likewise.
Var resize_nearest(Var x, std::int64_t height, std::int64_t width);
/// Between the four pixels around (i + 0.5) * h / height - 0.5, clamped to the image: PyTorch's "bilinear" without
/// align_corners and antialias, so only these four count when an image gets smaller.
Var resize_bilinear(Var x, std::int64_t height, std::int64_t width);

}  // namespace troupe::learner
