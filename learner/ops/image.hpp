#pragma once
// What image networks do between their convolutions, each in one pass over memory.
#include <troupe/learner/graph/op.hpp>
#include <troupe/learner/ops/elementwise.hpp>

namespace troupe::learner {

/// factor * x + offset, real numbers of bytes (a graph's uint8 input): images in [-1/2, 1/2] with 1.0 / 255 and -0.5.
/// Bytes have no gradient.
Var from_bytes(Var x, double factor = 1, double offset = 0);

/// activation(a + b): the end of a residual block. One shape, split by rows or replicated.
Var add_activation(Var a, Var b, Activation kind = Activation::kRelu);

/// activation(gain * x + offset) with a gain and an offset for each example and channel: x [n, ..., c], gain and offset
/// [n, c], all split by rows.
/// Conditional batch norm (Dumoulin et al. 2017) is batch_norm() with gain 1 and offset 0 followed by this, with gains
/// and offsets that are embedding()s of the labels; the gains' table starts at 1 and the offsets' at 0, as in Miyato &
/// Koyama's code.
Var modulate(Var x, Var gain, Var offset, Activation kind = Activation::kNone);

}  // namespace troupe::learner
