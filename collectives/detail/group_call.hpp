#pragma once
// One collective between processes, from this rank's side: first everybody learns what everybody calls, by recursive
// doubling, then, if all agree, the values move by the steps of schedule.hpp. Goes on whenever messages have come;
// never waits, but in wait_local(). Where ranks share memory, a large all-reduce is hierarchical: first within each
// host, then one rank of each host between hosts, then within each host again: over links 2 (H-1)/H N bytes from each
// of H hosts. Private to the communicator over peers; only the rank's own thread touches it.
#include <atomic>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include <troupe/collectives/detail/group_hosts.hpp>
#include <troupe/collectives/detail/group_inbox.hpp>
#include <troupe/collectives/detail/schedule.hpp>

namespace troupe::collectives::detail {

/// Up to this many bytes over all ranks, values ride with the heads of recursive doubling and nothing else is sent.
constexpr std::size_t kSmallBytes = std::size_t{64} << 10;
/// Groups of this many ranks and more reduce by the ring where the order of sums is free; smaller ones exchange
/// directly, which has the same bytes and 2 steps, and is as fast (measured: 4 hosts, 1 to 100 MB).
constexpr int kRingRanks = 9;
/// Values are lent to the carrier, and not copied, where this many bytes follow to the same rank: the last ones are
/// hardly confirmed when the call ends, and would have to be taken back.
constexpr std::size_t kCopiedBytes = std::size_t{1} << 20;

/// What the rank brings, and where the result goes. In place (all_reduce, broadcast): the same memory.
struct CallBuffers {
  std::span<const float> input;
  std::span<float> result;
};

/// What all calls of an epoch share.
struct GroupContext {
  GroupInbox& inbox;
  const GroupView& view;
  const GroupHosts& hosts;
  Communicator* local = nullptr;         ///< between hosts.own, if they share memory
  std::atomic<std::uint64_t>& in_local;  ///< index + 1 of the call that waits there: a failure of it must end the wait
  bool deterministic = false;
};

class GroupCall {
 public:
  /// The context must outlive the call; the buffers are touched until complete() or the last advance().
  GroupCall(const GroupContext& context, CallPlace place, Call call, double weight, SteadyTime deadline,
            CallBuffers buffers);
  ~GroupCall() { end(); }
  GroupCall(const GroupCall&) = delete;
  GroupCall& operator=(const GroupCall&) = delete;

  const Call& call() const { return call_; }
  CallPlace place() const { return place_; }

  /// A message of this call has come.
  void take(Arrived arrived);
  /// Goes as far as it can. Errors: kShapeMismatch (ranks call different things), kInvalidArgument (no rank has any
  /// weight), kCorrupt (a message that is none of this call's); the same at every rank, for all but the last.
  Status advance();
  bool complete() const { return complete_; }
  /// Whether it waits for the ranks of this host, in their memory and not for messages: then wait_local() sleeps until
  /// that is over.
  bool is_local() const { return local_work_ != nullptr; }
  void wait_local() { (void)local_work_->wait(); }
  /// It has failed: touches the buffers no more.
  void end();
  /// kShapeMismatch when some ranks have said that they call something else, though not all have spoken.
  Status disagreement() const;
  /// The ranks without which it does not go on: those whose calls are not known yet, then those that owe values.
  std::vector<int> awaited() const;
  /// Whether that rank is known to have made this call.
  bool has_come(int rank) const { return known_[static_cast<std::size_t>(rank)].has_value(); }
  /// Why the last message could not be sent, for now; empty when none waits to be sent.
  const std::optional<Error>& unsent() const { return unsent_; }

 private:
  enum class Progress { kDone, kBlocked };

  Result<Progress> gather_heads();
  Status keep_heads(const DoublingLevel& level, const Arrived& arrived);
  Status begin();
  void finish_small();
  void plan();
  Result<Progress> do_local(bool down);
  Result<Progress> do_step(const Step& step);
  bool send(const Step& step);
  Result<std::optional<Arrived>> next_values(const Step& step);
  Result<Progress> reduce_step(const Step& step);
  /// The floats of a message; `scratch` holds them where they have to be unpacked.
  const float* floats(const Arrived& arrived, std::size_t begin, std::size_t count, std::vector<float>& scratch) const;
  bool reduces() const { return call_.kind == CallKind::kAllReduce || call_.kind == CallKind::kReduceScatter; }
  bool rounds() const { return call_.wire == DType::kBF16; }
  bool rides() const;
  /// Whether a reduction needs a message of that rank.
  bool owes(int rank) const;
  float share(int rank) const { return shares_.empty() ? 1.0f : shares_[static_cast<std::size_t>(rank)]; }
  bool try_send(int rank, MessageHead head, std::span<const std::byte> body);
  bool try_lend(int rank, MessageHead head, std::span<const std::byte> body);
  bool is_sent(const Status& status);
  void take_back();

  const GroupContext& context_;
  GroupInbox& inbox_;
  const GroupView& view_;
  const CallPlace place_;
  const Call call_;
  const double weight_;
  const SteadyTime deadline_;
  const CallBuffers buffers_;

  // Heads.
  std::vector<DoublingLevel> levels_;
  std::size_t level_ = 0;
  std::size_t sent_ = 0;                          // of this level's send_to
  std::vector<std::vector<std::byte>> heads_;     // by rank; empty: not known yet
  std::map<std::uint64_t, Arrived> early_heads_;  // by level
  std::vector<std::optional<RankHead>> known_;    // by rank

  // Values.
  std::vector<float> shares_;  // by rank in kMean, else empty; then values are multiplied already
  bool begun_ = false;
  std::vector<int> parts_;  // the ranks that exchange by steps_
  bool up_ = false;         // to be reduced within the host first
  bool down_ = false;       // to be brought back within the host at the end
  std::unique_ptr<Work> local_work_;
  std::vector<Step> steps_;
  std::size_t step_ = 0;
  std::vector<std::deque<Arrived>> values_;  // by rank
  std::vector<std::uint64_t> received_;      // messages of values, by rank
  std::vector<std::uint64_t> sent_to_;       // messages of values, by rank
  std::vector<std::size_t> bytes_to_send_;   // by rank
  std::vector<std::shared_ptr<LentBytes>> lent_;
  std::vector<std::uint16_t> packed_;
  std::vector<float> rounded_;

  bool complete_ = false;
  std::optional<Error> unsent_;
};

}  // namespace troupe::collectives::detail
