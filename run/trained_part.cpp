#include <troupe/run/trained_part.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <optional>
#include <set>
#include <utility>

#include <troupe/actors/control/run_checkpoint.hpp>
#include <troupe/actors/roles/replica_topology.hpp>
#include <troupe/learner/engine/program_state.hpp>
#include <troupe/learner/replicate/verify.hpp>
#include <troupe/run/agent_topology.hpp>

namespace troupe::actors {
namespace {

using messages::OpenCheckpoint;
using messages::TensorBytes;

/// What a checkpoint holds of one instance. Points into the checkpoint.
struct Instance {
  std::string name;
  const OpenCheckpoint* checkpoint = nullptr;
  std::int64_t steps = 0;

  /// Under the names that the instance gave them.
  std::vector<TensorBytes> tensors() const {
    std::vector<TensorBytes> own;
    for (TensorBytes tensor : checkpoint->tensors) {
      if (!tensor.name.starts_with(name + "/")) continue;
      tensor.name.erase(0, name.size() + 1);
      own.push_back(std::move(tensor));
    }
    return own;
  }
};

std::optional<Instance> find_instance(std::span<const OpenCheckpoint> checkpoint, std::string name) {
  for (const OpenCheckpoint& piece : checkpoint) {
    if (const auto steps = piece.counter(name + "/steps"); steps.ok()) return Instance{std::move(name), &piece, *steps};
  }
  return {};
}

/// Members of a group differ by a step at most; one that is not yet restored has nothing.
Result<Instance> furthest(std::span<const OpenCheckpoint> checkpoint, const std::string& role, std::int64_t count) {
  std::optional<Instance> best;
  for (std::int64_t index = 0; index < count; ++index) {
    const auto instance = find_instance(checkpoint, RoleIdentity{role, index, count}.name());
    if (instance && (!best || instance->steps > best->steps)) best = instance;
  }
  if (!best) {
    return Error{Code::kNotFound, fmt::format("{}: the checkpoint has nothing of \"{}\" yet",
                                              checkpoint.empty() ? "" : checkpoint[0].path, role)};
  }
  return *std::move(best);
}

Result<std::vector<float>> floats(const TensorBytes& tensor) {
  std::vector<float> values(static_cast<std::size_t>(tensor.shape.elements()));
  if (tensor.dtype != DType::kF32 || tensor.bytes.size() != values.size() * sizeof(float)) {
    return Error{Code::kCorrupt,
                 fmt::format("checkpoint: tensor \"{}\" is {} in {} bytes, expected float32{}", tensor.name,
                             to_string(tensor.dtype), tensor.bytes.size(), tensor.shape.to_string())};
  }
  if (!values.empty()) std::memcpy(values.data(), tensor.bytes.data(), tensor.bytes.size());
  return values;
}

/// An instance that runs the whole program: its tensors but for the slots, "<parameter>.<slot>", and sums under way;
/// and of a learner of the user's own what it keeps for itself.
Result<TrainedPart> part_of(const Instance& instance) {
  TrainedPart part{.step = instance.steps};
  const std::vector<TensorBytes> all = instance.tensors();
  std::set<std::string> names;
  for (const TensorBytes& tensor : all) names.insert(tensor.name);
  for (const TensorBytes& tensor : all) {
    if (learner::is_slot(tensor.name, names) || tensor.name.starts_with("accumulation/") ||
        tensor.name.starts_with(kOwnLearnerState)) {
      continue;
    }
    TROUPE_ASSIGN(std::vector<float> values, floats(tensor));
    part.tensors.push_back({tensor.name, tensor.shape, std::move(values)});
  }
  return part;
}

/// Writes a shard's pieces of all groups into the program. Errors: the shard's, when they are of another model.
Status copy_shard(const Instance& instance, const learner::ServedReplica& served, std::size_t shard) {
  const learner::ShardPlan& plan = served.plans[shard];
  TROUPE_ASSIGN(const std::int64_t fingerprint, instance.checkpoint->counter(instance.name + "/fingerprint_bits"));
  learner::ParameterShard holder(served.model, plan, {});
  TROUPE_TRY(holder.restore(instance.tensors(), instance.steps, std::bit_cast<std::uint64_t>(fingerprint)));
  const std::vector<TensorBytes> pieces = holder.save();
  for (const learner::ShardSegment& segment : plan.segments) {
    const learner::ServedGroup& group = served.model->groups[segment.group];
    const TensorBytes& from = *std::ranges::find(pieces, group.name, &TensorBytes::name);
    float* const to = served.program->params(group.name)->values().data() + segment.model_offset - group.offset;
    std::memcpy(to, reinterpret_cast<const float*>(from.bytes.data()) + segment.group_offset,
                static_cast<std::size_t>(segment.elements) * sizeof(float));
  }
  return {};
}

/// Under a parameter server: parameters from the shards, replica state from a worker.
Result<TrainedPart> served_part(const ReplicaGroupOptions& group, learner::Replica& replica,
                                std::span<const OpenCheckpoint> checkpoint) {
  const ParameterServerOptions server = parameter_server_options(group);
  TROUPE_ASSIGN(const learner::ServedReplica served, learner::build_served(replica, plan(server, 0, 0)));
  TrainedPart part;
  for (std::int64_t shard = 0; shard < server.shards; ++shard) {
    const std::string name = RoleIdentity{parameter_server_name(group), shard, server.shards}.name();
    TROUPE_ASSIGN(const Instance instance, furthest(checkpoint, name, 1));
    TROUPE_TRY(copy_shard(instance, served, static_cast<std::size_t>(shard)));
    part.step = shard == 0 ? instance.steps : std::min(part.step, instance.steps);
  }
  learner::Program& program = *served.program;
  TROUPE_ASSIGN(const Instance worker, furthest(checkpoint, group.name, group.count));
  const std::vector<TensorBytes> states = worker.tensors();
  for (const learner::ParamEntry& entry : program.state().layout().entries) {
    const auto found = std::ranges::find(states, entry.name, &TensorBytes::name);
    if (found == states.end() || found->shape != entry.shape) {
      return Error{Code::kShapeMismatch, fmt::format("{}: {} has no state \"{}\" of {}", worker.checkpoint->path,
                                                     worker.name, entry.name, entry.shape.to_string())};
    }
    TROUPE_ASSIGN(const std::vector<float> values, floats(*found));
    std::ranges::copy(values, program.state().tensor(entry).begin());
  }
  const auto add = [&part](learner::ParamBuffer& buffer) {
    for (const learner::ParamEntry& entry : buffer.layout().entries) {
      const auto values = buffer.tensor(entry);
      part.tensors.push_back({entry.name, entry.shape, {values.begin(), values.end()}});
    }
  };
  for (std::size_t i = 0; i < program.group_count(); ++i) add(program.group(i));
  add(program.state());
  return part;
}

}  // namespace

std::vector<std::string> part_names(const TrainOptions& options, const std::string& model) {
  std::vector<std::string> names;
  const auto wanted = [&model](const std::string& its) { return model.empty() || model == its; };
  for (const AgentOptions& agent : options.agents) {
    if (wanted(agent.algorithm)) names.push_back(role_of(agent, kLearnerRole));
  }
  for (const ReplicaRun& run : options.replicas) {
    if (wanted(run.model)) names.push_back(run.group.name);
  }
  return names;
}

Result<TrainedPart> read_part(const TrainOptions& options, std::span<const OpenCheckpoint> checkpoint,
                              const std::string& name) {
  TrainedPart part;
  if (const ReplicaRun* const run = find_replicas(options, name)) {
    if (has_parameter_server(run->group)) {
      TROUPE_ASSIGN(const ReplicaModel model, model_of(*run));
      TROUPE_ASSIGN(const auto replica, model.make());
      TROUPE_ASSIGN(part, served_part(run->group, *replica, checkpoint));
    } else {
      TROUPE_ASSIGN(const Instance instance, furthest(checkpoint, name, instances(run->group)));
      TROUPE_ASSIGN(part, part_of(instance));
    }
    part.model = run->model;
  } else if (const AgentOptions* const agent = find_agent(options, name)) {
    if (has_parameter_server(agent->learner)) {
      TROUPE_ASSIGN(const Agent made, make_agent(*agent));
      TROUPE_ASSIGN(const auto replica, made.algorithm.make_replica(learner::random_batches(made.batch, 0)));
      TROUPE_ASSIGN(const ReplicaGroupOptions group, learner_group(options, *agent));
      TROUPE_ASSIGN(part, served_part(group, *replica, checkpoint));
    } else {
      TROUPE_ASSIGN(const Instance instance, furthest(checkpoint, name, learner_instances(*agent)));
      TROUPE_ASSIGN(part, part_of(instance));
    }
    part.model = agent->algorithm;
  } else {
    return Error{Code::kNotFound, fmt::format("the run has no part \"{}\"", name)};
  }
  part.name = name;
  return part;
}

Status load_part(const TrainedPart& part, learner::Program& program) {
  std::vector<TensorBytes> tensors;
  for (const TrainedTensor& tensor : part.tensors) {
    tensors.push_back({tensor.name, DType::kF32, tensor.shape, std::as_bytes(std::span(tensor.values))});
  }
  return learner::restore_state(program, tensors, part.step);
}

Result<std::vector<float>> group_values(const TrainedPart& part, const learner::ParamLayout& layout) {
  std::vector<float> values(static_cast<std::size_t>(layout.elements), 0.0F);
  for (const learner::ParamEntry& entry : layout.entries) {
    const auto found = std::ranges::find(part.tensors, entry.name, &TrainedTensor::name);
    if (found == part.tensors.end()) {
      return Error{Code::kNotFound, fmt::format("{}: no tensor \"{}\"", part.name, entry.name)};
    }
    if (found->shape != entry.shape) {
      return Error{Code::kShapeMismatch, fmt::format("{}: tensor \"{}\" is {}, expected {}", part.name, entry.name,
                                                     found->shape.to_string(), entry.shape.to_string())};
    }
    std::ranges::copy(found->values, values.begin() + entry.offset);
  }
  return values;
}

Result<std::function<void(learner::Graph&)>> inference_network(const TrainOptions& options, const std::string& name) {
  using Build = std::function<void(learner::Graph&)>;
  if (const ReplicaRun* const run = find_replicas(options, name)) {
    TROUPE_ASSIGN(const ReplicaModel model, model_of(*run));
    if (model.inference == nullptr) {
      return Error{Code::kNotFound, fmt::format("{}: model \"{}\" has no network to run", name, run->model)};
    }
    return model.inference;
  }
  const AgentOptions* const found = find_agent(options, name);
  if (found == nullptr) return Error{Code::kNotFound, fmt::format("the run has no part \"{}\"", name)};
  TROUPE_ASSIGN(const Agent agent, make_agent(*found));
  return Build(agent.algorithm.policy);
}

}  // namespace troupe::actors
