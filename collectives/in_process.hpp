#pragma once
// Communicator between threads of one process: ranks meet in shared memory, and whoever waits reduces, chunk by chunk,
// straight from and to the ranks' own buffers. Used when replicas are threads (one machine without NCCL, and all
// tests).
#include <cstdint>
#include <memory>

#include <troupe/collectives/communicator.hpp>
#include <troupe/collectives/cooperative_scheduler.hpp>

namespace troupe::collectives {

/// How the ranks of a hub all-reduce N bytes each over P ranks, after tf.distribute's NcclAllReduce,
/// HierarchicalCopyAllReduce and ReductionToOneDevice. All give the same bits.
enum class InProcessAlgorithm : std::uint8_t {
  /// 1 step: every waiting rank reduces chunks of all ranks' values and writes them to all. Reads and writes P N, on as
  /// many cores as there are ranks: the fastest.
  kCollective,
  /// 2 ceil(log2 P) steps: the first of each pair adds the second's N bytes to its own, then pairs of pairs; the result
  /// is
  /// copied back down the same way. A rank reads only from its partners.
  kHierarchicalCopy,
  /// 2 steps: rank 0 reduces P N bytes into its own values, and the others copy these N bytes.
  kReductionToOne,
};

/// Where the ranks of one set of replicas meet. Shared by all of them; safe to call from any thread.
class InProcessHub {
 public:
  /// scheduler: null when each rank has a thread of its own; else the ranks take turns, and wait by giving theirs away,
  /// so that timeouts are on its clock, and a call's begins when its rank waits. Outlives the ranks.
  explicit InProcessHub(InProcessAlgorithm algorithm = InProcessAlgorithm::kCollective,
                        CooperativeScheduler* scheduler = nullptr);
  ~InProcessHub();
  InProcessHub(const InProcessHub&) = delete;
  InProcessHub& operator=(const InProcessHub&) = delete;

  /// A communicator that is in no group yet: reform() puts it in one. The hub must outlive it.
  std::unique_ptr<Communicator> make();

  /// The same in one step: joins the group of view.epoch as view.rank and waits until all view.size ranks have.
  /// Errors: as Communicator::reform; kAlreadyExists when the rank has been taken.
  Result<std::unique_ptr<Communicator>> join(const GroupView& view, Duration timeout);

 private:
  friend class InProcessCommunicator;
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace troupe::collectives
