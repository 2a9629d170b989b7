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
  Result<std::optional<std::int64_t>> act(RoleContext&, const BatchView& inputs,
                                          const MutableBatchView& outputs) override {
    if (!ready_) return std::optional<std::int64_t>();
    TROUPE_TRY(policy_.policy().act(inputs, outputs));
    return std::optional(policy_.version());
  }
  std::string waiting_for() const override { return policy_.waiting_for(); }
  void report(Report& report) const override { policy_.report(report); }

 private:
  VersionedPolicy policy_;
  bool ready_ = false;
};

}  // namespace

ActingSpec local_acting(learner::PolicyColumns columns, MakePolicy make_policy, StalenessContract staleness) {
  auto make = [columns, make_policy = std::move(make_policy), staleness = std::move(staleness)](
                  const RoleIdentity&, std::int64_t rows) -> Result<std::unique_ptr<Acting>> {
    TROUPE_ASSIGN(auto policy, make_policy(rows, learner::Device{}));
    TROUPE_TRY(check_same(policy->columns().inputs, columns.inputs, "acting: inputs"));
    TROUPE_TRY(check_same(policy->columns().outputs, columns.outputs, "acting: outputs"));
    return {std::make_unique<LocalActing>(std::move(policy), staleness)};
  };
  return {std::move(columns), VersionedPolicy::inlets(), {}, std::move(make)};
}

}  // namespace troupe::actors
