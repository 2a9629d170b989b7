#pragma once
// What the StableHLO rules of several ops have in common: folding over the last dimension, activations, softmax, and
// rows that are no data. The kernels of learner/engine/cpu/kernels/ say what each op means, also for NaN.
#include <cstdint>

#include <troupe/learner/graph/hlo.hpp>
#include <troupe/learner/ops/elementwise.hpp>

namespace troupe::learner::hlo {

/// A single number at every place.
Value everywhere(const Value& scalar, const Shape& shape);
/// [n], at every place of a shape whose last dimension is n.
Value along_last(const Value& column, const Shape& shape);
/// A shape without its last dimension, once for each element of that.
Value over_last(const Value& reduced, const Shape& shape);
Value sum_last(const Value& x);
Value largest_last(const Value& x);
/// Of all but the last dimension: [n]; of a vector that is split by rows, or a scalar, [1].
Value sum_rows(const Value& x, Place place);
Sizes leading_axes(const Value& x);  ///< all but the last one
Sizes all_axes(const Value& x);

Value activate(const Value& x, Activation kind);
/// The gradient before the activation from that behind it and the result y.
Value activation_grad(const Value& gradient, const Value& y, Activation kind);
inline Activation kind_of(const Node& node) { return static_cast<Activation>(node.attr.integer[0]); }

/// Of x along the last dimension: exp(x - maximum), its sum.
struct Softmax {
  Value exponentials, maximum, total;
  Value probs() const;
  /// What is subtracted from a logit to make it the logarithm of a probability.
  Value shift() const;
};
Softmax softmax_of(const Value& x);

/// Where rows of a value that is split by rows, of this shape, are data.
Value is_data(const Node& node, const Shape& shape);
/// What a mean over rows multiplies its sum with: of a short batch 1 / its elements. attr.integer[1]: elements of a
/// row, or 0 where the factor is fixed; attr.real[0]: the factor of a whole batch.
Value row_factor(const Node& node);
/// x, or where Attr::integer[0] says that x is split by rows, `other` in those that are no data.
Value counted(const Node& node, const Value& x, double other = 0);

/// The number `by` times x, and zero where that is not above it, whatever x is.
Value weighted(const Value& by, const Value& x);
Value exp(const Value& x);
Value log(const Value& x);
Value sqrt(const Value& x);
/// Matrix products in float32 of any program; a vector is one row or column.
Value exact_dot(const Value& a, const Value& b, std::int64_t a_axis, std::int64_t b_axis);

/// The rule of ops that compute nothing here.
inline Values same(const Node& node) { return {node.in[0]}; }

}  // namespace troupe::learner::hlo
