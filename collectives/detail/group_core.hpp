#pragma once
// One rank's part in a group over Peers: forms the group, keeps the calls under way going, and finds out whom it waits
// for. Private to the communicator over peers, whose works share it. Only the rank's own thread calls it, except
// abort().
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <troupe/collectives/detail/group_call.hpp>
#include <troupe/collectives/verdict.hpp>

namespace troupe::collectives::detail {

/// Calls that exchange messages at a time. More would not be faster, and each may have many segments of every
/// peer unread.
/// One where hosts reduce first: the calls in their memory must come in one order.
constexpr std::size_t kMaxActive = 2;

/// A call that was made, until its work is gone.
struct PendingCall {
  std::unique_ptr<GroupCall> call;
  SteadyTime made;
  SteadyTime deadline;
  SteadyTime ask_at;  // when the missing ranks are to be asked first
  std::optional<SteadyTime> first_asked = {};
  std::optional<SteadyTime> asked = {};      // last
  std::optional<SteadyTime> disagreed = {};  // since when it is known that ranks call different things
  bool verdict_logged = false;
  std::optional<Status> answer = {};
};

class GroupCore {
 public:
  GroupCore(Peers& peers, std::uint32_t own_id, bool deterministic, CooperativeScheduler* scheduler);

  const GroupView& view() const { return view_; }
  Activity& activity() { return activity_; }
  /// Between the group's ranks where all of them share memory: then it makes all calls, and no message is sent.
  Communicator* all_local() const {
    return context_ && hosts_.all_shared(view_.size) && view_.size > 1 ? local_.get() : nullptr;
  }

  Status reform(const GroupView& view, Duration timeout);
  std::optional<Error> failure() const;
  void abort(std::string_view reason, std::optional<std::uint64_t> through);
  /// Begins a call. Errors: kUnavailable (too many unfinished); the group's failure, also when this call causes it.
  Result<std::shared_ptr<PendingCall>> make(Call call, const CallOptions& options, CallBuffers buffers);
  Status wait(PendingCall& pending);
  bool done(PendingCall& pending);
  /// The work of the call has its answer: there may be another.
  void answered() { --unanswered_; }
  /// The work of the call is destroyed without one.
  void drop(PendingCall& pending);
  /// leave(), and no message is taken any more. The last call.
  void close();

 private:
  /// Nobody is to wait for this rank any more.
  void leave();
  /// Does what can be done now for the calls under way.
  void progress();
  /// Gives the call its answer if there is one by now: the group's failure, or that it is late.
  void check(PendingCall& pending, SteadyTime now);
  /// Asks whoever the call waits for what they do, when it is time; at_once: a call behind it is late.
  void ask(PendingCall& pending, SteadyTime now, bool at_once = false);
  bool knows_whom_to_blame(const PendingCall& pending, SteadyTime now) const;
  /// Finds out what `pending` waits for, and says so in the log when that takes long. Returns when to look again.
  SteadyTime watch(const PendingCall& pending, SteadyTime now);
  /// The awaited ranks that are to blame: those that are not in the call, or do not answer.
  std::vector<MissingRank> missing(const PendingCall& pending, SteadyTime now) const;
  std::string late(const PendingCall& pending, SteadyTime now) const;
  Status await_members(SteadyTime deadline);
  /// Meets the other ranks of this host in memory, as far as they can, and learns from all ranks who does.
  Status form_hosts(SteadyTime deadline);
  /// TicketExchange, within this host.
  Result<std::string> exchange_ticket(const GroupView& host, const std::string& mine, SteadyTime deadline);
  /// Ends what waits in local_, or is to meet there in this epoch, if `note` breaks it. Any thread.
  void end_local(const FailedNote& note, std::uint64_t epoch);
  Status check_hellos() const;

  static constexpr std::uint64_t kAlways = ~std::uint64_t{0};

  Activity activity_;
  const std::uint32_t own_id_;
  const bool deterministic_;
  GroupView view_;
  std::uint64_t calls_ = 0;                             // made in this epoch
  int unanswered_ = 0;                                  // works that nobody has got the answer of
  std::deque<std::shared_ptr<PendingCall>> under_way_;  // by index
  std::vector<Arrived> early_;                          // messages of calls not made here yet
  GroupHosts hosts_;
  std::atomic<std::uint64_t> in_local_{0};  // index + 1 of the call that waits in local_; kAlways: all do
  std::unique_ptr<Communicator> local_;
  std::optional<GroupContext> context_;  // once the epoch has formed
  GroupInbox inbox_;                     // the last member: its deliveries end first
};

}  // namespace troupe::collectives::detail
