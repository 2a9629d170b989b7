#include <troupe/algorithms/control/environment_shape.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include <troupe/learner/ops/choice.hpp>
#include <troupe/learner/ops/elementwise.hpp>

namespace troupe::learner::control {

EnvironmentShape shape_of(const envs::EnvSpec& flattened) {
  return {flattened.observation_size(), flattened.action.low, flattened.action.high};
}

Status validate(const EnvironmentShape& shape, std::string_view where) {
  if (shape.observation_size < 1) {
    return Error{Code::kInvalidArgument,
                 fmt::format("{}: observation_size is {}, expected at least 1", where, shape.observation_size)};
  }
  if (shape.action_low.empty() || shape.action_low.size() != shape.action_high.size()) {
    return Error{Code::kInvalidArgument,
                 fmt::format("{}: action_low has {} entries and action_high {}, expected as many, at least 1", where,
                             shape.action_low.size(), shape.action_high.size())};
  }
  for (std::size_t i = 0; i < shape.action_low.size(); ++i) {
    const double low = shape.action_low[i], high = shape.action_high[i];
    if (std::isfinite(low) && std::isfinite(high) && low < high) continue;
    return Error{Code::kInvalidArgument,
                 fmt::format("{}: bounds of action {} are [{}, {}], expected finite and rising", where, i, low, high)};
  }
  return {};
}

Status validate_layers(const std::vector<std::int64_t>& sizes, std::string_view option, std::string_view where) {
  if (!sizes.empty() && std::ranges::all_of(sizes, [](std::int64_t size) { return size >= 1; })) return {};
  return Error{Code::kInvalidArgument, fmt::format("{}: {} has {}, expected at least one layer, of positive sizes",
                                                   where, option, sizes.empty() ? "no layers" : "a size below 1")};
}

Var to_bounds(Graph& graph, const EnvironmentShape& shape, Var x) {
  const auto is = [](double bound) { return [bound](double b) { return b == bound; }; };
  if (std::ranges::all_of(shape.action_low, is(-1)) && std::ranges::all_of(shape.action_high, is(1))) return x;
  std::vector<float> half_range, centre;
  for (std::size_t i = 0; i < shape.action_low.size(); ++i) {
    half_range.push_back(static_cast<float>((shape.action_high[i] - shape.action_low[i]) / 2));
    centre.push_back(static_cast<float>((shape.action_high[i] + shape.action_low[i]) / 2));
  }
  const Shape columns{shape.action_size()};
  return add(mul(x, graph.constant(columns, std::move(half_range))), graph.constant(columns, std::move(centre)));
}

Var within_bounds(Graph& graph, const EnvironmentShape& shape, Var x) {
  const Shape columns{shape.action_size()};
  const Var low = graph.constant(columns, {shape.action_low.begin(), shape.action_low.end()});
  const Var high = graph.constant(columns, {shape.action_high.begin(), shape.action_high.end()});
  return minimum(maximum(x, low), high);
}

Signature transitions(const EnvironmentShape& shape, bool importance_weights) {
  const Shape observation{shape.observation_size};
  Signature signature = {{"observation", DType::kF32, observation},
                         {"action", DType::kF32, Shape{shape.action_size()}},
                         {"reward", DType::kF32, Shape{}},
                         {"discount", DType::kF32, Shape{}},
                         {"next_observation", DType::kF32, observation}};
  if (importance_weights) signature.push_back({"weight", DType::kF32, Shape{}});
  return signature;
}

InputFn checked(InputFn input, Signature columns, std::string where) {
  return [input = std::move(input), columns = std::move(columns),
          where = std::move(where)](const InputContext& context) -> Result<std::unique_ptr<InputPipeline>> {
    TROUPE_ASSIGN(std::unique_ptr<InputPipeline> pipeline, input(context));
    TROUPE_TRY(check_same(pipeline->signature(), columns, where + " input"));
    return pipeline;
  };
}

}  // namespace troupe::learner::control
