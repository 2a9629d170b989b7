#pragma once
// An instance's seat in the group of its role: where the chief's word on who belongs to the group (through the
// instance's node) meets the role's collectives. The node writes from its own thread, so that it can end a wait in a
// collective at any time; the role reads between two steps.
//
//   chief --view of a new epoch--> node --seat(view)--> role: communicator().reform(view), agree on the step, go on
//   a member died or stopped, a cut pauses the run: --vacate(reason)--> the step under way ends with kCancelled,
//   nothing has changed, and the next view says who goes on.
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include <troupe/collectives/communicator.hpp>

namespace troupe::actors {

class GroupSeat {
 public:
  /// communicator: in no group yet; reform() puts it in one.
  explicit GroupSeat(std::unique_ptr<collectives::Communicator> communicator)
      : communicator_(std::move(communicator)) {}

  // The role's side.

  collectives::Communicator& communicator() { return *communicator_; }
  /// The membership to be in now; empty while the group is not complete or the run pauses: the role is idle until its
  /// step() is called again. Newer than communicator().view(): reform first (actors/runtime/group_member.hpp does).
  std::shared_ptr<const collectives::GroupView> view() const {
    const std::lock_guard lock(mutex_);
    return view_;
  }

  /// This epoch is broken, and not because of the chief's next word: a deadline has passed, a peer cannot be reached.
  /// The chief is asked for another one, unless it has spoken meanwhile.
  void give_up(std::uint64_t epoch, const Error& reason) {
    const std::lock_guard lock(mutex_);
    if (view_ && epoch == epoch_) broken_ = {epoch, reason.message};
  }

  // The node's side; any thread. Epochs begin with 1; one that was left is never entered again.

  void seat(collectives::GroupView view) {
    const std::lock_guard lock(mutex_);
    if (view.epoch <= epoch_) return;  // repeated, because it might have been lost
    epoch_ = view.epoch;
    view_ = std::make_shared<const collectives::GroupView>(std::move(view));
    communicator_->abort("the group has a new epoch", epoch_ - 1);
  }
  /// What give_up() has said since the last call.
  std::optional<std::pair<std::uint64_t, std::string>> take_broken() {
    const std::lock_guard lock(mutex_);
    return std::exchange(broken_, std::nullopt);
  }
  void vacate(std::string_view reason) {
    const std::lock_guard lock(mutex_);
    view_.reset();
    communicator_->abort(reason, epoch_);
  }

 private:
  const std::unique_ptr<collectives::Communicator> communicator_;
  mutable std::mutex mutex_;
  std::shared_ptr<const collectives::GroupView> view_;
  std::uint64_t epoch_ = 0;                                      // the newest that was ever seen here
  std::optional<std::pair<std::uint64_t, std::string>> broken_;  // an epoch, and why
};

}  // namespace troupe::actors
