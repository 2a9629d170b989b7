#include <troupe/learner/graph/hlo.hpp>

#include <fmt/format.h>

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

Value compare(std::string_view direction, const Value& a, const Value& b) {
  return a.to->emit("compare", {a, b}, {a.shape(), Element::kBool},
                    fmt::format("comparison_direction = #stablehlo<comparison_direction {}>", direction));
}

template <typename Text>
std::string joined(std::span<const Value> values, Text text) {
  std::string all;
  for (const Value& each : values) all.append(all.empty() ? "" : ", ").append(text(each));
  return all;
}
/// "%1, %2"
std::string ids_of(std::span<const Value> values) {
  return joined(values, [](const Value& each) { return fmt::format("%{}", each.id); });
}
/// "f32, i32"
std::string types_of(std::span<const Value> values) {
  return joined(values, [](const Value& each) { return each.type.text(); });
}
/// "%1: f32, %2: i32"
std::string declared(std::span<const Value> values) {
  return joined(values, [](const Value& each) { return fmt::format("%{}: {}", each.id, each.type.text()); });
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
  for (const Value& each : operands) TROUPE_CHECK(each.to == this, "an operand of {} is of another function", name);
  body_ += fmt::format("    %{} = \"stablehlo.{}\"({})", made.id, name, ids_of(operands));
  if (!attributes.empty()) body_ += fmt::format(" <{{{}}}>", attributes);
  if (!inside.empty()) body_ += fmt::format(" {}", inside);
  body_ += fmt::format(" : ({}) -> {}", types_of(operands), result.text());
  body_ += location_.empty() ? "\n" : fmt::format(" loc(\"{}\")\n", location_);
  return made;
}

std::vector<Value> Builder::named_like(std::span<const Value> values) {
  std::vector<Value> made;
  for (const Value& each : values) made.push_back({this, count_++, each.type});
  return made;
}

std::string Builder::region(std::span<const Value> arguments, std::span<const Value> returned) {
  const std::string takes = arguments.empty() ? "" : fmt::format("    ^bb0({}):\n", declared(arguments));
  return fmt::format("{{\n{}{}    \"stablehlo.return\"({}) : ({}) -> ()\n    }}", takes, std::exchange(body_, {}),
                     ids_of(returned), types_of(returned));
}

std::vector<Value> Builder::loop(std::int64_t count, std::span<const Value> start, const Step& step) {
  const Type whole{{}, Element::kI32};
  std::vector<Value> carried{constant(0, whole)};
  carried.insert(carried.end(), start.begin(), start.end());
  const std::string outside = std::exchange(body_, {});
  const std::vector<Value> tested = named_like(carried);
  const std::vector<Value> more{is_less(tested[0], static_cast<double>(count))};
  const std::string condition = region(tested, more);
  const std::vector<Value> before = named_like(carried);
  std::vector<Value> after = step(before[0], std::span(before).subspan(1));
  after.insert(after.begin(), before[0] + 1);
  TROUPE_CHECK(after.size() == before.size(), "a loop carries {} values and then {}", before.size(), after.size());
  const std::string body = region(before, after);
  const std::vector<Value> made = named_like(carried);
  body_ = fmt::format("{}    {} = \"stablehlo.while\"({}) ({}, {}) : ({}) -> ({})\n", outside, ids_of(made),
                      ids_of(carried), condition, body, types_of(carried), types_of(carried));
  return {made.begin() + 1, made.end()};
}

std::vector<Value> Builder::choose(const Value& condition, const Branch& yes, const Branch& no) {
  const std::string outside = std::exchange(body_, {});
  const std::vector<Value> if_so = yes();
  const std::string first = region({}, if_so);
  const std::vector<Value> if_not = no();
  const std::string second = region({}, if_not);
  TROUPE_CHECK(types_of(if_so) == types_of(if_not), "branches make {} and {}", types_of(if_so), types_of(if_not));
  const std::vector<Value> made = named_like(if_so);
  body_ = fmt::format("{}    {} = \"stablehlo.if\"(%{}) ({}, {}) : ({}) -> ({})\n", outside, ids_of(made), condition.id,
                      first, second, condition.type.text(), types_of(made));
  return made;
}

std::string Builder::module(std::string_view name, std::span<const Value> results, const Aliases& aliases) const {
  std::string attributes;
  for (std::size_t i = 0; i < arguments_.size(); ++i) {
    const std::int64_t alias = i < aliases.size() ? aliases[i] : -1;
    attributes += i == 0 ? "" : ", ";
    attributes += alias < 0 ? "{}" : fmt::format("{{tf.aliasing_output = {} : i32}}", alias);
  }
  const bool lends = std::ranges::any_of(aliases, [](std::int64_t alias) { return alias >= 0; });
  return fmt::format(
      "module @{} {{\n  \"func.func\"() <{{{}function_type = ({}) -> ({}), sym_name = \"main\", sym_visibility = "
      "\"public\"}}> ({{\n  ^bb0({}):\n{}{}    \"func.return\"({}) : ({}) -> ()\n  }}) : () -> ()\n}}\n",
      name, lends ? fmt::format("arg_attrs = [{}], ", attributes) : "", types_of(arguments_), types_of(results),
      declared(arguments_), constants_, body_, ids_of(results), types_of(results));
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

}  // namespace troupe::learner::hlo
