#include <troupe/envs/wrappers/reward_scale.hpp>

#include <memory>
#include <utility>

namespace troupe::envs {
namespace {

class RewardScale final : public Wrapper {
 public:
  RewardScale(std::unique_ptr<Environment> inside, double factor) : Wrapper(std::move(inside)), factor_(factor) {}

  Result<TimeStep> step(std::span<const std::byte> action, std::span<std::byte> observation) override {
    TROUPE_ASSIGN(TimeStep step, inside().step(action, observation));
    step.reward *= factor_;
    return step;
  }

 private:
  double factor_;
};

}  // namespace

Wrap reward_scale(double factor) {
  return [factor](std::unique_ptr<Environment> inside, std::uint64_t) -> Result<std::unique_ptr<Environment>> {
    return {std::make_unique<RewardScale>(std::move(inside), factor)};
  };
}

}  // namespace troupe::envs
