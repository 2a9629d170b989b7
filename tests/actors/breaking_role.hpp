#pragma once
// A fault for tests: instances of a role whose first incarnation breaks at some step, as an actor in one process does.
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <utility>

#include <troupe/actors/runtime/topology.hpp>

namespace troupe::actors::testing {

class Breaking final : public Role {
 public:
  /// at: the call of step() that fails; 0: none.
  Breaking(std::unique_ptr<Role> inner, std::int64_t at) : inner_(std::move(inner)), at_(at) {}
  Result<Progress> step(RoleContext& context) override {
    if (++steps_ == at_) return Error{Code::kInternal, "told to fail"};
    return inner_->step(context);
  }
  void report(Report& report) const override { inner_->report(report); }
  Result<RoleState> save() const override { return inner_->save(); }
  Status restore(const RoleState& state) override { return inner_->restore(state); }
  std::string waiting_for() const override { return inner_->waiting_for(); }

 private:
  std::unique_ptr<Role> inner_;
  std::int64_t at_;
  std::int64_t steps_ = 0;
};

/// at: index of the instance -> call of step(). restarted(index) runs when its successor is made.
inline void break_once(RoleSpec& spec, const std::map<std::int64_t, std::int64_t>& at,
                       std::function<void(std::int64_t)> restarted) {
  spec.make = [make = spec.make, at,
               restarted = std::move(restarted)](const RoleIdentity& identity) -> Result<std::unique_ptr<Role>> {
    TROUPE_ASSIGN(auto inner, make(identity));
    if (identity.incarnation > 0) restarted(identity.index);
    const auto found = at.find(identity.index);
    const bool breaks = identity.incarnation == 0 && found != at.end();
    return {std::make_unique<Breaking>(std::move(inner), breaks ? found->second : 0)};
  };
}

}  // namespace troupe::actors::testing
