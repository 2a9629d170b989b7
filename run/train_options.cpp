#include <troupe/run/train_options.hpp>

#include <troupe/replay/selector.hpp>

#include <algorithm>

namespace troupe::actors {

std::string role_of(const AgentOptions& agent, const std::string& role) {
  return agent.name.empty() ? role : agent.name + "-" + role;
}

std::string section_prefix(const AgentOptions& agent) { return agent.name.empty() ? "" : "agents." + agent.name + "."; }

std::int64_t learner_instances(const AgentOptions& agent) { return instances(agent.learner); }

bool is_prioritised(const AgentOptions& agent) {
  const auto does = [](const std::string& selector) {
    const auto kind = replay::selector_kind(selector);
    return kind && replay::goes_by_priorities(*kind);
  };
  return does(agent.replay.sampler) || does(agent.replay.remover);
}

Result<ReplicaModel> model_of(const ReplicaRun& run, ModelContext::Data data) {
  return run.make_model({.seed = run.group.seed, .steps = run.group.steps, .threads = run.threads, .data = data});
}

const AgentOptions* find_agent(const TrainOptions& options, std::string_view learner) {
  const auto found = std::ranges::find_if(
      options.agents, [&](const AgentOptions& agent) { return role_of(agent, kLearnerRole) == learner; });
  return found == options.agents.end() ? nullptr : &*found;
}

const ReplicaRun* find_replicas(const TrainOptions& options, std::string_view name) {
  const auto found = std::ranges::find(options.replicas, name,
                                       [](const ReplicaRun& run) -> std::string_view { return run.group.name; });
  return found == options.replicas.end() ? nullptr : &*found;
}

}  // namespace troupe::actors
