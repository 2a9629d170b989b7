// An environment of one's own: a car in a valley, too weak to climb out, that must swing back and forth first (after
// MountainCarContinuous), and a wrapper around it, or around any other. hello_environment.toml trains D4PG on it:
//   hello_environment train hello_environment.toml
//   hello_environment envs                            it stands beside those that ship
#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include <troupe/apps/main.hpp>
#include <troupe/core/rng.hpp>
#include <troupe/envs/wrapper.hpp>

using namespace troupe;        // NOLINT: an example reads better without prefixes
using namespace troupe::envs;  // NOLINT

class Valley : public Environment {
 public:
  Valley(const ConfigSection& keys, std::uint64_t seed)
      : spec_{.name = "valley",
              .observation = {{"position", DType::kF64, Shape{}}, {"velocity", DType::kF64, Shape{}}},
              .action = ActionSpec::continuous({-1}, {1}),
              .episode_steps = keys.get_int("episode_steps"),
              .control_dt = 0.02},
        power_(keys.get_float("power")),
        state_{Rng(seed).state()} {}

  const EnvSpec& spec() const override { return spec_; }

  Result<TimeStep> reset(std::uint64_t seed, std::span<std::byte> observation) override {
    state_.random = Rng(seed).state();
    return reset(observation);
  }
  Result<TimeStep> reset(std::span<std::byte> observation) override {
    Rng rng(0);
    rng.set_state(state_.random);
    const double position = -0.6 + 0.2 * rng.uniform();
    state_ = {.random = rng.state(), .position = position, .runs = true};
    show(observation);
    return TimeStep{};
  }

  Result<TimeStep> step(std::span<const std::byte> action, std::span<std::byte> observation) override {
    TROUPE_TRY(check_action(spec_, action));
    if (!state_.runs) return Error{Code::kUnavailable, "valley: step before reset"};
    double push = 0;
    std::memcpy(&push, action.data(), sizeof(push));
    const double force = std::clamp(push, -1.0, 1.0);
    const double slope = 0.0025 * std::cos(3 * state_.position);
    state_.velocity = std::clamp(state_.velocity + power_ * force - slope, -0.07, 0.07);
    state_.position = std::clamp(state_.position + state_.velocity, -1.2, 0.6);
    if (state_.position <= -1.2) state_.velocity = std::max(state_.velocity, 0.0);
    const bool out = state_.position >= 0.45;
    state_.runs = !out && ++state_.steps < spec_.episode_steps;
    show(observation);
    // Out of the valley is the end of the task, and nothing comes after it: discount 0. The time limit is not.
    return TimeStep{.type = state_.runs ? StepType::kMid : StepType::kLast,
                    .reward = (out ? 100.0 : std::abs(state_.velocity)) - 0.1 * force * force,
                    .discount = out ? 0.0 : 1.0};
  }

  std::vector<std::byte> save_state() const override {
    const auto bytes = std::as_bytes(std::span(&state_, 1));
    return {bytes.begin(), bytes.end()};
  }
  Status restore_state(std::span<const std::byte> bytes) override {
    if (bytes.size() != sizeof(state_)) return Error{Code::kCorrupt, "valley: no state of this environment"};
    std::memcpy(&state_, bytes.data(), sizeof(state_));
    return {};
  }

 private:
  void show(std::span<std::byte> observation) const {
    const double row[] = {state_.position, state_.velocity};
    std::memcpy(observation.data(), row, sizeof(row));
  }

  struct State {
    Rng::State random;
    double position = 0, velocity = 0;
    std::int64_t steps = 0;
    bool runs = false;
  };
  EnvSpec spec_;
  double power_;
  State state_;
};

/// Shows what part of an episode is over, so that an agent knows when it is about to end.
class EpisodeClock : public Wrapper {
 public:
  EpisodeClock(const ConfigSection& keys, std::unique_ptr<Environment> around)
      : Wrapper(std::move(around)), scale_(keys.get_float("scale")) {
    own_spec().observation.push_back({"time", DType::kF64, Shape{}});
  }
  Result<TimeStep> reset(std::uint64_t seed, std::span<std::byte> observation) override {
    taken_ = 0;
    return timed(inside().reset(seed, before_time(observation)), observation);
  }
  Result<TimeStep> reset(std::span<std::byte> observation) override {
    taken_ = 0;
    return timed(inside().reset(before_time(observation)), observation);
  }
  Result<TimeStep> step(std::span<const std::byte> action, std::span<std::byte> observation) override {
    TROUPE_ASSIGN(const TimeStep step, inside().step(action, before_time(observation)));
    ++taken_;
    return timed(step, observation);
  }

 protected:
  std::vector<std::byte> save_own() const override {
    const auto bytes = std::as_bytes(std::span(&taken_, 1));
    return {bytes.begin(), bytes.end()};
  }
  Status restore_own(std::span<const std::byte> own) override {
    std::memcpy(&taken_, own.data(), sizeof(taken_));
    return {};
  }

 private:
  std::span<std::byte> before_time(std::span<std::byte> observation) const {
    return observation.first(observation.size() - sizeof(double));
  }
  Result<TimeStep> timed(const Result<TimeStep>& step, std::span<std::byte> observation) const {
    const double time = scale_ * static_cast<double>(taken_) / static_cast<double>(spec().episode_steps);
    std::memcpy(observation.data() + observation.size() - sizeof(time), &time, sizeof(time));
    return step;
  }

  double scale_;
  std::int64_t taken_ = 0;
};

int main(int argc, char** argv) {
  Registry mine = shipped();
  mine.environment("valley", environment_of<Valley>({
                                 {.path = "power",
                                  .default_value = 0.0015,
                                  .doc = "Of the motor; the slope has 0.0025",
                                  .min = 1e-4,
                                  .max = 0.01},
                                 {.path = "episode_steps",
                                  .default_value = std::int64_t{300},
                                  .doc = "After which an episode ends",
                                  .unit = "steps",
                                  .min = 1,
                                  .max = 100000},
                             }));
  mine.wrapper("clock", {.doc = "How much of an episode is over, as a further column",
                         .keys = {{.path = "scale", .default_value = 1.0, .doc = "What it shows at the end", .min = 0}},
                         .make = [](const ConfigSection& keys) {
                           return Result(Wrap([keys](std::unique_ptr<Environment> around,
                                                     std::uint64_t) -> Result<std::unique_ptr<Environment>> {
                             if (find(around->spec().observation, "time") >= 0) {
                               return Error{Code::kInvalidArgument, around->spec().name + " has a column time already"};
                             }
                             return {std::make_unique<EpisodeClock>(keys, std::move(around))};
                           }));
                         }});
  return troupe::main(argc, argv, mine);
}
