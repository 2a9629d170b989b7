#include <troupe/run/evaluate_part.hpp>

#include <algorithm>
#include <memory>
#include <thread>

#include <troupe/actors/roles/episode_runner.hpp>
#include <troupe/actors/roles/evaluation.hpp>
#include <troupe/actors/roles/replica_evaluation.hpp>
#include <troupe/core/rng.hpp>
#include <troupe/run/d4pg_topology.hpp>
#include <troupe/run/run_topology.hpp>
#include <troupe/run/shipped_models.hpp>

namespace troupe::actors {
namespace {

Result<std::vector<Scalar>> evaluate_replicas(const ReplicaRun& run, const TrainedPart& part) {
  TROUPE_ASSIGN(const ReplicaModel model, shipped_model(run.model, run.group));
  TROUPE_ASSIGN(const auto evaluation, ReplicaEvaluation::make(model, part.name));
  TROUPE_TRY(load_part(part, evaluation->program()));
  for (bool prepared = false; !prepared;) {
    TROUPE_ASSIGN(prepared, evaluation->prepare());
  }
  evaluation->begin();
  while (evaluation->under_way()) {
    TROUPE_ASSIGN(const Progress advanced, evaluation->advance());
    if (advanced == Progress::kIdle) std::this_thread::sleep_for(kInputPatience);
  }
  TROUPE_ASSIGN(learner::Verdict verdict, evaluation->verdict());
  return std::move(verdict.scalars);
}

}  // namespace

Result<std::vector<Scalar>> evaluate_policy(const TrainOptions& options, const PolicyValues& values) {
  TROUPE_ASSIGN(const envs::EnvSpec environment, run_environment(options));
  const D4pgActing acting = d4pg_acting(options, environment);
  TROUPE_ASSIGN(const auto policy, acting.make_policy(1, learner::Device{}));
  TROUPE_ASSIGN(const std::vector<float> parameters, values(policy->parameters().layout()));
  TROUPE_ASSIGN(const auto runner, EpisodeRunner::make(evaluation_episodes(options, acting)));
  TROUPE_TRY(runner->begin(parameters, policy->parameters().fingerprint(), derive_seed(options.seed, "final", 0)));
  TROUPE_TRY(runner->advance(environment.episode_steps));
  return values_of_returns(runner->returns());
}

Result<std::vector<Scalar>> evaluate_part(const TrainOptions& options, const TrainedPart& part) {
  const auto run = std::ranges::find(options.replicas, part.name, [](const ReplicaRun& r) { return r.group.name; });
  if (run != options.replicas.end()) return evaluate_replicas(*run, part);
  const auto values = [&part](const learner::ParamLayout& layout) { return group_values(part, layout); };
  return evaluate_policy(options, values);
}

}  // namespace troupe::actors
