#include <troupe/apps/commands/steps_of_run.hpp>

#include <utility>

#include <troupe/actors/roles/replicator_options.hpp>
#include <troupe/run/agent_topology.hpp>

namespace troupe::apps {

Result<std::vector<PartStep>> steps_of_run(const actors::TrainOptions& options, actors::ModelContext::Data data) {
  std::vector<PartStep> all;
  const auto add = [&](actors::ReplicaGroupOptions group, learner::ReplicaFactory make) {
    if (actors::has_parameter_server(group) || actors::is_split_gan(group)) group.replicator = "multi_worker";
    all.push_back({std::move(group), std::move(make)});
  };
  for (const actors::AgentOptions& configured : options.agents) {
    TROUPE_ASSIGN(const actors::Agent agent, actors::make_agent(configured));
    // Nobody has acted yet, so the batches are made up; what is looked at does not depend on what is in them.
    const auto input = learner::random_batches(agent.batch, options.seed);
    TROUPE_ASSIGN(actors::ReplicaGroupOptions group, actors::learner_group(options, configured));
    add(std::move(group), [make = agent.algorithm.make_replica, input] { return make(input); });
  }
  for (const actors::ReplicaRun& run : options.replicas) {
    TROUPE_ASSIGN(actors::ReplicaModel model, actors::model_of(run, data));
    if (!model.make) {
      TROUPE_ASSIGN(model, actors::model_of(run, actors::ModelContext::Data::kLookedAt));
    }
    add(run.group, model.make);
  }
  return all;
}

}  // namespace troupe::apps
