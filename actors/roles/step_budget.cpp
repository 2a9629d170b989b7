#include <troupe/actors/roles/step_budget.hpp>

#include <algorithm>

namespace troupe::actors {
namespace {

constexpr Duration kPeriod = std::chrono::milliseconds(100);
/// Of each env actor's share in what the account is asked.
constexpr Duration kPeriodOfOne = std::chrono::microseconds(2500);
constexpr Duration kAskDeadline = std::chrono::seconds(2);
/// Between two questions of an env actor that has to wait for steps.
constexpr Duration kPause = std::chrono::milliseconds(20);
/// How long it may go on while nobody answers: longer than a chief needs to come back.
constexpr double kAheadSeconds = 10;
/// Asked for before the own speed is known.
constexpr std::int64_t kLeastWanted = 64;

}  // namespace

StepBudget::StepBudget(const RoleIdentity& identity)
    : producer_(static_cast<std::uint32_t>(identity.index)),
      period_(std::max(kPeriod, kPeriodOfOne * identity.count)) {}

Status StepBudget::refresh(RoleContext& context) {
  Caller& account = context.caller("steps");
  const Duration now = context.clock().now();
  if (calling_ || over()) return {};
  // Ahead of the end of what is allowed, as long as asking helps.
  const bool soon = raise_ > 0 && (!may_step() || allowed_ - taken_ < raise_ / 2);
  if (now < ask_at_ && !soon) {
    if (!may_step()) context.wake_after(ask_at_ - now);
    return {};
  }
  if (!account.ready()) return {};  // step() follows when it is
  const double elapsed_s = seconds(now - first_answer_);
  const double rate = known_ && elapsed_s > 0 ? static_cast<double>(taken_ - taken_then_) / elapsed_s : 0;
  const auto wanted = std::max(kLeastWanted, static_cast<std::int64_t>(std::min(rate, 1e9) * kAheadSeconds));
  TROUPE_ASSIGN(Frame request, messages::make_steps_request(context.pool(), {producer_, taken_, allowed_, wanted}));
  calling_ = true;
  account.call(std::move(request), kAskDeadline,
               [this, &clock = context.clock()](Result<Frame> answer) { answered(std::move(answer), clock.now()); });
  return {};
}

void StepBudget::answered(Result<Frame> frame, Duration now) {
  calling_ = false;
  raise_ = 0;
  ask_at_ = now + period_;
  const auto grant = frame.ok() ? messages::read_steps_grant(*frame) : frame.error();
  if (!grant.ok()) return;  // nobody is there, or not in time: what is allowed lasts for a while
  if (!known_) {
    // No step was taken before the first answer, so these are the earlier incarnations'.
    taken_ = taken_then_ = std::max(taken_, grant->taken);
    first_answer_ = now;
  }
  known_ = true;
  raise_ = std::max<std::int64_t>(grant->allowed - allowed_, 0);
  allowed_ = std::max(allowed_, grant->allowed);
  over_ = grant->over;
  if (!may_step()) ask_at_ = now + kPause;
}

std::string StepBudget::waiting_for() const {
  if (!known_) return "the run's account of env steps;";
  return may_step() ? "" : "env steps that the others may leave;";
}

}  // namespace troupe::actors
