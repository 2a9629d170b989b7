#pragma once
// The augmentation of learning from pixels: an image moves by a few pixels, another way each time that it is learnt
// from (Kostrikov et al. 2021, arXiv 2004.13649; Yarats et al. 2021, arXiv 2107.09645).
#include <cstdint>
#include <string_view>

#include <troupe/learner/graph/op.hpp>

namespace troupe::learner {

/// Each image of x, [rows, h, w, c] of bytes or of real numbers, split by rows, is padded by `padding` copies of its
/// outermost pixels on each side, and of that a window of the image's own size is cut out. draws: [rows, 2] in [0, 1),
/// for lines and for pixels of a line: where the window lies, floor(draw * (2 padding + 1)) behind the first place. All
/// channels move alike. DrQ-v2's bilinear sampling at whole pixels is this crop. Bytes stay bytes, and have no
/// gradient; real numbers have that of the crop; draws none. Errors: kShapeMismatch, kInvalidArgument (padding below
/// 0).
Var shift(Var x, Var draws, std::int64_t padding);
/// The same by random_uniform() numbers of that name.
Var random_shift(Var x, std::string_view name, std::int64_t padding);

}  // namespace troupe::learner
