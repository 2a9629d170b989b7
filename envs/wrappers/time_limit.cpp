#include <troupe/envs/wrappers/time_limit.hpp>

#include <fmt/format.h>

#include <cstring>
#include <memory>
#include <utility>

namespace troupe::envs {
namespace {

class TimeLimit final : public Wrapper {
 public:
  TimeLimit(std::unique_ptr<Environment> inside, std::int64_t steps) : Wrapper(std::move(inside)) {
    own_spec().episode_steps = steps;
  }

  Result<TimeStep> reset(std::uint64_t seed, std::span<std::byte> observation) override {
    taken_ = 0;
    return inside().reset(seed, observation);
  }
  Result<TimeStep> reset(std::span<std::byte> observation) override {
    taken_ = 0;
    return inside().reset(observation);
  }
  Result<TimeStep> step(std::span<const std::byte> action, std::span<std::byte> observation) override {
    if (taken_ >= spec().episode_steps) {  // of which the environment inside knows nothing
      return Error{Code::kUnavailable, fmt::format("{}: step() outside of an episode, expected reset()", spec().name)};
    }
    TROUPE_ASSIGN(TimeStep step, inside().step(action, observation));
    if (++taken_ >= spec().episode_steps) step.type = StepType::kLast;
    return step;
  }

 protected:
  std::vector<std::byte> save_own() const override {
    const auto bytes = std::as_bytes(std::span(&taken_, 1));
    return {bytes.begin(), bytes.end()};
  }
  Status restore_own(std::span<const std::byte> own) override {
    std::int64_t taken = 0;
    std::memcpy(&taken, own.data(), sizeof(taken));
    if (taken < 0 || taken > spec().episode_steps) {
      return Error{Code::kCorrupt, fmt::format("{}: saved state: {} steps, expected 0 .. {}", spec().name, taken,
                                               spec().episode_steps)};
    }
    taken_ = taken;
    return {};
  }

 private:
  std::int64_t taken_ = 0;  // in this episode
};

}  // namespace

Wrap time_limit(std::int64_t steps) {
  return [steps](std::unique_ptr<Environment> inside, std::uint64_t) -> Result<std::unique_ptr<Environment>> {
    const EnvSpec& spec = inside->spec();
    if (steps > spec.episode_steps) {
      return Error{Code::kInvalidArgument, fmt::format("got {} steps, but an episode of {} has {}: expected no more",
                                                       steps, spec.name, spec.episode_steps)};
    }
    return {std::make_unique<TimeLimit>(std::move(inside), steps)};
  };
}

}  // namespace troupe::envs
