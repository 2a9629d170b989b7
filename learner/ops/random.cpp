#include <troupe/learner/ops/random.hpp>

#include <fmt/format.h>

#include <vector>

#include <troupe/core/rng.hpp>
#include <troupe/learner/ops/choice.hpp>
#include <troupe/learner/ops/elementwise.hpp>
#include <troupe/learner/ops/internal.hpp>

namespace troupe::learner {

namespace {

enum class Distribution : std::uint8_t { kUniform = 0, kNormal = 1 };

// in: seed, count. integer: stream, first row, elements of a row, distribution.
constexpr OpDef kRandom{
    .name = "random",
    .infer = [](Specs, const Attr& attr) -> Inferred {
      return std::vector<ValueSpec>{{attr.shape, DType::kF32, Place::kRows}};
    },
    .kernel = [](const KernelTable& table) { return table.random; },
    .vjp = [](const VjpArgs&) -> std::vector<Var> { return {}; },
};
constexpr OpDef kCountStep{
    .name = "count_step",
    .infer = [](Specs in, const Attr&) -> Inferred { return std::vector<ValueSpec>{in[0]}; },
    .kernel = [](const KernelTable& table) { return table.count_step; },
};

Var random(Graph& graph, std::string_view name, const Shape& row_shape, Distribution distribution) {
  if (!graph.status().ok()) return {};
  constexpr std::int64_t kLimit = std::int64_t{1} << 32;
  const std::int64_t width = row_shape.elements();
  if ((graph.first_row() + graph.batch()) >= kLimit / width) {
    return graph.fail(Code::kInvalidArgument,
                      fmt::format("random \"{}\": rows of {} up to row {}, expected below 2^32 "
                                  "elements in all",
                                  name, row_shape.to_string(), graph.first_row() + graph.batch()));
  }
  std::vector<std::int64_t> dims{graph.batch()};
  dims.insert(dims.end(), row_shape.dims().begin(), row_shape.dims().end());
  // The bits of a float that was drawn with the program's seed are the generator's key.
  const Var seed = graph.state("random/seed", {1}, Init::uniform(1));
  const Var count = graph.state("random/count", {2}, Init::constant(0));
  if (graph.latest(count) == count) graph.assign(count, graph.emit1(kCountStep, {count}));  // once a step
  return graph.emit1(kRandom, {seed, count},
                     {.integer = {static_cast<std::int64_t>(derive_seed(0, name, 0) & 0xffffffffU), graph.first_row(),
                                  width, static_cast<std::int64_t>(distribution)},
                      .shape = Shape(dims)});
}

}  // namespace

Var random_uniform(Graph& graph, std::string_view name, const Shape& row_shape) {
  return random(graph, name, row_shape, Distribution::kUniform);
}
Var random_normal(Graph& graph, std::string_view name, const Shape& row_shape) {
  return random(graph, name, row_shape, Distribution::kNormal);
}

Var dropout(Var x, std::string_view name, double rate) {
  if (!x) return {};
  Graph& graph = *x.graph;
  const ValueSpec spec = graph.spec(x);
  if (!(rate >= 0 && rate < 1) || spec.place != Place::kRows || spec.shape[0] != graph.batch()) {
    return graph.fail(Code::kInvalidArgument,
                      fmt::format("dropout \"{}\": rate {} of {}, expected a rate in [0, 1) and a value with the "
                                  "batch's rows",
                                  name, rate, spec.shape.to_string()));
  }
  const Var drawn = random_uniform(graph, name, Shape(spec.shape.dims().subspan(1)));
  const Var dropped = greater(graph.constant({}, {static_cast<float>(rate)}), drawn);
  return mul(x, affine(dropped, -1 / (1 - rate), 1 / (1 - rate)));
}

}  // namespace troupe::learner
