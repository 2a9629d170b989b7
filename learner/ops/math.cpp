#include <troupe/learner/ops/math.hpp>

#include <troupe/learner/ops/elementwise.hpp>
#include <troupe/learner/ops/hlo_parts.hpp>
#include <troupe/learner/ops/internal.hpp>

namespace troupe::learner {

namespace {

Inferred infer_function(Specs in, const Attr&) {
  TROUPE_TRY(check_real(in, 1));
  return same_shape(in, 0);
}

constexpr OpDef kExp{
    .name = "exp",
    .infer = infer_function,
    .kernel = [](const KernelTable& table) { return table.exp; },
    .vjp = [](const VjpArgs& args) -> std::vector<Var> { return {mul(args.out_grads[0], args.outputs[0])}; },
    .hlo = [](const hlo::Node& n) -> hlo::Values { return {exp(n.in[0])}; },
    .overwrites = 1,
};
constexpr OpDef kLog{
    .name = "log",
    .infer = infer_function,
    .kernel = [](const KernelTable& table) { return table.log; },
    .vjp = [](const VjpArgs& args) -> std::vector<Var> { return {div(args.out_grads[0], args.inputs[0])}; },
    .hlo = [](const hlo::Node& n) -> hlo::Values { return {log(n.in[0])}; },
    .overwrites = 1,
};
constexpr OpDef kSqrt{
    .name = "sqrt",
    .infer = infer_function,
    .kernel = [](const KernelTable& table) { return table.sqrt; },
    .vjp = [](const VjpArgs& args) -> std::vector<Var> {
      return {scale(div(args.out_grads[0], args.outputs[0]), 0.5)};
    },
    .hlo = [](const hlo::Node& n) -> hlo::Values { return {sqrt(n.in[0])}; },
    .overwrites = 1,
};
constexpr OpDef kSign{
    .name = "sign",
    .infer = infer_function,
    .kernel = [](const KernelTable& table) { return table.sign; },
    .hlo = [](const hlo::Node& n) -> hlo::Values { return {unary("sign", n.in[0])}; },
    .overwrites = 1,
};
constexpr OpDef kAbs{
    .name = "abs",
    .infer = infer_function,
    .kernel = [](const KernelTable& table) { return table.abs; },
    .vjp = [](const VjpArgs& args) -> std::vector<Var> {
      return {mul(args.out_grads[0], args.graph.emit1(kSign, {args.inputs[0]}))};
    },
    .hlo = [](const hlo::Node& n) -> hlo::Values { return {unary("abs", n.in[0])}; },
    .overwrites = 1,
};
constexpr OpDef kSoftplus{
    .name = "softplus",
    .infer = infer_function,
    .kernel = [](const KernelTable& table) { return table.softplus; },
    .vjp = [](const VjpArgs& args) -> std::vector<Var> { return {mul(args.out_grads[0], sigmoid(args.inputs[0]))}; },
    .hlo = [](const hlo::Node& n) -> hlo::Values {
      const hlo::Value& x = n.in[0];
      return {maximum(x, 0) + unary("log_plus_one", exp(0 - unary("abs", x)))};
    },
    .overwrites = 1,
};

}  // namespace

Var exp(Var x) { return x ? x.graph->emit1(kExp, {x}) : Var{}; }
Var log(Var x) { return x ? x.graph->emit1(kLog, {x}) : Var{}; }
Var sqrt(Var x) { return x ? x.graph->emit1(kSqrt, {x}) : Var{}; }
Var abs(Var x) { return x ? x.graph->emit1(kAbs, {x}) : Var{}; }
Var softplus(Var x) { return x ? x.graph->emit1(kSoftplus, {x}) : Var{}; }

}  // namespace troupe::learner
