#pragma once
// A learner that is not one of Troupe's programs: an agent's batches go to what a user has written with whatever
// library (PyTorch, JAX, a solver of their own), and its policy's parameters come back, for env actors and evaluator to
// act with. Everything around it is the agent's: environments, replay, the parameter store, checkpoints, metrics.
// `learner.kind` of a configuration names it (run/registry.hpp).
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <troupe/actors/roles/replay_batches.hpp>
#include <troupe/actors/runtime/topology.hpp>
#include <troupe/core/metrics.hpp>
#include <troupe/learner/graph/param_buffer.hpp>

namespace troupe::actors {

/// What a learner is told of its agent.
struct LearnerContext {
  Signature batch;              ///< columns of a batch; when replay is prioritised, float32 "weight" is the last
  learner::ParamLayout policy;  ///< what it gives out: names, shapes and places in one flat buffer
  std::int64_t batch_size = 0;  ///< rows of each batch
  std::int64_t max_steps = 0;   ///< after which it is done; 0: no end
  bool prioritised = false;     ///< learn() must give priorities
  std::uint64_t seed = 0;
};

/// What came out of one step.
struct LearnerStep {
  std::vector<double> priorities;  ///< of the batch's rows, finite and >= 0, when replay is prioritised
  std::vector<Scalar> metrics;     ///< "critic_loss", ...: in metrics.csv as learner/NAME
};

/// One thread at a time calls it. Errors of all calls end the learner, and the run with it.
class Learner {
 public:
  virtual ~Learner() = default;
  /// One step on one batch, whose columns are there for the call alone.
  virtual Result<LearnerStep> learn(const BatchView& batch) = 0;
  /// Fills in what env actors act with from now on, [LearnerContext::policy.elements]; gaps stay 0.
  virtual Status write_policy(std::span<float> values) = 0;
  /// What a checkpoint must hold besides the policy. Names are its own.
  virtual Result<RoleState> save() const { return RoleState{}; }
  virtual Status restore(const RoleState&) { return {}; }
};
using MakeLearner = std::function<Result<std::unique_ptr<Learner>>(const LearnerContext&)>;

/// Before the names of what Learner::save() gives, in checkpoints.
inline constexpr std::string_view kOwnLearnerState = "own/";

struct OwnLearnerOptions {
  MakeLearner make;
  LearnerContext context;  ///< but for its seed, which is the role's
  ReplayBatchesOptions batches;
  std::int64_t publish_period = 1;  ///< steps between two publications
};

/// Ports: those of ReplayBatches; out updates (latest, Parameters); in refused (latest, ParametersVersion), which says
/// where versions must go on after a restart. The first policy is published before the first step.
RoleSpec own_learner(std::string name, const OwnLearnerOptions& options);

}  // namespace troupe::actors
