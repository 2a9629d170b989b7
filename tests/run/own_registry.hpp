#pragma once
// A registry as a user's program has one: an environment with a key of its own, two kinds of roles, a type of message.
#include <algorithm>
#include <cstring>
#include <memory>
#include <span>
#include <vector>

#include <troupe/run/registry.hpp>

namespace troupe::own {

/// Walk to the right end: the reward is the place, which a policy learns in no time.
class Corridor final : public envs::Environment {
 public:
  static envs::EnvSpec make_spec(std::int64_t length) {
    return {.name = "corridor",
            .observation = {{"place", DType::kF64, Shape{}}},
            .action = envs::ActionSpec::continuous({-1}, {1}),
            .episode_steps = length,
            .control_dt = 0.1};
  }
  Corridor(const ConfigSection& keys, std::uint64_t) : Corridor(make_spec(keys.get_int("length"))) {}
  explicit Corridor(envs::EnvSpec spec) : spec_(std::move(spec)) {}

  const envs::EnvSpec& spec() const override { return spec_; }
  Result<envs::TimeStep> reset(std::uint64_t, std::span<std::byte> observation) override { return reset(observation); }
  Result<envs::TimeStep> reset(std::span<std::byte> observation) override {
    place_ = 0;
    taken_ = 0;
    show(observation);
    return envs::TimeStep{};
  }
  Result<envs::TimeStep> step(std::span<const std::byte> action, std::span<std::byte> observation) override {
    double move = 0;
    std::memcpy(&move, action.data(), sizeof(move));
    place_ = std::clamp(place_ + 0.1 * std::clamp(move, -1.0, 1.0), 0.0, 1.0);
    show(observation);
    const bool last = ++taken_ >= spec_.episode_steps;
    return envs::TimeStep{last ? envs::StepType::kLast : envs::StepType::kMid, place_, 1};
  }
  std::vector<std::byte> save_state() const override { return {}; }
  Status restore_state(std::span<const std::byte>) override { return {}; }

 private:
  void show(std::span<std::byte> observation) const { std::memcpy(observation.data(), &place_, sizeof(place_)); }

  envs::EnvSpec spec_;
  double place_ = 0;
  std::int64_t taken_ = 0;
};

inline Result<std::unique_ptr<envs::Environment>> make_corridor(std::uint64_t) {
  return {std::make_unique<Corridor>(Corridor::make_spec(20))};
}

class Thermometer final : public actors::Role {
 public:
  Result<actors::Progress> step(actors::RoleContext& context) override {
    actors::Outlet& celsius = context.out("celsius");
    if (!celsius.ready()) return actors::Progress::kIdle;
    const double measured = 20;
    TROUPE_ASSIGN(messages::Frame frame, context.pool().copy(std::as_bytes(std::span(&measured, 1))));
    celsius.send(std::move(frame));
    return actors::Progress::kMore;
  }
};

class Display final : public actors::Role {
 public:
  explicit Display(const ConfigSection& keys) : wanted_(keys.get_int("measurements")) {}
  Result<actors::Progress> step(actors::RoleContext& context) override {
    actors::Inlet& celsius = context.in("celsius");
    if (shown_ >= wanted_) return actors::Progress::kDone;
    if (celsius.empty()) return actors::Progress::kIdle;
    celsius.take();
    return ++shown_ < wanted_ ? actors::Progress::kMore : actors::Progress::kDone;
  }
  void report(actors::Report& report) const override {
    report.counters.push_back({"shown", static_cast<double>(shown_)});
  }
  Result<actors::RoleState> save() const override { return actors::RoleState{.counters = {{"shown", shown_}}}; }
  Status restore(const actors::RoleState& state) override {
    TROUPE_ASSIGN(shown_, state.counter("shown"));
    return {};
  }

 private:
  std::int64_t wanted_;
  std::int64_t shown_ = 0;
};

inline Registry own_registry() {
  Registry registry = shipped();
  registry.environment("corridor", environment_of<Corridor>({{.path = "length",
                                                              .default_value = std::int64_t{20},
                                                              .doc = "Steps of an episode",
                                                              .min = 2,
                                                              .max = 1000}}));
  registry.message("Celsius", {.max_bytes = 8});
  registry.role("thermometer", {.outlets = {{"celsius", "Celsius"}},
                                .keys = {{.path = "period_s", .default_value = 1.0, .doc = "Between two", .min = 0}},
                                .make = role_of<Thermometer>,
                                .elastic = true});
  registry.role("display", {.inlets = {{"celsius", "Celsius"}},
                            .keys = {{.path = "measurements",
                                      .default_value = std::int64_t{100},
                                      .doc = "After which it is done",
                                      .min = 1}},
                            .make = role_of<Display>,
                            .restart_from = actors::RestartFrom::kLastCut,
                            .completes_run = true});
  return registry;
}

}  // namespace troupe::own
