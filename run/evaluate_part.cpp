#include <troupe/run/evaluate_part.hpp>

#include <fmt/format.h>

#include <chrono>
#include <memory>
#include <thread>

#include <troupe/actors/roles/episode_runner.hpp>
#include <troupe/actors/roles/evaluation.hpp>
#include <troupe/actors/roles/replica_evaluation.hpp>
#include <troupe/core/clock.hpp>
#include <troupe/core/log.hpp>
#include <troupe/core/rng.hpp>
#include <troupe/run/agent_topology.hpp>

namespace troupe::actors {
namespace {

/// An evaluation that takes longer says what goes on.
constexpr Duration kSaidAfter = std::chrono::seconds(2);

Result<std::vector<Scalar>> evaluate_replicas(const ReplicaRun& run, const TrainedPart& part) {
  TROUPE_ASSIGN(const ReplicaModel model, model_of(run));
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

Result<std::vector<Scalar>> evaluate_policy(const AgentOptions& options, std::uint64_t seed, const PolicyValues& values,
                                            const std::atomic<bool>* stop) {
  TROUPE_ASSIGN(const Agent agent, make_agent(options));
  TROUPE_ASSIGN(const auto policy, agent.make_policy(1, learner::Device{}));
  TROUPE_ASSIGN(const std::vector<float> parameters, values(policy->layout()));
  const SteadyClock clock;
  const Duration begun = clock.now();
  bool said = false;
  TROUPE_ASSIGN(const auto runner, EpisodeRunner::make(evaluation_episodes(options, agent)));
  TROUPE_TRY(runner->begin(parameters, policy->fingerprint(), derive_seed(seed, "final", 0)));
  bool ended = false;
  for (std::int64_t step = 0; step < agent.evaluation.episode_steps && !ended; ++step) {
    if (stop != nullptr && stop->load(std::memory_order_relaxed)) {
      return Error{Code::kCancelled, "the evaluation was stopped"};
    }
    if (!said && clock.now() - begun > kSaidAfter) {
      said = true;
      log::info("evaluating what was learnt in {} episodes", options.evaluator.episodes);
    }
    TROUPE_ASSIGN(ended, runner->advance(1));
  }
  return values_of_returns(runner->returns());
}

Result<std::vector<Scalar>> evaluate_part(const TrainOptions& options, const TrainedPart& part) {
  if (const ReplicaRun* const run = find_replicas(options, part.name)) return evaluate_replicas(*run, part);
  const AgentOptions* const agent = find_agent(options, part.name);
  if (agent == nullptr) return Error{Code::kNotFound, fmt::format("the run has no part \"{}\"", part.name)};
  const auto values = [&part](const learner::ParamLayout& layout) { return group_values(part, layout); };
  return evaluate_policy(*agent, options.seed, values);
}

}  // namespace troupe::actors
