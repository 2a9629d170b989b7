#include <troupe/learner/ops/internal.hpp>

#include <fmt/format.h>

#include <algorithm>

#include <troupe/learner/engine/cpu/convolution.hpp>
#include <troupe/learner/ops/hlo_parts.hpp>

namespace troupe::learner {

std::string shapes_text(Specs specs) {
  std::string text;
  for (std::size_t i = 0; i < specs.size(); ++i) {
    text += fmt::format("{}{}", i == 0 ? "" : i + 1 == specs.size() ? " and " : ", ", specs[i].shape.to_string());
  }
  return text;
}

Error shape_error(Specs got, std::string_view expected) {
  return {Code::kShapeMismatch, fmt::format("got {}, expected {}", shapes_text(got), expected)};
}

Result<Place> combine_places(Specs operands, unsigned linear) {
  const auto count = [&](Place place) { return std::ranges::count(operands, place, &ValueSpec::place); };
  const auto partial = count(Place::kPartial);
  if (partial == 0) return count(Place::kRows) > 0 ? Place::kRows : Place::kReplicated;
  for (std::size_t i = 0; i < operands.size(); ++i) {
    if (operands[i].place == Place::kPartial && (linear >> i & 1U) == 0) {
      return Error{
          Code::kInvalidArgument,
          fmt::format("operand {} is a sum over stripes and the operation is not linear in it; use sum_stripes()", i)};
    }
  }
  if (partial > 1 || count(Place::kRows) > 0) {
    return Error{Code::kInvalidArgument,
                 "operands mix a sum over stripes with another one or with rows; use sum_stripes()"};
  }
  return Place::kPartial;
}

Status check_real(Specs operands, std::size_t count) {
  if (operands.size() != count) {
    return Error{Code::kInvalidArgument, fmt::format("{} operands, expected {}", operands.size(), count)};
  }
  for (const ValueSpec& operand : operands) {
    if (operand.dtype != DType::kF32) {
      return Error{Code::kInvalidArgument,
                   fmt::format("operand is {}, expected float32", troupe::to_string(operand.dtype))};
    }
  }
  return {};
}

Inferred same_shape(Specs operands, unsigned linear) {
  TROUPE_TRY(check_real(operands, operands.size()));
  for (const ValueSpec& operand : operands) {
    const bool split_alike = (operand.place == Place::kRows) == (operands[0].place == Place::kRows);
    if (operand.shape != operands[0].shape || !split_alike) return shape_error(operands, "one shape, split alike");
  }
  TROUPE_ASSIGN(const Place place, combine_places(operands, linear));
  return std::vector<ValueSpec>{{operands[0].shape, DType::kF32, place}};
}

Inferred shape_of_attr(Specs operands, const Attr& attr) {
  return std::vector<ValueSpec>{{attr.shape, operands[0].dtype, operands[0].place}};
}

Status check_image(const ValueSpec& image) {
  TROUPE_TRY(check_real({&image, 1}, 1));
  if (image.shape.rank() == 4 && image.place != Place::kPartial) return {};
  return shape_error({&image, 1}, "an image [n, h, w, c], not a sum over stripes");
}

Shape without_last(const Shape& shape) { return Shape(shape.dims().first(static_cast<std::size_t>(shape.rank() - 1))); }

namespace {

constexpr OpDef kFill{
    .name = "fill",
    .infer = [](Specs in, const Attr& attr) -> Inferred {
      return std::vector<ValueSpec>{{attr.shape, in[0].dtype, static_cast<Place>(attr.integer[0])}};
    },
    .kernel = [](const KernelTable& table) { return table.fill; },
    .hlo = [](const hlo::Node& n) -> hlo::Values { return {everywhere(reshape(n.in[0], {}), n.attr.shape)}; },
};

// integer: 1 where the result is split by rows, elements of a row or 0, place. real: factor.
constexpr OpDef kFillRows{
    .name = "fill_rows",
    .infer = [](Specs in, const Attr& attr) -> Inferred {
      return std::vector<ValueSpec>{{attr.shape, in[0].dtype, static_cast<Place>(attr.integer[2])}};
    },
    .kernel = [](const KernelTable& table) { return table.fill_rows; },
    .hlo = [](const hlo::Node& n) -> hlo::Values {
      return {counted(n, everywhere(row_factor(n) * n.in[0], n.attr.shape))};
    },
};

constexpr OpDef kMaskRows{
    .name = "mask_rows",
    .infer = [](Specs in, const Attr&) -> Inferred {
      TROUPE_TRY(check_real(in, 1));
      if (in[0].place != Place::kRows) return shape_error(in, "a value split by rows");
      return std::vector<ValueSpec>{in[0]};
    },
    .kernel = [](const KernelTable& table) { return table.mask_rows; },
    .vjp = [](const VjpArgs& args) -> std::vector<Var> { return {mask_rows(args.out_grads[0])}; },
    .hlo = [](const hlo::Node& n) -> hlo::Values { return {select(is_data(n, n.in[0].shape()), n.in[0], 0)}; },
    .overwrites = 1,
};

std::vector<Var> as_partial_vjp(const VjpArgs& args);
constexpr OpDef kAsPartial{
    .name = "as_partial",
    .infer = [](Specs in, const Attr&) -> Inferred {
      if (in[0].place != Place::kReplicated) return shape_error(in, "a replicated value");
      return std::vector<ValueSpec>{{in[0].shape, in[0].dtype, Place::kPartial}};
    },
    .kernel = [](const KernelTable& table) { return table.as_partial; },
    .vjp = as_partial_vjp,
    .hlo = hlo::same,
};
// The gradient of the sum is replicated, and that of x a sum over stripes.
std::vector<Var> as_partial_vjp(const VjpArgs& args) { return {as_partial(args.out_grads[0])}; }

constexpr OpDef kIdentity{
    .name = "identity",
    .infer = [](Specs in, const Attr&) -> Inferred { return std::vector<ValueSpec>{in[0]}; },
    .kernel = [](const KernelTable& table) { return table.copy; },
    .hlo = hlo::same,
};

constexpr OpDef kCast{
    .name = "cast_bf16",
    .infer = [](Specs in, const Attr&) -> Inferred {
      return std::vector<ValueSpec>{{in[0].shape, DType::kBF16, in[0].place}};
    },
    .kernel = [](const KernelTable& table) { return table.cast_bf16; },
    .hlo = [](const hlo::Node& n) -> hlo::Values { return {convert(n.in[0], hlo::Element::kBF16)}; },
};

constexpr OpDef kWiden{
    .name = "cast_f32",
    .infer = [](Specs in, const Attr&) -> Inferred {
      return std::vector<ValueSpec>{{in[0].shape, DType::kF32, in[0].place}};
    },
    .kernel = [](const KernelTable& table) { return table.cast_f32; },
    .hlo = [](const hlo::Node& n) -> hlo::Values { return {convert(n.in[0], hlo::Element::kF32)}; },
};

void pack(const KernelArgs& args) {
  args.conv->run(args.in[0].data, nullptr, nullptr, args.out[0].data, args.workspace);
}
constexpr OpDef kPackWeight{
    .name = "pack_weight",
    .infer = [](Specs in, const Attr&) -> Inferred { return shape_error(in, "a planner, which knows the order"); },
    .kernel = [](const KernelTable&) -> KernelFn { return &pack; },
};

}  // namespace

Var as_partial(Var x) { return x ? x.graph->emit1(kAsPartial, {x}) : Var{}; }

Var fill(Var scalar, const Shape& shape, Place place) {
  if (!scalar) return {};
  Attr attr;
  attr.shape = shape;
  attr.integer[0] = static_cast<std::int64_t>(place);
  return scalar.graph->emit1(kFill, {scalar}, attr);
}

Var fill_rows(Var scalar, const ValueSpec& like, Place place, double factor, std::int64_t per_row) {
  if (!scalar) return {};
  Attr attr;
  attr.shape = like.shape;
  attr.integer = {place == Place::kRows ? 1 : 0, per_row, static_cast<std::int64_t>(place)};
  attr.real = {factor};
  return scalar.graph->emit1(kFillRows, {scalar}, attr);
}

Var mask_rows(Var x) { return x ? x.graph->emit1(kMaskRows, {x}) : Var{}; }

const OpDef& identity_op() { return kIdentity; }
const OpDef& cast_op() { return kCast; }
const OpDef& widen_op() { return kWiden; }
const OpDef& pack_weight_op() { return kPackWeight; }

}  // namespace troupe::learner
