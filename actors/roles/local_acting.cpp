#include <troupe/actors/roles/acting.hpp>

namespace troupe::actors {
namespace {

class LocalActing final : public Acting {
 public:
  LocalActing(std::unique_ptr<learner::Policy> policy, StalenessContract staleness)
      : policy_(std::move(policy), std::move(staleness)) {}

  Status refresh(RoleContext& context) override {
    TROUPE_ASSIGN(ready_, policy_.refresh(context));
    return {};
  }
  Result<std::optional<std::int64_t>> act(RoleContext&, std::span<const float> observation,
                                          std::span<float> action) override {
    if (!ready_) return std::optional<std::int64_t>();
    TROUPE_TRY(policy_.policy().act(observation, action));
    return std::optional(policy_.version());
  }
  std::string waiting_for() const override { return policy_.waiting_for(); }
  void report(Report& report) const override { policy_.report(report); }

 private:
  VersionedPolicy policy_;
  bool ready_ = false;
};

}  // namespace

ActingSpec local_acting(std::function<Result<std::unique_ptr<learner::Policy>>()> make_policy,
                        StalenessContract staleness) {
  auto make = [make_policy = std::move(make_policy),
               staleness = std::move(staleness)](const RoleIdentity&) -> Result<std::unique_ptr<Acting>> {
    TROUPE_ASSIGN(auto policy, make_policy());
    return {std::make_unique<LocalActing>(std::move(policy), staleness)};
  };
  return {VersionedPolicy::inlets(), {}, std::move(make)};
}

}  // namespace troupe::actors
