#include <troupe/run/check_run.hpp>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <troupe/actors/roles/replica_topology.hpp>
#include <troupe/learner/engine/engine.hpp>
#include <troupe/learner/graph/graph.hpp>
#include <troupe/learner/graph/graph_data.hpp>
#include <troupe/learner/graph/param_buffer.hpp>
#include <troupe/learner/replicate/replica.hpp>
#include <troupe/learner/replicate/verify.hpp>
#include <troupe/messages/parameters.hpp>
#include <troupe/run/agent_topology.hpp>
#include <troupe/run/no_metrics.hpp>
#include <troupe/run/run_topology.hpp>

namespace troupe::actors {
namespace {

/// What a step of a graph accepts does not depend on how many rows it has, but the memory for its input does.
constexpr std::int64_t kCheckedRows = 2;

/// served: the group, when its replicas meet through a parameter server alone: they call no collective within a step,
/// and its shards can make the updates. more: what else must be true of the step; null: nothing.
Status build_step(learner::Replica& replica, const ReplicaGroupOptions* served,
                  const std::function<Status(const learner::Graph&)>& more = nullptr) {
  const int replicas = served == nullptr ? 1 : static_cast<int>(served->count);
  const learner::InputContext context{
      .replica_count = replicas, .replica_batch = kCheckedRows, .global_batch = kCheckedRows * replicas};
  TROUPE_ASSIGN(const auto input, replica.input_fn(context));
  learner::Graph graph(kCheckedRows);
  learner::ReplicaContext meets(graph, context, nullptr);
  replica.step_fn(meets, learner::StepInputs(graph, input->signature()));
  TROUPE_TRY(graph.status());
  if (served != nullptr) {
    const ParameterServerOptions server = parameter_server_options(*served);
    TROUPE_ASSIGN(const learner::ServedStep step, learner::plan_served(graph, plan(server, 0, 0)));
    for (const learner::ShardPlan& shard : step.plans) {
      TROUPE_TRY(messages::check_parameters(server.transfer, shard.piece.own_elements()));
    }
  }
  return more ? more(graph) : Status();
}

/// Whether all that is trained fits the message in which an evaluator gets it.
Status check_evaluated(const learner::Graph& evaluation) {
  const learner::GraphData& data = learner::GraphAccess::data(evaluation);
  std::int64_t elements = data.state.layout.elements;
  for (const learner::GroupDef& group : data.groups) elements += group.layout.elements;
  return messages::check_parameters(DType::kF32, elements);
}

/// Whether devices of these names could run the step; a name that is none is somebody else's mistake.
Status check_devices(const learner::Graph& step, std::span<const std::string> names) {
  for (const std::string& name : names) {
    const auto device = learner::parse_device(name);
    // "auto" is what there is.
    if (device.ok() && device->engine != "auto") TROUPE_TRY(learner::engine_of(*device).check(step, *device));
  }
  return {};
}

Status check_priorities(const learner::Graph& step, std::string_view output) {
  const auto& outputs = learner::GraphAccess::data(step).outputs;
  const bool there = std::ranges::any_of(outputs, [&](const auto& made) { return made.name == output; });
  if (there) return {};
  return Error{Code::kInvalidArgument, fmt::format("the step has no output \"{}\", of which the priorities for "
                                                   "replay.sampler or replay.remover are made",
                                                   output)};
}

/// The tensors of a group of the step, of a target or an average under its own name.
Result<learner::ParamLayout> layout_of(const learner::GraphData& step, const std::string& name) {
  const auto found = std::ranges::find(step.groups, name, &learner::GroupDef::name);
  if (found == step.groups.end()) {
    return Error{Code::kNotFound, fmt::format("the step has no group \"{}\", which is published", name)};
  }
  const learner::GroupDef& trained = found->online < 0 ? *found : step.groups[static_cast<std::size_t>(found->online)];
  learner::ParamLayout layout = trained.layout;
  layout.group = name;
  for (learner::ParamEntry& entry : layout.entries) entry.name.replace(0, trained.name.size(), name);
  return layout;
}

/// Whether what goes out is what the policy acts with.
Status check_published(const learner::Graph& step, const std::vector<std::string>& groups,
                       const learner::Policy& policy) {
  if (groups.empty()) return Error{Code::kInvalidArgument, "no group is published, expected at least one"};
  const learner::GraphData& data = learner::GraphAccess::data(step);
  std::vector<learner::ParamLayout> layouts;
  std::vector<const learner::ParamLayout*> pointers;
  layouts.reserve(groups.size());
  for (const std::string& name : groups) {
    TROUPE_ASSIGN(learner::ParamLayout layout, layout_of(data, name));
    layouts.push_back(std::move(layout));
    pointers.push_back(&layouts.back());
  }
  const learner::ParamLayout published = learner::published_layout(pointers, data.state.layout);
  if (const Status fits = messages::check_parameters(DType::kF32, published.elements); !fits.ok()) {
    return Error{Code::kInvalidArgument, fmt::format("its policy is too large: {}", fits.error().message)};
  }
  if (published.fingerprint() == policy.fingerprint()) return {};
  const auto tensor = [](const learner::ParamLayout& of, std::size_t i) {
    if (i >= of.entries.size()) return std::string("nothing");
    return fmt::format("{} {}", of.entries[i].name, of.entries[i].shape.to_string());
  };
  std::size_t i = 0;
  while (i < published.entries.size() && tensor(published, i) == tensor(policy.layout(), i)) ++i;
  return Error{Code::kShapeMismatch,
               fmt::format("the policy's tensor {} is {}, expected {} of the step, which publishes "
                           "{}",
                           i, tensor(policy.layout(), i), tensor(published, i), fmt::join(groups, ", "))};
}

/// Whether environment, policy and step of an agent fit each other, on batches that are made up.
Status check_agent(const AgentOptions& options, const CheckRunOptions& how) {
  const auto about = [&](const Error& error) {
    return Error{Code::kInvalidArgument, fmt::format("{}algorithm: {}", section_prefix(options), error.message)};
  };
  const auto agent = make_agent(options);
  if (!agent.ok()) return Error{Code::kInvalidArgument, section_prefix(options) + agent.error().message};
  const auto policy = agent->make_policy(1, learner::Device{});
  if (!policy.ok()) return about(policy.error());
  const auto replica = agent->algorithm.make_replica(learner::random_batches(agent->batch, 1));
  if (!replica.ok()) return about(replica.error());
  const ReplicaGroupOptions* const served = has_parameter_server(options.learner) ? &options.learner : nullptr;
  Status device, inference;
  const Status built = build_step(**replica, served, [&](const learner::Graph& step) -> Status {
    if (how.data) device = check_devices(step, options.learner.device);
    if (how.data && options.actors.inference == "server") inference = check_devices(step, options.inference.device);
    if (is_prioritised(options)) TROUPE_TRY(check_priorities(step, agent->algorithm.priority));
    return check_published(step, agent->algorithm.published, **policy);
  });
  if (!built.ok()) return about(built.error());
  const auto at = [&](const char* key, const Status& status) -> Status {
    if (status.ok()) return {};
    return Error{Code::kInvalidArgument, fmt::format("{}{}: {}", section_prefix(options), key, status.error().message)};
  };
  TROUPE_TRY(at("learner.device", device));
  return at("inference.device", inference);
}

Status check_group(const ReplicaRun& run, const CheckRunOptions& how) {
  const auto at = [&](std::string_view key, const Error& error) {
    return Error{Code::kInvalidArgument, fmt::format("replicas.{}.{}: {}", run.group.name, key, error.message)};
  };
  const auto model = model_of(run, how.data ? ModelContext::Data::kLookedAt : ModelContext::Data::kElsewhere);
  if (!model.ok()) {
    return Error{Code::kInvalidArgument, fmt::format("replicas.{}.{}", run.group.name, model.error().message)};
  }
  const auto check = [&](const MakeReplica& make, const ReplicaGroupOptions* served, bool evaluates) -> Status {
    const auto replica = make();  // which opens the data
    if (!replica.ok()) return at(model->data_key, replica.error());
    Status device;
    const Status built = build_step(**replica, served, [&](const learner::Graph& step) -> Status {
      if (how.data) device = check_devices(step, run.group.device);
      return evaluates ? check_evaluated(step) : Status();
    });
    if (!built.ok()) return at("model", built.error());
    return device.ok() ? device : at("device", device.error());
  };
  TROUPE_TRY(check(model->make, has_parameter_server(run.group) ? &run.group : nullptr, false));
  if (model->make_evaluation) return check(model->make_evaluation, nullptr, true);
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
  for (const AgentOptions& agent : options.agents) note(check_agent(agent, how));
  const bool agents_fit = mistakes.empty();
  for (const ReplicaRun& run : options.replicas) note(check_group(run, how));
  if (agents_fit) note(check_whole(options));  // else it would say the same again
  if (mistakes.empty()) return {};
  return Error{Code::kInvalidArgument, fmt::format("{}", fmt::join(mistakes, "\n"))};
}

}  // namespace troupe::actors
