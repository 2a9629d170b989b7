#include <troupe/run/check_run.hpp>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include <troupe/actors/roles/replica_topology.hpp>
#include <troupe/learner/graph/graph.hpp>
#include <troupe/learner/graph/graph_data.hpp>
#include <troupe/learner/replicate/replica.hpp>
#include <troupe/learner/replicate/verify.hpp>
#include <troupe/run/agent_topology.hpp>
#include <troupe/run/no_metrics.hpp>
#include <troupe/run/run_topology.hpp>

namespace troupe::actors {
namespace {

/// What a step of a graph accepts does not depend on how many rows it has, but the memory for its input does.
constexpr std::int64_t kCheckedRows = 2;

/// served: the group, when its replicas meet through a parameter server alone: they call no collective within a step,
/// and its shards can make the updates. output: one that the step must have; empty: none.
Status build_step(learner::Replica& replica, const ReplicaGroupOptions* served, std::string_view output = {}) {
  const int replicas = served == nullptr ? 1 : static_cast<int>(served->count);
  const learner::InputContext context{
      .replica_count = replicas, .replica_batch = kCheckedRows, .global_batch = kCheckedRows * replicas};
  TROUPE_ASSIGN(const auto input, replica.input_fn(context));
  learner::Graph graph(kCheckedRows);
  learner::ReplicaContext meets(graph, context, nullptr);
  replica.step_fn(meets, learner::StepInputs(graph, input->signature()));
  TROUPE_TRY(graph.status());
  if (served != nullptr) TROUPE_TRY(learner::plan_served(graph, plan(parameter_server_options(*served), 0, 0)));
  const auto& outputs = learner::GraphAccess::data(graph).outputs;
  const bool there = std::ranges::any_of(outputs, [&](const auto& made) { return made.name == output; });
  if (output.empty() || there) return {};
  return Error{Code::kInvalidArgument, fmt::format("the step has no output \"{}\", of which the priorities of a "
                                                   "prioritized replay.sampler are made",
                                                   output)};
}

/// Whether environment, policy and step of an agent fit each other, on batches that are made up.
Status check_agent(const AgentOptions& options) {
  const auto about = [&](const Error& error) {
    return Error{Code::kInvalidArgument, fmt::format("{}algorithm: {}", section_prefix(options), error.message)};
  };
  const auto agent = make_agent(options);
  if (!agent.ok()) return Error{Code::kInvalidArgument, section_prefix(options) + agent.error().message};
  if (const auto policy = agent->make_policy(1, learner::Device{}); !policy.ok()) return about(policy.error());
  const auto replica = agent->algorithm.make_replica(learner::random_batches(agent->batch, 1));
  if (!replica.ok()) return about(replica.error());
  const ReplicaGroupOptions* const served = has_parameter_server(options.learner) ? &options.learner : nullptr;
  const Status built = build_step(**replica, served, is_prioritised(options) ? agent->algorithm.priority : "");
  return built.ok() ? built : about(built.error());
}

Status check_group(const ReplicaRun& run, const CheckRunOptions& how) {
  const auto at = [&](std::string_view key, const Error& error) {
    return Error{Code::kInvalidArgument, fmt::format("replicas.{}.{}: {}", run.group.name, key, error.message)};
  };
  const auto model = model_of(run, how.data ? ModelContext::Data::kLookedAt : ModelContext::Data::kElsewhere);
  if (!model.ok()) {
    return Error{Code::kInvalidArgument, fmt::format("replicas.{}.{}", run.group.name, model.error().message)};
  }
  const auto check = [&](const MakeReplica& make, const ReplicaGroupOptions* served) -> Status {
    const auto replica = make();  // which opens the data
    if (!replica.ok()) return at(model->data_key, replica.error());
    const Status built = build_step(**replica, served);
    return built.ok() ? built : at("model", built.error());
  };
  TROUPE_TRY(check(model->make, has_parameter_server(run.group) ? &run.group : nullptr));
  if (model->make_evaluation) return check(model->make_evaluation, nullptr);
  return {};
}

Status check_whole(const TrainOptions& options) {
  NoMetrics sink;
  TROUPE_ASSIGN(const Topology topology, run_topology(options, {sink}, 0));
  return check(topology);
}

}  // namespace

Status check_run(const TrainOptions& options, const CheckRunOptions& how) {
  std::vector<std::string> mistakes;
  const auto note = [&](const Status& status) {
    if (!status.ok()) mistakes.push_back(status.error().message);
  };
  for (const AgentOptions& agent : options.agents) note(check_agent(agent));
  const bool agents_fit = mistakes.empty();
  for (const ReplicaRun& run : options.replicas) note(check_group(run, how));
  if (agents_fit) note(check_whole(options));  // else it would say the same again
  if (mistakes.empty()) return {};
  return Error{Code::kInvalidArgument, fmt::format("{}", fmt::join(mistakes, "\n"))};
}

}  // namespace troupe::actors
