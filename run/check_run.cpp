#include <troupe/run/check_run.hpp>

#include <fmt/format.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <troupe/data/tfrecords.hpp>
#include <troupe/learner/graph/graph.hpp>
#include <troupe/learner/replicate/replica.hpp>
#include <troupe/run/no_metrics.hpp>
#include <troupe/run/run_topology.hpp>
#include <troupe/run/shipped_models.hpp>

namespace troupe::actors {
namespace {

/// What a step of a graph accepts does not depend on how many rows it has, but the memory for its input does.
constexpr std::int64_t kCheckedRows = 2;

Status build_step(learner::Replica& replica) {
  const learner::InputContext alone{.replica_batch = kCheckedRows, .global_batch = kCheckedRows};
  TROUPE_ASSIGN(const auto input, replica.input_fn(alone));
  learner::Graph graph(kCheckedRows);
  learner::ReplicaContext context(graph, alone, nullptr);
  replica.step_fn(context, learner::StepInputs(graph, input->signature()));
  return graph.status();
}

/// The options of a model whose graph can be built at once: on its data, or, where that is on other hosts or takes
/// minutes to open, on made-up images of the size that it is read in. Empty when nobody knows that size yet.
Result<std::optional<ReplicaModelOptions>> buildable(ReplicaModelOptions model, bool data_is_here) {
  model.data_threads = 0;
  if (model.data == "tfrecord" && data_is_here) {
    TROUPE_TRY(data::TfRecords::find(model.data_dir, data::Split::kTrain));
    TROUPE_TRY(data::TfRecords::find(model.data_dir, data::Split::kTest));
  } else if (data_is_here || model.data == "synthetic") {
    return std::optional(std::move(model));
  }
  if (model.image_size == 0) return std::optional<ReplicaModelOptions>();
  model.data = "synthetic";
  if (model.channels == 0) model.channels = 3;
  return std::optional(std::move(model));
}

Status check_group(const ReplicaRun& run, const CheckRunOptions& how) {
  const auto at = [&](std::string_view key, const Error& error) {
    return Error{Code::kInvalidArgument, fmt::format("replicas.{}.{}: {}", run.group.name, key, error.message)};
  };
  const char* const data_key = run.model.data_dir.empty() ? "data" : "data_dir";
  const auto options = buildable(run.model, how.data);
  if (!options.ok()) return at(data_key, options.error());
  if (!*options) return {};
  const auto model = shipped_model(**options, run.group);
  if (!model.ok()) return at("model", model.error());
  for (const MakeReplica& make : {model->make, model->make_evaluation}) {
    const auto replica = make();  // which opens the data
    if (!replica.ok()) return at(data_key, replica.error());
    if (const Status built = build_step(**replica); !built.ok()) return at("model", built.error());
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
    TROUPE_ASSIGN(const envs::EnvSpec environment, run_environment(options));
    TROUPE_ASSIGN(const Topology topology, run_topology(options, environment, {sink}, 0));
    return check(topology);
  }());
  if (mistakes.empty()) return {};
  return Error{Code::kInvalidArgument, fmt::format("{}", fmt::join(mistakes, "\n"))};
}

}  // namespace troupe::actors
