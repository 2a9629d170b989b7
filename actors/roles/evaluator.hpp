#pragma once
// The evaluator: every so many learner steps it plays whole episodes with the newest parameters and no exploration
// noise, and reports their returns. It never holds anyone up.
#include <memory>
#include <vector>

#include <troupe/actors/roles/episode_runner.hpp>
#include <troupe/actors/runtime/topology.hpp>

namespace troupe::actors {

struct EvaluatorActorOptions {
  EpisodeRunnerOptions runner;
  std::int64_t every_learner_steps = 2500;
};

/// Ports: in parameters (latest, Parameters); out evaluations (stream, Evaluation), of which each has the values of
/// values_of_returns(). Evaluates the first version that is at least every_learner_steps newer than the one evaluated
/// before; the untrained version 0 too. An evaluation that a checkpoint finds under way is begun anew after a resume.
class Evaluator final : public Role {
 public:
  static RoleSpec spec(std::string name, const EvaluatorActorOptions& options);
  static Result<std::unique_ptr<Role>> make(const EvaluatorActorOptions& options, const RoleIdentity& identity);

  Result<Progress> step(RoleContext& context) override;
  Result<RoleState> save() const override;
  Status restore(const RoleState& state) override;

 private:
  Evaluator(EvaluatorActorOptions options, RoleIdentity identity, std::unique_ptr<EpisodeRunner> runner);
  Result<Progress> wait_for_parameters(RoleContext& context);

  EvaluatorActorOptions options_;
  RoleIdentity identity_;
  std::unique_ptr<EpisodeRunner> runner_;
  bool playing_ = false;
  bool unsent_ = false;       ///< the returns of an evaluation that has ended wait for room
  std::int64_t version_ = 0;  ///< being evaluated, or evaluated last
  std::int64_t next_version_ = 0;
  std::int64_t evaluations_ = 0;
};

}  // namespace troupe::actors
