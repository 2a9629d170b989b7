#pragma once
// The replicator of a group over threads, processes and hosts: each member of the group runs one replica, and they
// reduce through a Communicator whose membership changes while training goes on (MultiWorkerReplicator of
// TF-Replicator; elastic as torchft is, per step). The learner and replica roles drive one each.
//
//   reform(view)  join the epoch; agree on the state, and whether values meet on the members' GPUs (by NCCL) or on
//                 their hosts; build the step for the new share of the batch
//   begin()       all or nothing: every reduction of a step precedes its first change, so a step that fails because a
//                 member has gone has changed nothing here, and is taken again in the next epoch with the same input
//
// Members that stopped between the last reduction and the update are one step apart, and a new one is further behind:
// whoever differs gets the whole state from the lowest rank among those with the most steps. From a peer, not from
// disk. Gradients that were being accumulated (CompileOptions::accumulate) are each member's own and in part of members
// that have gone, so a new epoch begins with a whole update.
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include <troupe/collectives/communicator.hpp>
#include <troupe/collectives/nccl_group.hpp>
#include <troupe/core/clock.hpp>
#include <troupe/learner/replicate/consistency.hpp>
#include <troupe/learner/replicate/replicator.hpp>

namespace troupe::learner {

struct MultiWorkerOptions {
  /// Rows of this member's batches, whatever the size of the group; or 0: an even share of global_batch (members may
  /// differ by one row, and a mean is exact all the same).
  std::int64_t batch = 0;
  std::int64_t global_batch = 0;  ///< rows of one step over all members, when `batch` is 0
  /// As ReplicatorOptions::deterministic, where the size of the group allows; a group of 3 has bits of its own.
  bool deterministic = false;
  DType wire = DType::kF32;                           ///< of gradients, see ReplicaContext::set_gradient_wire()
  CompileOptions compile;                             ///< the seed must be the same on all members
  std::int64_t check_every_steps = kCheckEverySteps;  ///< see keep_consistent()
  /// Of the members' hosts; in no group yet, or any. Outlives the replicator.
  collectives::Communicator* communicator = nullptr;
  std::string nccl_interface = {};  ///< NcclOptions::interface, for a member on a GPU; the same on all
  /// One of them runs at a time, and gives way only within the communicator: so those on GPUs do without NCCL, in which
  /// each would wait for another whose turn never comes. The same on all.
  bool members_take_turns = false;
  std::string name = "multi_worker";  ///< in the log
};

class MultiWorker final : public Replicator {
 public:
  /// Builds the step as for a group of one, so that program() is there to be restored. `replica` outlives this.
  /// Errors: kInvalidArgument (batches, a network interface that is not there); what input_fn, the graph or its
  /// compilation say.
  static Result<std::unique_ptr<MultiWorker>> make(Replica& replica, const MultiWorkerOptions& options);

  /// Joins the epoch of `view` and agrees with its members on the state. program() may be another one afterwards.
  /// Errors: those of Communicator::reform() and its calls (collectives::epoch_is_over(): wait for the next view);
  /// kInvalidArgument (a global batch with fewer rows than members); kCorrupt on all members when none of them has a
  /// whole state, because the last one that had left while it handed it on: they must be restored from a checkpoint.
  /// Where NCCL fails by itself, this epoch is over, and this member says in the next one that it has no NCCL.
  Status reform(const collectives::GroupView& view, Duration timeout);

  Status stage() override;
  int staged() const override { return taken_ ? 1 : 0; }
  /// Errors: kOutOfRange when the input of all members has ended; collectives::epoch_is_over(): nothing has changed,
  /// and the step stays staged for the next epoch, unless that has another share of the batch. Never kUnavailable.
  Status begin() override;
  /// One step, of a feed. Errors: as above, but after the end of an epoch the feed is asked anew.
  Status begin(int steps) override;
  Status finish() override;
  Program& program() override { return *program_; }
  BatchView batch() const override { return last_; }
  const InputPipeline& input() const override { return *input_; }
  const InputContext& context() const { return context_; }

 private:
  MultiWorker(Replica& replica, const MultiWorkerOptions& options) : replica_(replica), options_(options) {}
  /// The step for this place in the group, with the state of the program before it.
  Status build(const InputContext& context);
  /// How many batches the steps taken have used.
  std::int64_t batches() const { return program_->step() * options_.compile.accumulate; }
  Status agree();
  /// Of a member on a GPU: the group between GPUs, or why there is none.
  Status find_nccl();
  /// Whether this epoch has it, which all members decide alike; then it forms.
  Status meet_on_gpus(std::chrono::steady_clock::time_point deadline);
  Status receive_state(int from);
  /// Of inputs that end: whether any member has rows, which all find out together.
  Status agree_on_rows();
  /// With its input there.
  Status take_step(const std::function<Status()>& run);

  Replica& replica_;
  MultiWorkerOptions options_;
  std::unique_ptr<collectives::Communicator> gpus_;  ///< over options_.communicator; null: this member has none
  collectives::NcclMember own_;                      ///< what it says of itself
  std::string no_nccl_;                              ///< why it has none, of a member on a GPU
  int nccl_deadlines_ = 0;                           ///< that NCCL has missed here while the hosts met in time
  std::string told_;                                 ///< what the log said last
  InputContext context_;
  std::unique_ptr<InputPipeline> input_;
  std::unique_ptr<Program> program_;
  std::optional<BatchView> taken_;  ///< of the step that is staged, perhaps to be taken again
  bool stepped_ = false;            ///< begun and not finished
  BatchView last_;
  std::int64_t inputs_ = 0;  ///< batches taken in all: where the input is
  bool whole_ = true;        ///< false: a peer's state came in halves, and counts for nothing
};

}  // namespace troupe::learner
