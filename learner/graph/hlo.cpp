#include <troupe/learner/graph/hlo.hpp>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <utility>

#include <troupe/core/check.hpp>

namespace troupe::learner::hlo {

namespace {

std::string_view element_text(Element element) {
  switch (element) {
    case Element::kBool:
      return "i1";
    case Element::kU8:
      return "ui8";
    case Element::kI32:
      return "i32";
    case Element::kU32:
      return "ui32";
    case Element::kF32:
      return "f32";
    case Element::kF64:
      return "f64";
    case Element::kBF16:
      return "bf16";
  }
  return "f32";
}

bool is_real(Element element) { return element >= Element::kF32; }

/// A number as MLIR reads it: reals have a point; those that are no numbers are written as their bits.
std::string number(double value, Element element) {
  if (element == Element::kBool) return value != 0 ? "true" : "false";
  if (!is_real(element)) return fmt::format("{}", static_cast<std::int64_t>(value));
  if (!std::isfinite(value)) {
    const bool negative = std::signbit(value);
    if (element == Element::kF64) return fmt::format("0x{:016X}", std::bit_cast<std::uint64_t>(value));
    if (std::isnan(value)) return element == Element::kF32 ? "0x7FC00000" : "0x7FC0";
    if (element == Element::kF32) return negative ? "0xFF800000" : "0x7F800000";
    return negative ? "0xFF80" : "0x7F80";
  }
  std::string text = element == Element::kF64 ? fmt::format("{}", value) : fmt::format("{}", static_cast<float>(value));
  if (text.find('.') != std::string::npos) return text;
  const std::size_t exponent = text.find('e');
  return exponent == std::string::npos ? text + ".0" : text.insert(exponent, ".0");
}

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

Value compare(std::string_view direction, const Value& a, const Value& b) {
  return a.to->emit("compare", {a, b}, {a.shape(), Element::kBool},
                    fmt::format("comparison_direction = #stablehlo<comparison_direction {}>", direction));
}

std::string precision(bool narrow) {
  const std::string_view word = narrow ? "DEFAULT" : "HIGHEST";
  return fmt::format("precision_config = [#stablehlo<precision {0}>, #stablehlo<precision {0}>]", word);
}

}  // namespace

Element element_of(DType dtype) {
  switch (dtype) {
    case DType::kI32:
    case DType::kI64:
      return Element::kI32;
    case DType::kU8:
      return Element::kU8;
    case DType::kF64:
      return Element::kF64;
    case DType::kF32:
    case DType::kBF16:
      return Element::kF32;
  }
  return Element::kF32;
}

std::string Type::text() const {
  std::string made = "tensor<";
  for (const std::int64_t size : shape.dims()) made += fmt::format("{}x", size);
  return made.append(element_text(element)) + ">";
}

// ---- writing ----

Value Builder::argument(const Type& type) { return arguments_.emplace_back(Value{this, count_++, type}); }

Value Builder::cached(std::string text, const Type& type) {
  const auto found = known_.find(text);
  if (found != known_.end()) return found->second;
  const Value made{this, count_++, type};
  constants_ += fmt::format("    %{} = {}\n", made.id, text);
  return known_.emplace(std::move(text), made).first->second;
}

Value Builder::constant(double value, const Type& type) {
  const std::string text = type.text();
  return cached(fmt::format("\"stablehlo.constant\"() <{{value = dense<{}> : {}}}> : () -> {}",
                            number(value, type.element), text, text),
                type);
}

Value Builder::constant(std::span<const float> values, const Shape& shape) {
  const Type type{shape, Element::kF32};
  if (values.size() == 1 || std::ranges::all_of(values, [&](float x) { return x == values[0]; })) {
    return constant(values.empty() ? 0 : static_cast<double>(values[0]), type);
  }
  std::string bytes;  // little-endian
  for (const float value : values) {
    const auto bits = std::bit_cast<std::uint32_t>(value);
    for (int byte = 0; byte < 4; ++byte) bytes += fmt::format("{:02X}", bits >> (8 * byte) & 0xff);
  }
  const std::string text = type.text();
  return cached(
      fmt::format("\"stablehlo.constant\"() <{{value = dense<\"0x{}\"> : {}}}> : () -> {}", bytes, text, text), type);
}

Value Builder::iota(const Type& type, std::int64_t axis) {
  return cached(fmt::format("\"stablehlo.iota\"() <{{iota_dimension = {} : i64}}> : () -> {}", axis, type.text()),
                type);
}

Value Builder::emit(std::string_view name, std::span<const Value> operands, const Type& result,
                    std::string_view attributes, std::string_view inside) {
  const Value made{this, count_++, result};
  std::string names, types;
  for (const Value& each : operands) {
    TROUPE_CHECK(each.to == this, "an operand of {} is of another function", name);
    names += fmt::format("{}%{}", names.empty() ? "" : ", ", each.id);
    types += fmt::format("{}{}", types.empty() ? "" : ", ", each.type.text());
  }
  body_ += fmt::format("    %{} = \"stablehlo.{}\"({})", made.id, name, names);
  if (!attributes.empty()) body_ += fmt::format(" <{{{}}}>", attributes);
  if (!inside.empty()) body_ += fmt::format(" {}", inside);
  body_ += fmt::format(" : ({}) -> {}\n", types, result.text());
  return made;
}

Value Builder::branch(const Value& condition, const std::function<Value()>& then, const Value& otherwise) {
  const std::string outside = std::exchange(body_, {});
  const Value made = then();
  const auto returned = [](const Value& value) {
    return fmt::format("    \"stablehlo.return\"(%{}) : ({}) -> ()\n", value.id, value.type.text());
  };
  const std::string inside =
      fmt::format("({{\n{}{}    }}, {{\n{}    }})", std::exchange(body_, outside), returned(made), returned(otherwise));
  return emit("if", {condition}, otherwise.type, {}, inside);
}

std::string Builder::module(std::string_view name, std::span<const Value> results, const Aliases& aliases) const {
  const auto types = [](std::span<const Value> values) {
    std::string text;
    for (const Value& each : values) text += fmt::format("{}{}", text.empty() ? "" : ", ", each.type.text());
    return text;
  };
  std::string arguments, names, attributes;
  for (std::size_t i = 0; i < arguments_.size(); ++i) {
    const Value& each = arguments_[i];
    arguments += fmt::format("{}%{}: {}", i == 0 ? "" : ", ", each.id, each.type.text());
    const std::int64_t alias = i < aliases.size() ? aliases[i] : -1;
    attributes += i == 0 ? "" : ", ";
    attributes += alias < 0 ? "{}" : fmt::format("{{tf.aliasing_output = {} : i32}}", alias);
  }
  for (const Value& each : results) names += fmt::format("{}%{}", names.empty() ? "" : ", ", each.id);
  const bool lends = std::ranges::any_of(aliases, [](std::int64_t alias) { return alias >= 0; });
  return fmt::format(
      "module @{} {{\n  \"func.func\"() <{{{}function_type = ({}) -> ({}), sym_name = \"main\", sym_visibility = "
      "\"public\"}}> ({{\n  ^bb0({}):\n{}{}    \"func.return\"({}) : ({}) -> ()\n  }}) : () -> ()\n}}\n",
      name, lends ? fmt::format("arg_attrs = [{}], ", attributes) : "", types(arguments_), types(results), arguments,
      constants_, body_, names, types(results));
}

// ---- element by element ----

Value filled(const Value& like, double value) { return like.to->constant(value, like.type); }

Value unary(std::string_view name, const Value& x) { return x.to->emit(name, {x}, x.type); }

Value binary(std::string_view name, const Value& a, const Value& b) {
  TROUPE_CHECK(a.type == b.type, "{} of {} and {}", name, a.type.text(), b.type.text());
  return a.to->emit(name, {a, b}, a.type);
}

Value operator+(const Value& a, const Value& b) { return binary("add", a, b); }
Value operator-(const Value& a, const Value& b) { return binary("subtract", a, b); }
Value operator*(const Value& a, const Value& b) { return binary("multiply", a, b); }
Value operator/(const Value& a, const Value& b) { return binary("divide", a, b); }
Value maximum(const Value& a, const Value& b) { return binary("maximum", a, b); }
Value minimum(const Value& a, const Value& b) { return binary("minimum", a, b); }

Value is_greater(const Value& a, const Value& b) { return compare("GT", a, b); }
Value is_at_least(const Value& a, const Value& b) { return compare("GE", a, b); }
Value is_equal(const Value& a, const Value& b) { return compare("EQ", a, b); }
Value is_different(const Value& a, const Value& b) { return compare("NE", a, b); }

Value is_finite(const Value& x) { return x.to->emit("is_finite", {x}, {x.shape(), Element::kBool}); }

Value select(const Value& condition, const Value& yes, const Value& no) {
  TROUPE_CHECK(yes.type == no.type && (condition.rank() == 0 || condition.shape() == yes.shape()),
               "select of {} between {} and {}", condition.type.text(), yes.type.text(), no.type.text());
  return yes.to->emit("select", {condition, yes, no}, yes.type);
}

Value convert(const Value& x, Element element) {
  return x.type.element == element ? x : x.to->emit("convert", {x}, {x.shape(), element});
}

Value bits_as(const Value& x, Element element) { return x.to->emit("bitcast_convert", {x}, {x.shape(), element}); }

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
