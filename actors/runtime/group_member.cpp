#include <troupe/actors/runtime/group_member.hpp>

#include <troupe/core/log.hpp>

namespace troupe::actors {

Result<bool> GroupMember::enter(const Join& join) {
  if (!in_group()) return true;
  const auto view = seat_->view();
  if (!view) return false;
  if (view->epoch == entered_) return true;
  if (view->epoch == communicator().view().epoch) return false;  // it did not begin, and the chief knows
  const Status joined = join(*view, kReformTimeout);
  if (joined.ok()) {
    entered_ = view->epoch;
    return true;
  }
  if (!collectives::epoch_is_over(joined.error())) return joined.error();
  log::debug("the group's epoch {} did not begin: {}", view->epoch, joined.error().message);
  seat_->give_up(view->epoch, joined.error());
  return false;
}

bool GroupMember::epoch_ended(const Error& error) {
  if (!in_group() || !collectives::epoch_is_over(error)) return false;
  seat_->give_up(communicator().view().epoch, error);
  return true;
}

Result<Progress> GroupMember::finish() {
  if (!in_group()) return Progress::kDone;
  const Status together = communicator().barrier({.name = "end"})->wait();
  if (together.ok()) return Progress::kDone;
  if (epoch_ended(together.error())) return Progress::kIdle;
  return together.error();
}

}  // namespace troupe::actors
