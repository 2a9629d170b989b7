// An algorithm of one's own: a contextual bandit, on an environment of one's own, a casino where another arm pays each
// day. Any arms return 5 in an episode, the right ones 20: hello_agent train hello_agent.toml [--processes]
#include <cstring>

#include <troupe/algorithms/acting/epsilon_greedy.hpp>
#include <troupe/apps/main.hpp>
#include <troupe/core/rng.hpp>
#include <troupe/learner/ops/elementwise.hpp>
#include <troupe/learner/ops/embedding.hpp>
#include <troupe/learner/ops/linear.hpp>
#include <troupe/learner/ops/reduce.hpp>
#include <troupe/replay/n_step_adder.hpp>

using namespace troupe;           // NOLINT: an example reads better without prefixes
using namespace troupe::envs;     // NOLINT
using namespace troupe::learner;  // NOLINT

constexpr std::int64_t kDays = 3, kArms = 4, kGames = 20;
class Casino : public Environment {
 public:
  Casino(const ConfigSection&, std::uint64_t seed) { state_.random = Rng(seed).state(); }
  const EnvSpec& spec() const override { return spec_; }
  Result<TimeStep> reset(std::uint64_t seed, std::span<std::byte> day) override {
    state_.random = Rng(seed).state();
    return reset(day);
  }
  Result<TimeStep> reset(std::span<std::byte> day) override {
    state_.games = 0;
    next(0, day);
    return TimeStep{};
  }
  Result<TimeStep> step(std::span<const std::byte> action, std::span<std::byte> day) override {
    if (state_.games > kGames) return Error{Code::kUnavailable, "casino: step before reset"};
    std::int32_t arm = 0;
    std::memcpy(&arm, action.data(), sizeof(arm));
    return next(static_cast<std::uint64_t>(arm) == state_.day + 1 ? 1 : 0, day);
  }
  std::vector<std::byte> save_state() const override {
    const auto bytes = std::as_bytes(std::span(&state_, 1));
    return {bytes.begin(), bytes.end()};
  }
  Status restore_state(std::span<const std::byte> bytes) override {
    if (bytes.size() != sizeof(state_)) return Error{Code::kCorrupt, "casino: no state of this environment"};
    std::memcpy(&state_, bytes.data(), sizeof(state_));
    return {};
  }

 private:
  TimeStep next(double reward, std::span<std::byte> shown) {  // the next day, one-hot
    Rng rng(0);
    rng.set_state(state_.random);
    state_.day = rng.below(kDays);
    state_.random = rng.state();
    float day[kDays] = {};
    day[state_.day] = 1;
    std::memcpy(shown.data(), day, sizeof(day));
    return {++state_.games <= kGames ? StepType::kMid : StepType::kLast, reward, 1};
  }
  struct State {
    Rng::State random;
    std::uint64_t day = 0, games = kGames + 1;
  };
  const EnvSpec spec_ = {"casino", {{"day", DType::kF32, {kDays}}}, ActionSpec::discrete(kArms), kGames, 1};
  State state_;
};
// What each arm pays on a day: a table, for the policy and for the step that learns it.
Var pays(Graph& graph, Var day) {
  return matmul(day, graph.param(graph.group("policy"), "table", {kDays, kArms}, Init::constant(0)));
}

void learn(ReplicaContext& context, const StepInputs& inputs) {  // the columns of an item: day, action, reward, ...
  Graph& graph = context.graph();
  const Var rows = graph.constant({kArms, kArms}, {1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1});
  const Var paid = sum_last(mul(pays(graph, inputs["day"]), embedding(rows, inputs["action"])));  // of that arm
  const Var loss = mean(square(sub(paid, inputs["reward"])));
  graph.metric("loss", loss);
  graph.minimize(loss, graph.group("policy"), context.wrap_optimizer({.rule = Sgd{.learning_rate = 0.5}}));
}

Result<MakeAlgorithm> bandit(const ConfigSection& keys, std::int64_t) {
  return MakeAlgorithm([epsilon = keys.get_float("epsilon")](const AlgorithmContext& context) -> Result<Algorithm> {
    Algorithm bandit;
    bandit.columns = {context.environment.observation, {{"value", DType::kF32, {kArms}}}};
    bandit.policy = [](Graph& graph) { graph.output("value", pays(graph, graph.input("day", {kDays}))); };
    bandit.explores = acting::epsilon_greedy({.choices = kArms, .epsilon = epsilon});
    bandit.greedy = acting::epsilon_greedy({.choices = kArms});
    bandit.adder = replay::n_step_adders(1, 0);
    bandit.make_replica = [](InputFn batches) { return make_replica(std::move(batches), learn); };
    return bandit;
  });
}

int main(int argc, char** argv) {
  Registry mine = shipped();
  mine.environment("casino", environment_of<Casino>());
  const ConfigKey epsilon = {.path = "epsilon", .default_value = 0.2, .doc = "Share of any arms", .min = 0, .max = 1};
  mine.algorithm("bandit", {.doc = "Learns what each arm pays", .keys = {epsilon}, .make = bandit});
  return troupe::main(argc, argv, mine);
}
