#include <troupe/envs/wrappers/action_repeat.hpp>

#include <memory>
#include <utility>

namespace troupe::envs {
namespace {

class ActionRepeat final : public Wrapper {
 public:
  ActionRepeat(std::unique_ptr<Environment> inside, std::int64_t steps) : Wrapper(std::move(inside)), steps_(steps) {
    own_spec().episode_steps = (spec().episode_steps + steps - 1) / steps;
    own_spec().control_dt *= static_cast<double>(steps);
  }

  Result<TimeStep> step(std::span<const std::byte> action, std::span<std::byte> observation) override {
    TROUPE_ASSIGN(TimeStep all, inside().step(action, observation));
    for (std::int64_t taken = 1; taken < steps_ && !all.last(); ++taken) {
      TROUPE_ASSIGN(const TimeStep one, inside().step(action, observation));
      all = {.type = one.type, .reward = all.reward + one.reward, .discount = all.discount * one.discount};
    }
    return all;
  }

 private:
  std::int64_t steps_;
};

}  // namespace

Wrap action_repeat(std::int64_t steps) {
  return [steps](std::unique_ptr<Environment> inside, std::uint64_t) -> Result<std::unique_ptr<Environment>> {
    return {std::make_unique<ActionRepeat>(std::move(inside), steps)};
  };
}

}  // namespace troupe::envs
