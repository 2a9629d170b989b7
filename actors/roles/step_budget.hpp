#pragma once
// How many environment steps an env actor may take: its side of the account that the metrics role keeps
// (actors/roles/step_account.hpp).
#include <cstdint>
#include <string>

#include <troupe/actors/runtime/role.hpp>
#include <troupe/actors/runtime/topology.hpp>
#include <troupe/messages/reports.hpp>

namespace troupe::actors {

/// Port: out steps (request, StepsRequest). Says every 0.1 s how many steps were taken (with more than 40 env actors
/// more rarely: 400 times a second all together), and asks for as many as it takes in 10 s, which it may go on with
/// while nobody answers. One call is under way at a time.
class StepBudget {
 public:
  static Port port() { return {"steps", "StepsRequest", ChannelKind::kRequest}; }

  explicit StepBudget(const RoleIdentity& identity);

  /// Asks when it is time to. Called once in each step() of the env actor.
  Status refresh(RoleContext& context);
  bool may_step() const { return left() > 0; }
  /// Steps that may be taken now.
  std::int64_t left() const { return known_ && taken_ < allowed_ ? allowed_ - taken_ : 0; }
  /// Counts one step; only when may_step().
  void take() { ++taken_; }
  /// The run has had all its steps.
  bool over() const { return over_ && !may_step(); }

  /// Steps of all incarnations of this env actor; it knows those of earlier ones with the first answer.
  std::int64_t taken() const { return taken_; }
  bool known() const { return known_; }
  void restore(std::int64_t taken) { taken_ = taken; }
  std::string waiting_for() const;

 private:
  void answered(Result<Frame> frame, Duration now);

  std::uint32_t producer_;
  Duration period_;
  bool calling_ = false;
  bool known_ = false;  ///< there was an answer
  bool over_ = false;
  std::int64_t taken_ = 0;
  std::int64_t allowed_ = 0;
  std::int64_t raise_ = 0;  ///< by how much the newest answer raised `allowed_`
  Duration ask_at_{};
  Duration first_answer_{};
  std::int64_t taken_then_ = 0;
};

}  // namespace troupe::actors
