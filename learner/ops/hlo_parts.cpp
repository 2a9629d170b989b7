#include <troupe/learner/ops/hlo_parts.hpp>

namespace troupe::learner::hlo {

namespace {

Sizes first_axes(int count) {
  Sizes axes;
  for (int axis = 0; axis < count; ++axis) axes.push_back(axis);
  return axes;
}

}  // namespace

Value exp(const Value& x) { return unary("exponential", x); }
Value log(const Value& x) { return unary("log", x); }
Value sqrt(const Value& x) { return unary("sqrt", x); }

Value everywhere(const Value& scalar, const Shape& shape) { return broadcast(scalar, shape, {}); }
Value along_last(const Value& column, const Shape& shape) { return broadcast(column, shape, {shape.rank() - 1}); }
Value over_last(const Value& reduced, const Shape& shape) {
  return broadcast(reduced, shape, first_axes(shape.rank() - 1));
}
Sizes leading_axes(const Value& x) { return first_axes(x.rank() - 1); }
Sizes all_axes(const Value& x) { return first_axes(x.rank()); }
Value sum_last(const Value& x) { return sum(x, {x.rank() - 1}); }
Value largest_last(const Value& x) { return largest(x, {x.rank() - 1}); }
Value sum_rows(const Value& x, Place place) {
  if (x.rank() == 0 || (x.rank() == 1 && place == Place::kRows)) return reshape(sum(x, first_axes(x.rank())), {1});
  return sum(x, leading_axes(x));
}

Value activate(const Value& x, Activation kind) {
  switch (kind) {
    case Activation::kNone:
      return x;
    case Activation::kTanh:
      return unary("tanh", x);
    case Activation::kElu:
      return select(is_greater(x, 0), x, unary("exponential_minus_one", x));
    case Activation::kRelu:
      return maximum(x, 0);
    case Activation::kSigmoid:
      return unary("logistic", x);
    case Activation::kLeakyRelu:
      return maximum(kLeakyReluSlope * x, x);
  }
  return x;
}

Value activation_grad(const Value& g, const Value& y, Activation kind) {
  switch (kind) {
    case Activation::kNone:
      return g;
    case Activation::kTanh:
      return g - g * (y * y);
    case Activation::kElu:
      return select(is_greater(y, 0), g, g * y + g);
    case Activation::kRelu:
      return select(is_greater(y, 0), g, 0);
    case Activation::kSigmoid:
      return g * (y - y * y);
    case Activation::kLeakyRelu:
      return select(is_greater(y, 0), g, kLeakyReluSlope * g);
  }
  return g;
}

Softmax softmax_of(const Value& x) {
  const Value maximum = largest_last(x);
  const Value exponentials = exp(x - over_last(maximum, x.shape()));
  return {exponentials, maximum, sum_last(exponentials)};
}
Value Softmax::probs() const { return exponentials / over_last(total, exponentials.shape()); }
Value Softmax::shift() const { return maximum + log(total); }

Value is_data(const Node& node, const Shape& shape) {
  const Value limit = node.rows * filled(node.rows, static_cast<double>(shape[0] / node.batch));
  const Shape rows{shape[0]};
  const Value inside = is_less(node.to.iota({rows, Element::kI32}, 0), everywhere(limit, rows));
  return broadcast(inside, shape, {0});
}

Value row_factor(const Node& node) {
  const Value whole = node.to.constant(node.attr.real[0], {});
  const std::int64_t per_row = node.attr.integer[1];
  if (per_row == 0) return whole;
  const Value count = convert(node.rows, Element::kF32) * filled(whole, static_cast<double>(per_row));
  const Value of_short = select(is_greater(count, 0), 1 / maximum(count, 1), 0);
  return select(is_equal(node.rows, static_cast<double>(node.batch)), whole, of_short);
}

Value counted(const Node& node, const Value& x, double other) {
  return node.attr.integer[0] == 0 ? x : select(is_data(node, x.shape()), x, other);
}

Value weighted(const Value& by, const Value& x) {
  const Value all = everywhere(by, x.shape());
  return select(is_greater(all, 0), all * x, 0);
}

Value exact_dot(const Value& a, const Value& b, std::int64_t a_axis, std::int64_t b_axis) {
  return dot(a, b, {.a_sum = {a_axis}, .b_sum = {b_axis}}, Product::kExact);
}

}  // namespace troupe::learner::hlo
