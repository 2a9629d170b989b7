#pragma once
// How the replicas that train together exchange values: one Communicator a replica, all of one group calling the same
// sequence of collectives. Used by learner's replicators; back ends (threads of one process, links, NCCL) sit beside
// it. Three things stand before every back end. What each rank calls is compared before any value is touched, so ranks
// that disagree all get an error that says how, never garbage. Every wait has a deadline. A mean is always weighted,
// sum(w_i x_i) / sum(w_i), so that uneven batches and changing groups are exact.
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <troupe/collectives/activity.hpp>
#include <troupe/core/clock.hpp>
#include <troupe/core/error.hpp>
#include <troupe/core/tensor.hpp>

namespace troupe::collectives {

enum class ReduceOp : std::uint8_t { kSum = 0, kMean = 1, kMin = 2, kMax = 3, kProduct = 4 };

/// "sum", "mean", "min", "max", "product".
std::string_view to_string(ReduceOp op);

/// Who holds a rank. A member keeps its id over epochs, while ranks are handed out anew in each.
struct Member {
  std::uint32_t id = 0;
  std::string name = {};  ///< for people: "node B, learner-1"
  std::string host = {};  ///< members with the same one share memory; empty: with nobody
};

/// One membership of a group, as one member sees it. Everybody agrees on all but the rank.
struct GroupView {
  std::uint64_t epoch = 0;  ///< grows with every change of membership
  int rank = 0;             ///< 0..size-1
  int size = 1;             ///< 0: no group yet
  /// By rank; empty for threads of one process, which are named by their ranks and need no address.
  std::vector<Member> members = {};
};

/// What every call says besides its values.
struct CallOptions {
  std::string name;  ///< of the tensor; must be the same on all ranks
  /// Of what this rank contributes (in reduce_scatter: of one row), for the comparison of calls; empty: one dimension.
  Shape shape = {};
  /// Of this rank's values in kMean, usually its samples; finite, >= 0. With 0 its values are unread.
  double weight = 1;
  /// How values travel between processes: kF32, or kBF16 for half the bytes. What travels is rounded to it, so threads
  /// of one process round nothing; sums are float32, and all ranks get the same bits either way.
  DType wire = DType::kF32;
  /// What the values are. kI64 is gather_integers()'s, of which two elements of a call hold one.
  DType dtype = DType::kF32;
  Duration timeout = std::chrono::seconds(30);  ///< from the call to its end, on real time
};

/// A collective under way. The buffers given to the call are borrowed until it is done. Works advance while their ranks
/// are in wait() or done(), so every rank must come back to its own. Destroying an unfinished Work aborts the group.
class Work {
 public:
  virtual ~Work() = default;
  /// Whether wait() would return at once. Never blocks.
  virtual bool done() = 0;
  /// Sleeps until the call is complete or failed, or its timeout has passed; repeated calls give the same answer.
  /// Errors: kShapeMismatch (ranks called different things), kInvalidArgument (a rank's arguments cannot work),
  /// kDeadlineExceeded (naming the ranks that did not come), kCancelled (abort). Outputs are then undefined.
  virtual Status wait() = 0;
};

/// Whether a communicator's error says that its epoch is over because of who is in the group: a rank has left, was
/// stopped or did not come in time. The next epoch helps. Any other error is of what the ranks call, and would come
/// again there.
inline bool epoch_is_over(const Error& error) {
  return error.code == Code::kCancelled || error.code == Code::kDeadlineExceeded;
}

/// One rank's end of a group. All ranks must make the same calls in the same order; their number of unfinished works is
/// at most kMaxPending. The first failure breaks the group: all unfinished and later calls of every rank give that same
/// error, until reform(); in no group yet, view() has size 0 and calls give kCancelled. The owning thread calls all but
/// abort(). Results are the same bits on every rank, and in every run with the same inputs: reductions go in one fixed
/// tree over ranks (reduce.hpp), save where make_group_communicator() or make_nccl_communicator() say otherwise.
class Communicator {
 public:
  /// Unfinished works a rank; one more gives kUnavailable, is not a call to the others and breaks nothing.
  static constexpr int kMaxPending = 64;

  virtual ~Communicator() = default;

  virtual const GroupView& view() const = 0;
  /// The GPU, by its index in this process, in whose memory the values of all calls lie; -1: the host's. NCCL's alone
  /// has one, and only in an epoch that NCCL has formed; all ranks of an epoch have one, or none has.
  virtual int device() const { return -1; }
  /// The same ranks' communicator for values in the host's memory: this one, unless NCCL's. Calls of both are one
  /// sequence, and break together.
  virtual Communicator& host() { return *this; }
  /// What this rank does outside of collectives. Its owner says so here; the others read it when they wait for it.
  virtual Activity& activity() = 0;

  /// values, of equal length everywhere, becomes the reduction over ranks, in place.
  virtual std::unique_ptr<Work> all_reduce(std::span<float> values, ReduceOp op, CallOptions options) = 0;
  /// out: [size, in.size()], rank r's `in` at row r. in and out must not overlap.
  virtual std::unique_ptr<Work> all_gather(std::span<const float> in, std::span<float> out, CallOptions options) = 0;
  /// in: [size, out.size()]; out becomes row `rank` of the reduction over ranks. in and out must not overlap.
  virtual std::unique_ptr<Work> reduce_scatter(std::span<const float> in, std::span<float> out, ReduceOp op,
                                               CallOptions options) = 0;
  /// values becomes what it is on rank `root`.
  virtual std::unique_ptr<Work> broadcast(std::span<float> values, int root, CallOptions options) = 0;
  /// What ranks say to each other in whole numbers: `own`, of equal length everywhere, of all ranks: [size,
  /// own.size()]. Of the host's memory, whatever the values of other calls lie in; returns when the call is complete.
  /// Errors: those of Work::wait().
  Result<std::vector<std::int64_t>> gather_integers(std::span<const std::int64_t> own, CallOptions options);
  /// Done when every rank has called it.
  virtual std::unique_ptr<Work> barrier(CallOptions options) = 0;

  /// Breaks the group with kCancelled and `reason`: the present epoch, or with `through` every one up to that, also one
  /// that has not formed yet. Any thread, any number of times; returns within milliseconds.
  virtual void abort(std::string_view reason, std::optional<std::uint64_t> through = std::nullopt) = 0;

  /// What has broken the group, if anything has: the error that the next call would give. For whoever waits for
  /// something else than a Work of this group. Never blocks.
  virtual std::optional<Error> failure() const = 0;

  /// Leaves the present group, broken or not, for a newer one, and waits until all of its ranks have come.
  /// Errors: kInvalidArgument (rank, size, or an epoch that is not newer: nothing changed); kShapeMismatch (ranks
  /// disagree about the group), kDeadlineExceeded, kCancelled (aborted): the new epoch is then broken too.
  virtual Status reform(const GroupView& view, Duration timeout) = 0;
};

}  // namespace troupe::collectives
