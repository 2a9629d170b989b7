#pragma once
// What a role does about its group: enters the epoch that its seat shows, leaves one that is over, stays until all have
// finished. For the roles that train in groups (actors/roles/trainer.hpp). The one rule for a failure is here:
//
//   the epoch is over   what the communicator says of a member that has left, was stopped or did not come
//                       (collectives::epoch_is_over): nothing has changed, the role idles, the next view wakes it
//   no input now        kUnavailable of a step: the group is whole, and the role asks its input again soon
//   anything else       would come again in every epoch: it ends the role, and the chief restarts it from its last
//                       checkpoint or ends the run with it, as its RestartPolicy says
#include <cstdint>
#include <functional>
#include <memory>

#include <troupe/actors/runtime/group_seat.hpp>
#include <troupe/actors/runtime/role.hpp>

namespace troupe::actors {

class GroupMember {
 public:
  /// seat: null for a role that trains alone, whose epoch never changes.
  explicit GroupMember(std::shared_ptr<GroupSeat> seat) : seat_(std::move(seat)) {}

  bool in_group() const { return seat_ != nullptr; }
  /// Only for a role in a group.
  collectives::Communicator& communicator() const { return seat_->communicator(); }
  /// Whether this member speaks for the group.
  bool is_first() const { return !in_group() || communicator().view().rank == 0; }

  /// Whether the role may take a step: it is in the epoch of its seat, which it enters by `join` if need be. False: it
  /// is to idle until the next view. Errors: those of join that another epoch would not mend.
  using Join = std::function<Status(const collectives::GroupView& view, Duration timeout)>;
  Result<bool> enter(const Join& join);

  /// Whether a step has failed because the epoch is over. Then the chief has been asked for another one, unless it has
  /// made one already, and the role is to idle.
  bool epoch_ended(const Error& error);

  /// After the last step: kDone once all members have taken it, since nobody leaves while another may still be within
  /// it; kIdle when the epoch ended meanwhile.
  Result<Progress> finish();

  /// How long all members of a new epoch have to come and agree. They finish first what they are doing.
  static constexpr Duration kReformTimeout = std::chrono::seconds(30);

 private:
  std::shared_ptr<GroupSeat> seat_;
  std::uint64_t entered_ = 0;  ///< the newest epoch that was joined to the end
};

}  // namespace troupe::actors
