// One whole D4PG learner step from images on a GPU: batch 256, 84 x 84 x 9 float32, a torso of four 3x3 convolutions of
// 32 channels (DrQ: Yarats et al. 2021, arXiv 2004.13649) before the networks of learner_gpu_bench.cpp. DrQ-v2's
// arrangement: the critic owns the torso, the policy sees what comes out of it and passes no gradient back, and its
// loss is taken at the same images; each has a linear layer to 50, layer norm and tanh of its own. The images lie in
// the GPU's memory. Values are steps per second; vs_bound is what launches, memory and arithmetic of this GPU allow at
// most.
#include <cmath>
#include <string>

#include <troupe/algorithms/d4pg/networks.hpp>
#include <troupe/bench/learner/d4pg_gpu.hpp>
#include <troupe/bench/learner/fed_steps.hpp>
#include <troupe/core/check.hpp>
#include <troupe/learner/graph/graph.hpp>
#include <troupe/learner/ops/categorical.hpp>
#include <troupe/learner/ops/convolution.hpp>
#include <troupe/learner/ops/elementwise.hpp>
#include <troupe/learner/ops/gradient.hpp>
#include <troupe/learner/ops/linear.hpp>
#include <troupe/learner/ops/norm.hpp>
#include <troupe/learner/ops/reduce.hpp>
#include <troupe/learner/ops/shaping.hpp>

namespace troupe::learner {
namespace {

constexpr std::int64_t kChannels = 9;
constexpr int kConvolutions = 4;

/// Those of bench/learner/gpu_sizes.py.
struct Torso {
  std::int64_t side = bench::tiny<std::int64_t>(84, 20), filters = bench::tiny<std::int64_t>(32, 4),
               features = bench::tiny<std::int64_t>(50, 6);
  std::int64_t side_behind(int layer) const { return (side - 3) / 2 + 1 - 2 * layer; }
  std::int64_t seen() const { return side_behind(kConvolutions - 1) * side_behind(kConvolutions - 1) * filters; }
};

Init fan_in(std::int64_t inputs) { return Init::uniform(1 / std::sqrt(static_cast<double>(inputs))); }

/// [batch, side, side, channels] -> [batch, seen].
Var see(Graph& graph, ParamGroup critic, const Torso& torso, Var image) {
  Var x = image;
  std::int64_t inputs = kChannels;
  for (int layer = 0; layer < kConvolutions; ++layer) {
    const std::string name = "torso" + std::to_string(layer);
    const Var weight = graph.param(critic, name + "/weight", {3, 3, inputs, torso.filters}, fan_in(9 * inputs));
    const Var bias = graph.param(critic, name + "/bias", {torso.filters}, Init::constant(0));
    x = conv2d(x, weight, bias, {.stride = layer == 0 ? 2 : 1, .activation = Activation::kRelu});
    inputs = torso.filters;
  }
  return reshape(x, {graph.batch(), torso.seen()});
}

/// [batch, seen] -> [batch, features].
Var trunk(Graph& graph, ParamGroup group, const Torso& torso, Var seen) {
  const Shape row{torso.features};
  const Var weight = graph.param(group, "trunk/weight", {torso.seen(), torso.features}, fan_in(torso.seen()));
  return layer_norm(matmul(seen, weight), graph.param(group, "trunk/bias", row, Init::constant(0)),
                    graph.param(group, "trunk/gain", row, Init::constant(1)),
                    graph.param(group, "trunk/offset", row, Init::constant(0)), Activation::kTanh);
}

void build_step(Graph& graph, const d4pg::Options& options, const Torso& torso) {
  const Shape image{torso.side, torso.side, kChannels};
  const Var observation = graph.input("observation", image), next_observation = graph.input("next_observation", image);
  const Var action = graph.input("action", {options.environment.action_size()});
  const Var reward = graph.input("reward", Shape{}), discount = graph.input("discount", Shape{});
  const ParamGroup policy = graph.group(d4pg::kPolicyGroup), critic = graph.group(d4pg::kCriticGroup);
  const ParamGroup policy_target = graph.target(policy, options.target_period);
  const ParamGroup critic_target = graph.target(critic, options.target_period);
  const auto act = [&](ParamGroup group, Var seen) {
    return d4pg::policy_network(graph, group, options, trunk(graph, group, torso, seen));
  };
  const auto criticise = [&](ParamGroup group, Var seen, Var chosen) {
    return d4pg::critic_network(graph, group, options, trunk(graph, group, torso, seen), chosen);
  };

  const Var next_seen = see(graph, critic_target, torso, next_observation);
  const Var next_logits = criticise(critic_target, next_seen, act(policy_target, next_seen));
  const Var seen = see(graph, critic, torso, observation);
  const Var td_error = categorical_td(criticise(critic, seen, action), next_logits, reward, discount, options.support);
  const Var critic_loss = mean(td_error);

  const Var policy_sees = stop_gradient(seen);
  const Var chosen = clip_gradient_by_row_norm(act(policy, policy_sees), options.dqda_max_norm);
  const Var value = categorical_mean(criticise(critic, policy_sees, chosen), options.support);

  graph.output("td_error", td_error);
  const OptimizerSpec& adam = options.critic_optimizer;
  graph.minimize(critic_loss, critic, adam);
  graph.minimize(scale(mean(value), -1), policy, adam);
}

/// Of the convolutions: both passes forward, the gradients of all weights and of all images but the first. Their images
/// are written and read forward twice, and backward read again, and their gradients written and read. Of the trunks:
/// two of the critic's and two of the policy's forward, the gradients of both weights, and the critic's of what it
/// sees.
bench::StepCost pixels_cost(const d4pg::Options& options, const Torso& torso) {
  bench::StepCost cost = step_cost(options);
  const auto batch = static_cast<double>(options.batch), filters = static_cast<double>(torso.filters);
  double inputs = kChannels, images = 0;
  for (int layer = 0; layer < kConvolutions; ++layer) {
    const auto side = static_cast<double>(torso.side_behind(layer));
    const double pass = 2 * batch * side * side * 9 * inputs * filters;
    cost.flops += (layer == 0 ? 3 : 4) * pass;
    images += batch * side * side * filters;
    inputs = filters;
  }
  const double weights = static_cast<double>(torso.seen() * torso.features);
  cost.flops += 2 * batch * 7 * weights;
  cost.bytes += sizeof(float) *
                (7 * images + 9 * 2 * weights + 2 * batch * static_cast<double>(torso.side * torso.side * kChannels));
  cost.nodes +=
      2 * kConvolutions;  // forward and back through the critic; its trunks take the place of the policy's layers
  return cost;
}

void pixels_step(benchmark::UserCounters& counters, bool tf32) {
  const Torso torso;
  const d4pg::Options options = gpu_bench_options(torso.features);
  Graph graph(options.batch);
  build_step(graph, options, torso);
  const auto program =
      Program::compile(graph,
                       {.device = gpu_device(bench::device_index()), .tf32 = tf32, .plans = PlanChoice::kMeasured})
          .value();
  attach_fixed_batch(*program, {"observation", "next_observation", "action", "reward", "discount"});
  counters["value"] = fed_steps_per_second(*program);
  counters["vs_bound"] = 1 / bench::limits_of(program->gpu()).seconds(pixels_cost(options, torso), tf32);
}

}  // namespace
}  // namespace troupe::learner

int main(int argc, char** argv) {
  using namespace troupe;
  bench::open_gpu();
  for (const bool tf32 : {false, true}) {
    bench::add_row(tf32 ? "pixels_step_tf32" : "pixels_step", "steps/s",
                   [=](auto& counters) { learner::pixels_step(counters, tf32); });
  }
  return bench::run_rows(argc, argv);
}
