#pragma once
// Shared by the sources of learner/ops/ and by differentiation: the rules for shapes and places, and the nodes that
// only gradients need.
#include <initializer_list>
#include <span>
#include <string>
#include <vector>

#include <troupe/learner/engine/cpu/kernels/kernel_table.hpp>
#include <troupe/learner/graph/graph.hpp>
#include <troupe/learner/graph/op.hpp>
#include <troupe/learner/ops/elementwise.hpp>

namespace troupe::learner {

using Specs = std::span<const ValueSpec>;
using Inferred = Result<std::vector<ValueSpec>>;

/// "[256, 17] and [18, 512]", for messages.
std::string shapes_text(Specs specs);
Error shape_error(Specs got, std::string_view expected);

/// Place of a result that is made element by element from operands of one shape. An operand that is a partial sum must
/// be in `linear` (bit i: the result is linear in operand i while the others are fixed), and the others replicated.
Result<Place> combine_places(Specs operands, unsigned linear);
/// All operands real and of one shape; the result has it too. `linear` as above.
Inferred same_shape(Specs operands, unsigned linear);
/// One value of attr.shape, split and of the type of the first operand: gradients of what loses its input's shape.
Inferred shape_of_attr(Specs operands, const Attr& attr);
/// A matrix or vector that is split by rows or replicated: for ops that work along the last dimension.
Status check_real(Specs operands, std::size_t count);
/// Real, [n, h, w, c], split by rows or replicated.
Status check_image(const ValueSpec& image);
/// spec with the last dimension removed.
Shape without_last(const Shape& shape);

/// A replicated value as a sum over stripes.
Var as_partial(Var x);
/// x repeated to `spec` (learner/ops/broadcast.hpp).
Var broadcast_to(Var x, const ValueSpec& spec);
/// `shape` filled with the scalar.
Var fill(Var scalar, const Shape& shape, Place place);
/// `like`'s shape and place filled with factor times the scalar, and zero in rows that are no data: the gradient of a
/// sum. per_row: for means over rows, the elements of a row; factor is then that of a whole batch. Else 0.
Var fill_rows(Var scalar, const ValueSpec& like, Place place, double factor, std::int64_t per_row);
/// Of kind(x + bias) with result y: {the gradient before the activation, its sum over all but the last dimension}.
std::vector<Var> bias_activation_grad(Graph& graph, Var out_grad, Var y, Activation kind);
/// Zero in rows that are no data: for products that sum over rows.
Var mask_rows(Var x);
/// A copy, for values that must lie at a given place.
const OpDef& identity_op();
/// To bfloat16, for the operands of products.
const OpDef& cast_op();
/// From bfloat16, for images whose reader takes float32.
const OpDef& widen_op();
/// A weight in the order that a convolution wants (ConvPlan).
const OpDef& pack_weight_op();

}  // namespace troupe::learner
