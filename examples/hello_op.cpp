// An operation of one's own: the Huber function, whose mean is a loss that outliers do not rule. Shapes in and out, a
// kernel for the element types and a gradient rule are all there is to it; it then works in every step, on every number
// of threads and under every replicator, on the processor, by its rule for compilers on PJRT plug-ins, and by its
// kernel in hello_op.cu on GPUs. Here it finds the centre of 1, 1, 1 and 100:
//   hello_op                                  4/3, where their mean is 26, and the loss there
//   hello_op cuda:0                           the same on a GPU, with libhello_op_cuda.so beside the program
#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include <troupe/learner/engine/cpu/kernels/kernel_table.hpp>
#include <troupe/learner/engine/program.hpp>
#include <troupe/learner/graph/hlo.hpp>
#include <troupe/learner/ops/elementwise.hpp>
#include <troupe/learner/ops/linear.hpp>
#include <troupe/learner/ops/reduce.hpp>

using namespace troupe;           // NOLINT: an example reads better without prefixes
using namespace troupe::learner;  // NOLINT

// One shard's part of a value, float or double; a program in bfloat16 keeps such values as float.
template <typename T>
void huber_kernel(const KernelArgs& args) {
  const T *const x = args.in[0].as<T>(), one = 1;
  T* const y = args.out[0].as<T>();
  for (std::int64_t i = 0; i < args.out[0].elements(); ++i) {
    const T size = std::abs(x[i]);
    y[i] = size <= one ? size * size / 2 : size - one / 2;
  }
}

// A constant, since a graph keeps pointers to what it is made of.
constexpr OpDef kHuber = {
    .name = "huber",
    // The place says whether stripes hold rows of a value, all of it, or summands of it, which this is not linear in.
    .infer = [](std::span<const ValueSpec> in, const Attr&) -> Result<std::vector<ValueSpec>> {
      if (in[0].dtype == DType::kF32 && in[0].place != Place::kPartial) return std::vector{in[0]};
      return Error{Code::kShapeMismatch, "huber: got integers or a sum over stripes, expected real numbers"};
    },
    .kernel = [](const KernelTable& table) -> KernelFn {
      return table.dtype == DType::kF64 ? huber_kernel<double> : huber_kernel<float>;
    },
    // d huber / dx = x, clipped to [-1, 1]: made of operations that there are.
    .vjp = [](const VjpArgs& args) -> std::vector<Var> {
      return {mul(args.out_grads[0], clip(args.inputs[0], -1, 1))};
    },
    // The library with its kernel for GPUs, made of hello_op.cu.
    .cuda = "libhello_op_cuda.so",
    .hlo = [](const hlo::Node& n) -> hlo::Values {
      const hlo::Value size = unary("abs", n.in[0]);
      return {select(is_greater(size, 1), size - 0.5, 0.5 * (size * size))};
    },
};

Var huber(Var x) { return x ? x.graph->emit1(kHuber, {x}) : Var{}; }

struct Found {
  double centre = 0, loss = 0;
};
Result<Found> find_centre(const std::vector<float>& numbers, const std::string& where) {
  TROUPE_ASSIGN(const Device device, parse_device(where));
  const auto rows = static_cast<std::int64_t>(numbers.size());
  Graph graph(rows);
  const ParamGroup group = graph.group("centre");
  const Var offset = graph.param(group, "offset", {1}, Init::constant(0));
  const Var distance = bias_activation(graph.input("number", {1}), offset);  // number + offset
  const Var loss = mean(huber(distance));
  graph.metric("loss", loss);
  graph.minimize(loss, group, {.rule = Sgd{.learning_rate = 0.5, .momentum = 0}});
  TROUPE_ASSIGN(const auto program, Program::compile(graph, {.device = device}));
  TROUPE_TRY(program->bind("number", std::span<const float>(numbers)));
  for (int step = 0; step < 300; ++step) TROUPE_TRY(program->run());
  return Found{-program->params("centre")->values()[0], program->metrics()[0]};
}

int main(int argc, char** argv) {
  const Result<Found> found = find_centre({1, 1, 1, 100}, argc > 1 ? argv[1] : "cpu");
  if (found.ok()) fmt::print("centre {:.3f}, loss {:.3f}\n", found->centre, found->loss);
  if (!found.ok()) fmt::print(stderr, "hello_op: {}\n", found.error().message);
  return found.ok() ? 0 : 1;
}
