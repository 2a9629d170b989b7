// Of learner/graph/hlo.hpp what changes shapes: moves, sums, products, lookups.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include <troupe/learner/graph/hlo.hpp>

namespace troupe::learner::hlo {

namespace {

std::string array(const Sizes& sizes) { return fmt::format("array<i64: {}>", fmt::join(sizes, ", ")); }
std::string axes_text(const Sizes& axes) { return fmt::format("[{}]", fmt::join(axes, ", ")); }

/// The region of a reduction of float32 or int32 numbers.
std::string reducer(std::string_view op, Element element) {
  const std::string scalar = Type{{}, element}.text();
  return fmt::format(
      "({{\n      ^bb0(%a: {0}, %b: {0}):\n        %s = \"stablehlo.{1}\"(%a, %b) : ({0}, {0}) -> {0}\n        "
      "\"stablehlo.return\"(%s) : ({0}) -> ()\n    }})",
      scalar, op);
}

Sizes without(const Shape& shape, const Sizes& axes) {
  Sizes left;
  for (std::int64_t axis = 0; axis < shape.rank(); ++axis) {
    if (std::ranges::count(axes, axis) == 0) left.push_back(shape[static_cast<int>(axis)]);
  }
  return left;
}

Value reduce(const Value& x, const Sizes& axes, std::string_view op, double start) {
  if (axes.empty()) return x;
  const Value from = x.to->constant(start, {{}, x.type.element});
  return x.to->emit("reduce", {x, from}, {Shape(without(x.shape(), axes)), x.type.element},
                    fmt::format("dimensions = {}", array(axes)), reducer(op, x.type.element));
}

std::string precision(bool narrow) {
  const std::string_view word = narrow ? "DEFAULT" : "HIGHEST";
  return fmt::format("precision_config = [#stablehlo<precision {0}>, #stablehlo<precision {0}>]", word);
}

}  // namespace

// ---- shapes ----

Value reshape(const Value& x, const Shape& shape) {
  return x.shape() == shape ? x : x.to->emit("reshape", {x}, {shape, x.type.element});
}

Value broadcast(const Value& x, const Shape& shape, const Sizes& axes) {
  if (x.shape() == shape) return x;
  return x.to->emit("broadcast_in_dim", {x}, {shape, x.type.element},
                    fmt::format("broadcast_dimensions = {}", axes.empty() ? "array<i64>" : array(axes)));
}

Value transpose(const Value& x, const Sizes& axes) {
  Sizes sizes;
  for (const std::int64_t axis : axes) sizes.push_back(x.size(static_cast<int>(axis)));
  return x.to->emit("transpose", {x}, {Shape(sizes), x.type.element}, fmt::format("permutation = {}", array(axes)));
}

Value reverse(const Value& x, const Sizes& axes) {
  return x.to->emit("reverse", {x}, x.type, fmt::format("dimensions = {}", array(axes)));
}

Value slice(const Value& x, const Sizes& begin, const Sizes& end, const Sizes& strides) {
  const Sizes by = strides.empty() ? Sizes(begin.size(), 1) : strides;
  Sizes sizes;
  for (std::size_t i = 0; i < begin.size(); ++i) sizes.push_back((end[i] - begin[i] + by[i] - 1) / by[i]);
  if (Shape(sizes) == x.shape()) return x;
  return x.to->emit(
      "slice", {x}, {Shape(sizes), x.type.element},
      fmt::format("limit_indices = {}, start_indices = {}, strides = {}", array(end), array(begin), array(by)));
}

Value pad(const Value& x, double value, const Padding& padding) {
  const Sizes between = padding.between.empty() ? Sizes(padding.low.size(), 0) : padding.between;
  Sizes sizes;
  for (std::size_t i = 0; i < between.size(); ++i) {
    const std::int64_t size = x.size(static_cast<int>(i));
    sizes.push_back(size + std::max<std::int64_t>(size - 1, 0) * between[i] + padding.low[i] + padding.high[i]);
  }
  if (Shape(sizes) == x.shape() && std::ranges::all_of(padding.low, [](std::int64_t low) { return low == 0; }))
    return x;
  return x.to->emit("pad", {x, x.to->constant(value, {{}, x.type.element})}, {Shape(sizes), x.type.element},
                    fmt::format("edge_padding_high = {}, edge_padding_low = {}, interior_padding = {}",
                                array(padding.high), array(padding.low), array(between)));
}

Value concat(std::span<const Value> parts, std::int64_t axis) {
  if (parts.size() == 1) return parts[0];
  Sizes sizes(parts[0].shape().dims().begin(), parts[0].shape().dims().end());
  sizes[static_cast<std::size_t>(axis)] = 0;
  for (const Value& part : parts) sizes[static_cast<std::size_t>(axis)] += part.size(static_cast<int>(axis));
  return parts[0].to->emit("concatenate", parts, {Shape(sizes), parts[0].type.element},
                           fmt::format("dimension = {} : i64", axis));
}

Value row_of(const Value& x, const Value& index) {
  std::vector<Value> operands{x, index};
  Sizes sizes(x.shape().dims().begin(), x.shape().dims().end());
  sizes[0] = 1;
  operands.resize(sizes.size() + 1, filled(index, 0));
  const Value row = x.to->emit("dynamic_slice", operands, {Shape(sizes), x.type.element},
                               fmt::format("slice_sizes = {}", array(sizes)));
  return reshape(row, Shape(x.shape().dims().subspan(1)));
}

Value with_row(const Value& x, const Value& index, const Value& row) {
  std::vector<Value> operands{x, reshape(row, row.shape().with_leading(1)), index};
  operands.resize(static_cast<std::size_t>(x.rank()) + 2, filled(index, 0));
  return x.to->emit("dynamic_update_slice", operands, x.type);
}

// ---- sums ----

Value sum(const Value& x, const Sizes& axes) { return reduce(x, axes, "add", 0); }
Value largest(const Value& x, const Sizes& axes) { return reduce(x, axes, "maximum", -INFINITY); }

Value sum_windows(const Value& x, const Sizes& window, const Sizes& strides) {
  Sizes sizes;
  for (std::size_t i = 0; i < window.size(); ++i) {
    sizes.push_back((x.size(static_cast<int>(i)) - window[i]) / strides[i] + 1);
  }
  return x.to->emit("reduce_window", {x, x.to->constant(0, {{}, x.type.element})}, {Shape(sizes), x.type.element},
                    fmt::format("window_dimensions = {}, window_strides = {}", array(window), array(strides)),
                    reducer("add", x.type.element));
}

// ---- replicas ----

namespace {

/// All of them meet.
std::string group_of(std::int64_t replicas) {
  std::vector<std::int64_t> all(static_cast<std::size_t>(replicas));
  std::iota(all.begin(), all.end(), 0);
  return fmt::format("replica_groups = dense<[[{}]]> : tensor<1x{}xi64>", fmt::join(all, ", "), replicas);
}
Value all_reduce(const Value& x, std::int64_t replicas, std::string_view op) {
  return x.to->emit("all_reduce", {x}, x.type, group_of(replicas), reducer(op, x.type.element));
}

}  // namespace

Value sum_of_replicas(const Value& x, std::int64_t replicas) { return all_reduce(x, replicas, "add"); }
Value largest_of_replicas(const Value& x, std::int64_t replicas) { return all_reduce(x, replicas, "maximum"); }
Value least_of_replicas(const Value& x, std::int64_t replicas) { return all_reduce(x, replicas, "minimum"); }

Value rows_of_replicas(const Value& x, std::int64_t replicas) {
  return x.to->emit("all_gather", {reshape(x, x.shape().with_leading(1))},
                    {x.shape().with_leading(replicas), x.type.element},
                    fmt::format("all_gather_dim = 0 : i64, {}", group_of(replicas)));
}

Value row_of_sum(const Value& x, std::int64_t replicas) {
  const Shape row(x.shape().dims().subspan(1));
  const Value own =
      x.to->emit("reduce_scatter", {x}, {row.with_leading(1), x.type.element},
                 fmt::format("scatter_dimension = 0 : i64, {}", group_of(replicas)), reducer("add", x.type.element));
  return reshape(own, row);
}

Value replica_number(Builder& to) {
  return convert(to.emit("replica_id", std::span<const Value>(), {{}, Element::kU32}), Element::kI32);
}

Value dot(const Value& a, const Value& b, const DotAxes& axes, Product product) {
  const bool narrow = product == Product::kNarrow && a.to->bf16();
  const Element element = narrow ? Element::kBF16 : a.type.element;
  Sizes sizes, a_gone = axes.a_sum, b_gone = axes.b_sum;
  for (const std::int64_t axis : axes.a_batch) sizes.push_back(a.size(static_cast<int>(axis)));
  a_gone.insert(a_gone.end(), axes.a_batch.begin(), axes.a_batch.end());
  b_gone.insert(b_gone.end(), axes.b_batch.begin(), axes.b_batch.end());
  for (const std::int64_t size : without(a.shape(), a_gone)) sizes.push_back(size);
  for (const std::int64_t size : without(b.shape(), b_gone)) sizes.push_back(size);
  return a.to->emit(
      "dot_general", {convert(a, element), convert(b, element)}, {Shape(sizes), Element::kF32},
      fmt::format("dot_dimension_numbers = #stablehlo.dot<lhs_batching_dimensions = {}, rhs_batching_dimensions = {}, "
                  "lhs_contracting_dimensions = {}, rhs_contracting_dimensions = {}>, {}",
                  axes_text(axes.a_batch), axes_text(axes.b_batch), axes_text(axes.a_sum), axes_text(axes.b_sum),
                  precision(narrow)));
}

Value convolve(const Value& x, const Value& kernel, const Convolution& of, const Shape& result) {
  const Element element = x.to->bf16() ? Element::kBF16 : x.type.element;
  return x.to->emit(
      "convolution", {convert(x, element), convert(kernel, element)}, {result, Element::kF32},
      fmt::format(
          "batch_group_count = 1 : i64, dimension_numbers = #stablehlo.conv<{}>, feature_group_count = 1 : i64, "
          "lhs_dilation = {}, padding = dense<[[{}, {}], [{}, {}]]> : tensor<2x2xi64>, {}, rhs_dilation = {}, "
          "window_reversal = array<i1: {}, {}>, window_strides = {}",
          of.dimensions, array(of.x_dilation), of.low[0], of.high[0], of.low[1], of.high[1], precision(x.to->bf16()),
          array(of.kernel_dilation), of.mirrored, of.mirrored, array(of.strides)));
}

// ---- lookups ----

Value take(const Value& x, const Value& index, const Sizes& axes) {
  Sizes sizes(index.shape().dims().begin(), index.shape().dims().end() - 1), window, offsets;
  for (std::int64_t axis = 0; axis < x.rank(); ++axis) {
    const bool indexed = std::ranges::count(axes, axis) > 0;
    window.push_back(indexed ? 1 : x.size(static_cast<int>(axis)));
    if (indexed) continue;
    offsets.push_back(static_cast<std::int64_t>(sizes.size()));
    sizes.push_back(window.back());
  }
  return x.to->emit("gather", {x, index}, {Shape(sizes), x.type.element},
                    fmt::format("dimension_numbers = #stablehlo.gather<offset_dims = {}, collapsed_slice_dims = {}, "
                                "start_index_map = {}, index_vector_dim = {}>, indices_are_sorted = false, "
                                "slice_sizes = {}",
                                axes_text(offsets), axes_text(axes), axes_text(axes), index.rank() - 1, array(window)));
}

Value give_back(const Value& taken, const Value& index, const Sizes& axes, const Shape& shape) {
  const Value zeros = taken.to->constant(0, {shape, taken.type.element});
  Sizes offsets;
  for (std::int64_t axis = index.rank() - 1; axis < taken.rank(); ++axis) offsets.push_back(axis);
  return taken.to->emit(
      "scatter", {zeros, index, taken}, zeros.type,
      fmt::format("indices_are_sorted = false, scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = {}, "
                  "inserted_window_dims = {}, scatter_dims_to_operand_dims = {}, index_vector_dim = {}>, "
                  "unique_indices = false",
                  axes_text(offsets), axes_text(axes), axes_text(axes), index.rank() - 1),
      reducer("add", taken.type.element));
}

}  // namespace troupe::learner::hlo
