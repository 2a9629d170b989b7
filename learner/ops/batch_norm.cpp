#include <troupe/learner/ops/batch_norm.hpp>

#include <fmt/format.h>

#include <array>

#include <troupe/learner/ops/hlo_parts.hpp>
#include <troupe/learner/ops/internal.hpp>
#include <troupe/learner/ops/joint.hpp>

namespace troupe::learner {

namespace {

ValueSpec column(std::int64_t n, Place place) { return {Shape{n}, DType::kF32, place}; }
std::int64_t last(const Shape& shape) { return shape[shape.rank() - 1]; }

/// All but operand 0 replicated and of shape [n], n being the last dimension of operand 0.
Status check_columns(Specs in) {
  if (in[0].shape.rank() < 2) return shape_error(in, "[rows, ..., n] and columns of [n]");
  for (const ValueSpec& each : in.subspan(1)) {
    if (each.shape != Shape{last(in[0].shape)} || each.place != Place::kReplicated) {
      return shape_error(in, fmt::format("[rows, ..., n] and replicated columns of [{}]", last(in[0].shape)));
    }
  }
  return {};
}

/// The sums of batch_sums, each [n], the count too.
struct BatchSums {
  hlo::Value sum, square, count, share;
  explicit BatchSums(const hlo::Value& sums) {
    const std::int64_t n = sums.size(0) / 2;
    sum = slice(sums, {0}, {n});
    square = slice(sums, {n}, {2 * n});
    count = broadcast(slice(sums, {2 * n}, {2 * n + 1}), {n}, {0});
    share = 1 / maximum(count, 1);
  }
};
constexpr OpDef kSumsGrad{
    .name = "batch_sums_grad",
    .infer = [](Specs in, const Attr&) -> Inferred { return std::vector<ValueSpec>{in[1]}; },
    .kernel = [](const KernelTable& table) { return table.image.batch_sums_grad; },
    .bf16_kernel = [](const KernelTable& table) { return table.bf16.batch_sums_grad; },
    .hlo = [](const hlo::Node& n) -> hlo::Values {
      const hlo::Value &x = n.in[1], centred = x - along_last(n.in[2], x.shape());
      const std::int64_t cols = last(x.shape());
      const hlo::Value of_sum = slice(n.in[0], {0}, {cols}), of_square = slice(n.in[0], {cols}, {2 * cols});
      const hlo::Value d = along_last(of_sum, x.shape()) + along_last(2 * of_square, x.shape()) * centred;
      const hlo::Value inside = select(is_data(n, x.shape()), d, 0);
      return {n.attr.integer[0] != 0 ? n.in[3] + inside : inside};
    },
    .overwrites = 8,
};
// x, shift -> sums of x - shift, of its square, and the number of rows: [2 n + 1]. The shift, which all replicas know,
// keeps the difference of large numbers small; the result does not depend on it, so it has no gradient.
constexpr OpDef kSums{
    .name = "batch_sums",
    .infer = [](Specs in, const Attr&) -> Inferred {
      TROUPE_TRY(check_real(in, 2));
      TROUPE_TRY(check_columns(in));
      if (in[0].place != Place::kRows) return shape_error(in, "x split by rows");
      return std::vector<ValueSpec>{column(2 * last(in[0].shape) + 1, Place::kPartial)};
    },
    .kernel = [](const KernelTable& table) { return table.image.batch_sums; },
    .bf16_kernel = [](const KernelTable& table) { return table.bf16.batch_sums; },
    .vjp = [](const VjpArgs& args) -> std::vector<Var> {
      std::vector<Var> operands{args.out_grads[0], args.inputs[0], args.inputs[1]};
      if (args.collected[0]) operands.push_back(args.collected[0]);
      return {args.graph.emit(kSumsGrad, operands, {.integer = {operands.size() == 4}})[0]};
    },
    .hlo = [](const hlo::Node& n) -> hlo::Values {
      const hlo::Value& x = n.in[0];
      const hlo::Value centred = select(is_data(n, x.shape()), x - along_last(n.in[1], x.shape()), 0);
      const double of_row = static_cast<double>(x.shape().elements() / last(x.shape()) / n.batch);
      const hlo::Value count = of_row * convert(n.rows, hlo::Element::kF32);
      const std::array parts{sum_rows(centred, Place::kRows), sum_rows(centred * centred, Place::kRows),
                             reshape(count, {1})};
      return {concat(parts, 0)};
    },
    .collects = 1,
};

constexpr OpDef kMomentsGrad{
    .name = "batch_moments_grad",
    .infer = [](Specs in, const Attr&) -> Inferred {
      return std::vector<ValueSpec>{column(in[2].shape[0], in[0].place)};
    },
    .kernel = [](const KernelTable& table) { return table.batch_moments_grad; },
    .hlo = [](const hlo::Node& n) -> hlo::Values {
      const hlo::Value &dmean = n.in[0], &dinverse = n.in[1], &inverse = n.in[3];
      const BatchSums of(n.in[2]);
      const hlo::Value dvariance = -0.5 * dinverse * (inverse * inverse * inverse);
      const std::array parts{of.share * (dmean - 2 * (of.share * of.sum) * dvariance), of.share * dvariance,
                             n.to.constant(0, {{1}})};
      return {concat(parts, 0)};
    },
};
// sums, running mean, running variance -> mean, 1 / standard deviation, new running mean, new running variance.
constexpr OpDef kMoments{
    .name = "batch_moments",
    .infer = [](Specs in, const Attr&) -> Inferred {
      return std::vector<ValueSpec>(4, column(in[1].shape[0], Place::kReplicated));
    },
    .kernel = [](const KernelTable& table) { return table.batch_moments; },
    .vjp = [](const VjpArgs& args) -> std::vector<Var> {
      return {args.graph.emit1(kMomentsGrad, {args.out_grads[0], args.out_grads[1], args.inputs[0], args.outputs[1]})};
    },
    .hlo = [](const hlo::Node& n) -> hlo::Values {
      const hlo::Value &old_mean = n.in[1], &old_variance = n.in[2];
      const BatchSums of(n.in[0]);
      const hlo::Value offset = of.share * of.sum;
      const hlo::Value variance = maximum(of.share * of.square - offset * offset, 0);
      const hlo::Value momentum = filled(of.count, n.attr.real[1]);
      const hlo::Value take_mean = select(is_greater(of.count, 0), momentum, 0);
      const hlo::Value take_variance = select(is_greater(of.count, 1), momentum, 0);
      const hlo::Value unbias = of.count / maximum(of.count - 1, 1);
      return {old_mean + offset, unary("rsqrt", variance + n.attr.real[0]), old_mean + take_mean * offset,
              old_variance + take_variance * (unbias * variance - old_variance)};
    },
};

constexpr OpDef kInverseRoot{
    .name = "inverse_root",
    .infer = [](Specs in, const Attr&) -> Inferred { return same_shape(in, 0); },
    .kernel = [](const KernelTable& table) { return table.inverse_root; },
    .hlo = [](const hlo::Node& n) -> hlo::Values { return {unary("rsqrt", n.in[0] + n.attr.real[0])}; },
};

constexpr OpDef kNormaliseGrad{
    .name = "normalise_grad",
    .infer = [](Specs in, const Attr&) -> Inferred {
      const Place summed = in[0].place == Place::kRows ? Place::kPartial : in[0].place;
      const ValueSpec sum = column(last(in[2].shape), summed);
      return std::vector<ValueSpec>{in[0], sum, sum};
    },
    .kernel = [](const KernelTable& table) { return table.image.normalise_grad; },
    .bf16_kernel = [](const KernelTable& table) { return table.bf16.normalise_grad; },
    .hlo = [](const hlo::Node& n) -> hlo::Values {
      const hlo::Value d = activation_grad(n.in[0], n.in[1], kind_of(n));
      const Shape& shape = d.shape();
      const Place place = n.in_specs[0].place;
      const hlo::Value product = d * (n.in[2] - along_last(n.in[3], shape));
      return {along_last(n.in[4] * n.in[5], shape) * d, sum_rows(d, place), sum_rows(product, place)};
    },
    .overwrites = 1,
};
std::vector<Var> normalise_vjp(const VjpArgs& args) {
  const Var x = args.inputs[0], mean = args.inputs[1], inverse = args.inputs[2], gain = args.inputs[3];
  // Without activation the kernel has no use for y, so nothing need keep it.
  const Var y = args.attr.integer[0] == 0 ? args.out_grads[0] : args.outputs[0];
  const std::vector<Var> made =
      args.graph.emit(kNormaliseGrad, std::array{args.out_grads[0], y, x, mean, inverse, gain}, args.attr);
  const Var sum = made[1], product = made[2];  // of d, and of d (x - mean)
  std::vector<Var> grads(5);
  grads[0] = made[0];
  if (args.needs[1]) grads[1] = scale(mul(sum, mul(gain, inverse)), -1);
  if (args.needs[2]) grads[2] = mul(product, gain);
  if (args.needs[3]) grads[3] = mul(product, inverse);
  grads[4] = sum;
  return grads;
}
constexpr OpDef kNormalise{
    .name = "normalise",
    .infer = [](Specs in, const Attr&) -> Inferred {
      TROUPE_TRY(check_real(in, 5));
      TROUPE_TRY(check_columns(in));
      return same_shape(in.first(1), 0);
    },
    .kernel = [](const KernelTable& table) { return table.image.normalise; },
    .bf16_kernel = [](const KernelTable& table) { return table.bf16.normalise; },
    .vjp = normalise_vjp,
    .hlo = [](const hlo::Node& n) -> hlo::Values {
      const Shape& shape = n.in[0].shape();
      const hlo::Value centred = n.in[0] - along_last(n.in[1], shape);
      return {activate(centred * along_last(n.in[2] * n.in[3], shape) + along_last(n.in[4], shape), kind_of(n))};
    },
};

}  // namespace

Var batch_norm(Var x, Var gain, Var offset, Var running_mean, Var running_variance, const BatchNormOptions& options) {
  if (!x || !gain || !offset || !running_mean || !running_variance) return {};
  Graph& graph = *x.graph;
  if (!(options.momentum >= 0 && options.momentum <= 1) || !(options.epsilon > 0)) {
    return graph.fail(Code::kInvalidArgument,
                      fmt::format("batch_norm: momentum {} and epsilon {}, expected 0 to 1 and above 0",
                                  options.momentum, options.epsilon));
  }
  const Var old_mean = graph.latest(running_mean), old_variance = graph.latest(running_variance);
  Var mean = old_mean, inverse;
  if (options.training) {
    const Var sums = graph.emit1(kSums, {x, old_mean});
    if (!sums) return {};
    const std::vector<Var> moments = graph.emit(
        kMoments, std::array{options.all_sum ? options.all_sum(sums) : sum_stripes(sums), old_mean, old_variance},
        {.real = {options.epsilon, options.momentum}});
    mean = moments[0];
    inverse = moments[1];
    graph.assign(running_mean, moments[2]);
    graph.assign(running_variance, moments[3]);
  } else {
    inverse = graph.emit1(kInverseRoot, {old_variance}, {.real = {options.epsilon}});
  }
  return graph.emit1(kNormalise, {x, mean, inverse, gain, offset},
                     {.integer = {static_cast<std::int64_t>(options.activation)}});
}

}  // namespace troupe::learner
