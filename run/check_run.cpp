#include <troupe/run/check_run.hpp>

#include <fmt/format.h>

#include <string>
#include <utility>
#include <vector>

#include <troupe/learner/graph/graph.hpp>
#include <troupe/learner/replicate/replica.hpp>
#include <troupe/run/no_metrics.hpp>
#include <troupe/run/run_topology.hpp>

namespace troupe::actors {
namespace {

/// What a step of a graph accepts does not depend on how many rows it has, but the memory for its input does.
constexpr std::int64_t kCheckedRows = 2;

/// servers: how many replicas meet through a parameter server alone; they call no collective within a step.
Status build_step(learner::Replica& replica, int servers) {
  const learner::InputContext context{
      .replica_count = servers, .replica_batch = kCheckedRows, .global_batch = kCheckedRows * servers};
  TROUPE_ASSIGN(const auto input, replica.input_fn(context));
  learner::Graph graph(kCheckedRows);
  learner::ReplicaContext meets(graph, context, nullptr);
  replica.step_fn(meets, learner::StepInputs(graph, input->signature()));
  return graph.status();
}

Status check_group(const ReplicaRun& run, const CheckRunOptions& how) {
  const auto at = [&](std::string_view key, const Error& error) {
    return Error{Code::kInvalidArgument, fmt::format("replicas.{}.{}: {}", run.group.name, key, error.message)};
  };
  const auto model = model_of(run, how.data ? ModelContext::Data::kLookedAt : ModelContext::Data::kElsewhere);
  if (!model.ok()) {
    return Error{Code::kInvalidArgument, fmt::format("replicas.{}.{}", run.group.name, model.error().message)};
  }
  const int served = has_parameter_server(run.group) ? static_cast<int>(run.group.count) : 1;
  for (const auto& [make, replicas] : {std::pair(model->make, served), std::pair(model->make_evaluation, 1)}) {
    if (make == nullptr) continue;
    const auto replica = make();  // which opens the data
    if (!replica.ok()) return at(model->data_key, replica.error());
    if (const Status built = build_step(**replica, replicas); !built.ok()) return at("model", built.error());
  }
  return {};
}

}  // namespace

Status check_run(const TrainOptions& options, const CheckRunOptions& how) {
  std::vector<std::string> mistakes;
  const auto note = [&](const Status& status) {
    if (!status.ok()) mistakes.push_back(status.error().message);
  };
  for (const ReplicaRun& run : options.replicas) note(check_group(run, how));
  note([&]() -> Status {
    NoMetrics sink;
    TROUPE_ASSIGN(const Topology topology, run_topology(options, {sink}, 0));
    return check(topology);
  }());
  if (mistakes.empty()) return {};
  return Error{Code::kInvalidArgument, fmt::format("{}", fmt::join(mistakes, "\n"))};
}

}  // namespace troupe::actors
