#include <troupe/learner/ops/random.hpp>

#include <fmt/format.h>

#include <array>
#include <numbers>
#include <vector>

#include <troupe/core/rng.hpp>
#include <troupe/learner/ops/choice.hpp>
#include <troupe/learner/ops/elementwise.hpp>
#include <troupe/learner/ops/hlo_parts.hpp>
#include <troupe/learner/ops/internal.hpp>

namespace troupe::learner {

namespace {

enum class Distribution : std::uint8_t { kUniform = 0, kNormal = 1 };

/// Of the step's count in two floats, the low one has so many bits; as the kernel counts.
constexpr int kCountBits = 20;

hlo::Value rotated(const hlo::Value& x, int by) {
  return binary("shift_left", x, filled(x, by)) | binary("shift_right_logical", x, filled(x, 32 - by));
}
/// Threefry-2x32 with 20 rounds, as the kernel has it.
std::array<hlo::Value, 2> threefry(const std::array<hlo::Value, 2>& key, hlo::Value first, hlo::Value second) {
  const std::array<hlo::Value, 3> keys{key[0], key[1],
                                       binary("xor", binary("xor", key[0], key[1]), filled(key[0], 0x1bd11bdaU))};
  constexpr int kRotations[2][4] = {{13, 15, 26, 6}, {17, 29, 16, 24}};
  first = first + keys[0];
  second = second + keys[1];
  for (std::size_t group = 0; group < 5; ++group) {
    for (const int by : kRotations[group % 2]) {
      first = first + second;
      second = binary("xor", rotated(second, by), first);
    }
    first = first + keys[(group + 1) % 3];
    second = second + (keys[(group + 2) % 3] + static_cast<double>(group + 1));
  }
  return {first, second};
}
hlo::Values random_hlo(const hlo::Node& n) {
  using hlo::Element;
  const hlo::Type words{{n.attr.shape.elements()}, Element::kU32};
  const auto scalar = [&](const hlo::Value& x) { return everywhere(reshape(x, {}), words.shape); };
  const hlo::Value low = convert(slice(n.in[1], {0}, {1}), Element::kU32);
  const hlo::Value high = convert(slice(n.in[1], {1}, {2}), Element::kU32);
  const hlo::Value step = scalar(low + binary("shift_left", high, filled(high, kCountBits)));
  const double width = static_cast<double>(n.attr.integer[2]);
  const hlo::Value first = n.first_row.to == nullptr
                               ? n.to.constant(static_cast<double>(n.attr.integer[1]) * width, words)
                               : scalar(width * convert(n.first_row, Element::kU32));
  const auto [a, b] =
      threefry({scalar(bits_as(n.in[0], Element::kU32)), n.to.constant(static_cast<double>(n.attr.integer[0]), words)},
               n.to.iota(words, 0) + first, step);
  // The upper 24 bits: a multiple of 2^-24 in [0, 1).
  const auto unit = [](const hlo::Value& x) {
    return 0x1p-24 * convert(binary("shift_right_logical", x, filled(x, 8)), Element::kF32);
  };
  if (n.attr.integer[3] == 0) return {reshape(unit(a), n.attr.shape)};
  const hlo::Value radius = sqrt(-2 * log(unit(a) + 0x1p-25));
  return {reshape(radius * unary("cosine", (2 * std::numbers::pi) * unit(b)), n.attr.shape)};
}
// in: seed, count. integer: stream, first row, elements of a row, distribution.
constexpr OpDef kRandom{
    .name = "random",
    .infer = [](Specs, const Attr& attr) -> Inferred {
      return std::vector<ValueSpec>{{attr.shape, DType::kF32, Place::kRows}};
    },
    .kernel = [](const KernelTable& table) { return table.random; },
    .vjp = [](const VjpArgs&) -> std::vector<Var> { return {}; },
    .hlo = random_hlo,
};
constexpr OpDef kCountStep{
    .name = "count_step",
    .infer = [](Specs in, const Attr&) -> Inferred { return std::vector<ValueSpec>{in[0]}; },
    .kernel = [](const KernelTable& table) { return table.count_step; },
    .hlo = [](const hlo::Node& n) -> hlo::Values {
      const hlo::Value low = slice(n.in[0], {0}, {1}) + 1, high = slice(n.in[0], {1}, {2});
      const hlo::Value carries = is_at_least(low, 1 << kCountBits);
      const std::array parts{select(carries, 0, low), select(carries, high + 1, high)};
      return {concat(parts, 0)};
    },
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
