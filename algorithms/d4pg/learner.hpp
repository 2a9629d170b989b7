#pragma once
// The D4PG learner: what the learner actor feeds with sampled batches, and reads parameters and priorities from. It
// stands between replay and the parameter store in the flow env -> actor -> replay -> learner -> parameter store.
// Checkpoints: learner/engine/program_state.hpp over program(). Acting: d4pg::make_policy() over policy()'s values.
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <troupe/algorithms/d4pg/options.hpp>
#include <troupe/algorithms/d4pg/replica.hpp>
#include <troupe/collectives/communicator.hpp>
#include <troupe/core/error.hpp>
#include <troupe/core/tensor.hpp>
#include <troupe/learner/engine/policy.hpp>
#include <troupe/learner/engine/program.hpp>
#include <troupe/learner/graph/param_buffer.hpp>
#include <troupe/learner/replicate/multi_worker.hpp>
#include <troupe/learner/replicate/replicator.hpp>

namespace troupe::learner::d4pg {

struct LearnerOptions {
  Options d4pg;            ///< d4pg.batch is that of this learner
  CompileOptions compile;  ///< threads, compute type, seed
  /// Null: one learner. Otherwise one of a group that trains the same parameters (multi_worker.hpp): reform() first.
  collectives::Communicator* communicator = nullptr;
  std::string nccl_interface = {};  ///< of a group on GPUs: as NcclOptions::interface
  std::string name = "learner";     ///< in the log
};

struct StepMetrics {
  double critic_loss = 0;
  double policy_loss = 0;
  double q_mean = 0;
  bool skipped = false;  ///< the gradient was not finite, so nothing has changed; the numbers are of the step before
};

/// One thread at a time.
class Learner {
 public:
  /// Errors: kInvalidArgument naming the option; what the compilation says.
  static Result<std::unique_ptr<Learner>> make(const LearnerOptions& options);
  Learner(const Learner&) = delete;
  Learner& operator=(const Learner&) = delete;

  /// Columns that step() takes.
  const Signature& signature() const { return signature_; }
  /// With a communicator: joins an epoch of the group and agrees with its members on the state. Errors: as of
  /// MultiWorker::reform().
  Status reform(const collectives::GroupView& view, Duration timeout);
  /// As those of Program, which says how launches of several steps go (learner/engine/program.hpp). batch:
  /// options.batch rows of signature(), unchanged until finish(), or on a GPU until stage() has returned. With a
  /// communicator a launch is one step, which begin() takes: after an error the batch is kept for the next epoch, and
  /// staged again by the caller. Errors: theirs; of stage() kShapeMismatch, naming the column; of finish(), and of
  /// begin() with a communicator, kInternal after kMaxSkippedInARow (the last checkpoint is what is good); with one,
  /// those of MultiWorker::step().
  int steps_per_launch() const;
  Status stage(const BatchView& batch);
  Status begin();
  Status begin(int steps);  ///< with a feed attached to program()
  bool finished();
  /// What each step of the launch gave; valid until the next finish().
  Result<std::span<const StepMetrics>> finish();
  /// All of it for one batch.
  Result<StepMetrics> step(const BatchView& batch);
  /// Rows' TD errors (cross-entropies) of a step of the last launch, >= 0: what prioritised replay takes as new
  /// priorities. Of a skipped step 0 for rows that are not finite, which so are not drawn again. Empty for a step that
  /// it did not have.
  std::span<const float> td_error(int step = 0) const;

  /// What env actors and the evaluator act with: values() is one contiguous span, fingerprint() its layout. A learner
  /// publishes a copy as version program().step().
  const ParamBuffer& policy() const;
  Program& program() { return replicator_->program(); }

 private:
  explicit Learner(const Signature& signature);
  void collect(int step);

  Signature signature_;
  std::vector<StepMetrics> metrics_;          ///< of the steps of the last launch
  StepMetrics last_;                          ///< of the last step that was not skipped
  std::vector<std::vector<float>> td_error_;  ///< of the steps of the last launch, and behind them memory
  bool group_staged_ = false, group_stepped_ = false;
  BatchSlot slot_;
  std::unique_ptr<D4pgReplica> replica_;  ///< a group builds its step anew when its size changes
  std::unique_ptr<Replicator> replicator_;
  MultiWorker* group_ = nullptr;  ///< the replicator, with a communicator
};

/// What the policy takes and gives: observation float32[o], action float32[a].
PolicyColumns policy_columns(const Options& options);
/// The network of acting, from its input to its output: what make_policy() compiles and an export writes.
void build_policy(Graph& graph, const Options& options);
/// A policy network for `rows` rows, with initial parameters until load(): give it Learner::policy()'s values and
/// fingerprint. Errors: kInvalidArgument naming the option.
Result<std::unique_ptr<Policy>> make_policy(const Options& options, const PolicyOptions& policy_options);

}  // namespace troupe::learner::d4pg
