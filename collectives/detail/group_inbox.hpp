#pragma once
// Where a rank's messages arrive, and what the rank's own thread and the carrier's threads both must know: the epoch,
// who has come to it, whether it is broken. Private to the communicator over peers.
//
//   carrier's threads --deliver--> unread messages of this epoch --take()--> the rank's own thread, which does the work
//                         |-- hello, failed: noted here, also those of a newer epoch, for our own open()
//                         '-- ask: answered at once, whatever the rank's own thread is doing
//
// Bounds: kMaxUnreadBytes from each member in this epoch (schedule.hpp keeps a well-behaved member far below); one more
// message breaks the epoch. Of newer epochs only hellos and failures are kept, and only of the kMaxNewer newest:
// nobody sends more to a rank that has not said hello. Messages of older epochs are dropped.
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include <troupe/collectives/activity.hpp>
#include <troupe/collectives/cooperative_scheduler.hpp>
#include <troupe/collectives/detail/group_message.hpp>
#include <troupe/collectives/peers.hpp>

namespace troupe::collectives::detail {

using SteadyTime = std::chrono::steady_clock::time_point;

/// A message of this epoch for the rank's own thread.
struct Arrived {
  int rank = 0;
  MessageHead head;
  std::span<const std::byte> payload;
  std::shared_ptr<const void> owner;
};

/// What was last heard of a rank.
struct Heard {
  SteadyTime at;                     ///< any message; before the first: when the epoch was opened
  std::optional<AnswerNote> answer;  ///< to the last question that was answered
  SteadyTime answered_at;
  std::uint64_t answered_index = 0;  ///< the call it was about
};

class GroupInbox {
 public:
  static constexpr std::size_t kMaxUnreadBytes = std::size_t{256} << 20;
  static constexpr std::size_t kMaxNewer = 8;

  /// Takes the deliveries of `peers` until close(). scheduler: null when the rank has a thread that may sleep.
  GroupInbox(Peers& peers, std::uint32_t own_id, const Activity& activity, CooperativeScheduler* scheduler);
  ~GroupInbox() { close(); }
  GroupInbox(const GroupInbox&) = delete;
  GroupInbox& operator=(const GroupInbox&) = delete;

  /// On the clock by which the rank waits. Any thread.
  SteadyTime now() const { return scheduler_ ? SteadyTime(scheduler_->now()) : std::chrono::steady_clock::now(); }

  // The rank's own thread.

  /// Takes and sends nothing more.
  void close();
  /// Begins a newer epoch, with whatever has come for it already. `on_failure` is called by any thread when it breaks,
  /// or when a member of this host shares no memory; it must not call back. Returns the failure when abort() has been
  /// called for the epoch before.
  std::optional<Error> open(const GroupView& view, std::function<void(const FailedNote&)> on_failure);
  /// All have come: what fails from now on are calls, and no rank that is still forming the group gives up for it.
  void formed();
  /// By rank, what has come so far.
  std::vector<std::optional<Hello>> hellos() const;
  /// Member ids that have said hello to this epoch though our view does not have them.
  std::vector<std::uint32_t> strangers() const;
  /// The text of the ticket that has come; by rank, whether it shares its host's memory: empty, or why not.
  std::optional<std::string> ticket() const;
  std::vector<std::optional<std::string>> locals() const;
  /// Messages since the last take(), in the order of each sender.
  std::vector<Arrived> take();
  /// The bytes of a taken message are not needed any more.
  void release(const Arrived& arrived);
  /// Sleeps until something has come or changed since the last take(), or `until`. Where the rank's turns are over and
  /// nobody can come any more, the epoch breaks.
  void wait(SteadyTime until);
  /// This rank has made one call more; questions about it are answered with yes from now on.
  void enter_call();
  /// Asks what `rank` does, and whether it has come to call `index`. Never waits; the answer is in heard().
  void ask(int rank, std::uint64_t index);
  Heard heard(int rank) const;

  /// Sends to a rank of this epoch. Errors: as of Peers::send().
  Status send(int rank, MessageHead head, std::span<const std::byte> body);
  Status lend(int rank, MessageHead head, std::shared_ptr<const LentBytes> body);

  // Any thread.

  /// The epoch is broken, or with `from` only calls from that index on. The first error stays. The others are told.
  /// `epoch`: of which that is true, where another thread may have opened the next one meanwhile; then nothing happens.
  void fail(const Error& error, std::optional<std::uint64_t> from = std::nullopt,
            std::optional<std::uint64_t> epoch = std::nullopt);
  /// fail() of this epoch if it is at most `through` (this one when empty), and of all up to that which are yet to be
  /// opened.
  void abort(std::string_view reason, std::optional<std::uint64_t> through);
  /// What breaks call `index`, or without one the forming of the group.
  std::optional<Error> failure(std::optional<std::uint64_t> index = std::nullopt) const;

 private:
  struct Newer {
    std::map<std::uint32_t, Hello> hellos;
    std::optional<FailedNote> failed;
  };

  void deliver(PeerMessage message);
  /// Of this epoch. Whether the others are to be told of a failure: each rank tells it on once, since who told this one
  /// may not live to tell all, or not know of all.
  bool deliver_here(PeerMessage& message, const ParsedMessage& parsed);
  void answer(std::uint32_t member, const MessageHead& question);
  std::optional<int> rank_of(std::uint32_t member) const;
  /// Whether this is news; calls on_failure_ if so.
  bool note_failure(const FailedNote& note);
  /// `view`: the one that has failed, which may not be the present one any more.
  void tell_all(const FailedNote& note, const GroupView& view);

  Peers& peers_;
  const std::uint32_t own_id_;
  const Activity& activity_;
  CooperativeScheduler* const scheduler_;

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  bool closed_ = false;
  bool news_ = false;
  GroupView view_;  // size 0: in no group yet
  std::function<void(const FailedNote&)> on_failure_;
  std::map<std::uint32_t, Hello> hellos_;  // by member id
  std::optional<std::string> ticket_;
  std::vector<std::optional<std::string>> locals_;  // by rank
  std::vector<Arrived> unread_;
  std::vector<std::size_t> unread_bytes_;  // by rank, also of what was taken and not released
  std::vector<Heard> heard_;               // by rank
  bool formed_ = false;
  std::uint64_t calls_ = 0;
  std::optional<FailedNote> failed_;
  std::map<std::uint64_t, Newer> newer_;                          // by epoch
  std::optional<std::pair<std::uint64_t, std::string>> aborted_;  // through which epoch, and why
};

}  // namespace troupe::collectives::detail
