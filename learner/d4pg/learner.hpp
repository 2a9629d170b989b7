#pragma once
// The D4PG learner: what the learner actor feeds with sampled batches, and reads parameters and priorities from. It
// stands between replay and the parameter store in the flow env -> actor -> replay -> learner -> parameter store.
// Checkpoints: learner/program_state.hpp over program(). Acting: d4pg::make_policy() over policy()'s values.
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <troupe/collectives/communicator.hpp>
#include <troupe/core/error.hpp>
#include <troupe/core/tensor.hpp>
#include <troupe/learner/d4pg/options.hpp>
#include <troupe/learner/d4pg/replica.hpp>
#include <troupe/learner/multi_worker.hpp>
#include <troupe/learner/param_buffer.hpp>
#include <troupe/learner/policy.hpp>
#include <troupe/learner/program.hpp>
#include <troupe/learner/replicator.hpp>

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
  /// One step. batch: options.batch rows of signature(), unchanged until a call has succeeded with it.
  /// Errors: kShapeMismatch, naming the column; kInternal after kMaxSkippedInARow (the last checkpoint is what is
  /// good); with a communicator, those of MultiWorker::step(): the same batch comes again.
  Result<StepMetrics> step(const BatchView& batch);
  /// Rows' TD errors (cross-entropies) of the last step, >= 0: what prioritised replay takes as new priorities. Of a
  /// skipped step 0 for rows that are not finite, which so are not drawn again.
  std::span<const float> td_error() const { return td_error_; }

  /// What env actors and the evaluator act with: values() is one contiguous span, fingerprint() its layout. A learner
  /// publishes a copy as version program().step().
  const ParamBuffer& policy() const;
  Program& program() { return replicator_->program(); }

 private:
  explicit Learner(const Signature& signature);

  Signature signature_;
  StepMetrics metrics_;
  std::vector<float> td_error_;
  BatchSlot slot_;
  std::unique_ptr<D4pgReplica> replica_;  ///< a group builds its step anew when its size changes
  std::unique_ptr<Replicator> replicator_;
  MultiWorker* group_ = nullptr;  ///< the replicator, with a communicator
};

/// A policy network for `rows` rows, with initial parameters until load(): give it Learner::policy()'s values and
/// fingerprint. Errors: kInvalidArgument naming the option.
Result<std::unique_ptr<Policy>> make_policy(const Options& options, const PolicyOptions& policy_options);

}  // namespace troupe::learner::d4pg
