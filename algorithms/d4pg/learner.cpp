#include <troupe/algorithms/d4pg/learner.hpp>

#include <cmath>
#include <utility>

#include <troupe/algorithms/d4pg/networks.hpp>
#include <troupe/core/check.hpp>

namespace troupe::learner::d4pg {

Learner::Learner(const Signature& signature) : signature_(signature), slot_(signature) {}

Result<std::unique_ptr<Learner>> Learner::make(const LearnerOptions& options) {
  TROUPE_TRY(validate(options.d4pg));
  std::unique_ptr<Learner> learner(new Learner(batch_signature(options.d4pg)));
  learner->replica_ = std::make_unique<D4pgReplica>(
      options.d4pg, [&slot = learner->slot_](const InputContext&) { return slot.pipeline(); });
  if (options.communicator == nullptr) {
    const OneDeviceOptions device{.batch = options.d4pg.batch, .compile = options.compile};
    TROUPE_ASSIGN(learner->replicator_, OneDevice::make(*learner->replica_, device));
  } else {
    const MultiWorkerOptions worker{.batch = options.d4pg.batch,
                                    .compile = options.compile,
                                    .communicator = options.communicator,
                                    .nccl_interface = options.nccl_interface,
                                    .name = options.name};
    TROUPE_ASSIGN(auto group, MultiWorker::make(*learner->replica_, worker));
    learner->group_ = group.get();
    learner->replicator_ = std::move(group);
  }
  return learner;
}

Status Learner::reform(const collectives::GroupView& view, Duration timeout) {
  TROUPE_CHECK(group_ != nullptr, "d4pg: a learner without a communicator is in no group");
  return group_->reform(view, timeout);
}

const ParamBuffer& Learner::policy() const { return *replicator_->program().params(kPolicyGroup); }

int Learner::steps_per_launch() const { return group_ != nullptr ? 1 : replicator_->program().steps_per_launch(); }

Status Learner::stage(const BatchView& batch) {
  TROUPE_TRY(check_same(*batch.signature, signature_, "d4pg batch"));
  if (group_ == nullptr) return program().stage(batch);
  if (group_staged_) return Error{Code::kInvalidArgument, "d4pg: a batch is staged already; begin() comes first"};
  TROUPE_TRY(slot_.offer(batch));
  group_staged_ = true;
  return {};
}

Status Learner::begin() {
  if (group_ == nullptr) return program().begin();
  if (group_stepped_) return Error{Code::kInvalidArgument, "d4pg: a step is under way; finish() comes first"};
  if (!std::exchange(group_staged_, false)) {
    return Error{Code::kInvalidArgument, "d4pg: nothing is staged; stage() comes first"};
  }
  TROUPE_TRY(replicator_->step());
  group_stepped_ = true;
  return {};
}

Status Learner::begin(int steps) { return program().begin(steps); }

bool Learner::finished() { return program().finished(); }

Result<std::span<const StepMetrics>> Learner::finish() {
  if (group_ == nullptr) {
    TROUPE_TRY(program().finish());
    TROUPE_TRY(check_skipped(program()));
  } else if (!std::exchange(group_stepped_, false)) {
    return Error{Code::kInvalidArgument, "d4pg: no step is under way; begin() comes first"};
  }
  metrics_.clear();
  for (int step = 0; !program().metrics(step).empty(); ++step) collect(step);
  return std::span<const StepMetrics>(metrics_);
}

void Learner::collect(int step) {
  const std::span<const double> values = program().metrics(step);
  TROUPE_CHECK(values.size() == 3, "d4pg: {} metrics", values.size());
  const auto index = static_cast<std::size_t>(step);
  if (td_error_.size() <= index) td_error_.resize(index + 1);
  const std::span<const float> td_error = program().output("td_error", step);
  td_error_[index].assign(td_error.begin(), td_error.end());
  if (program().skipped(step)) {
    for (float& error : td_error_[index]) error = std::isfinite(error) ? error : 0;
  } else {
    last_ = {.critic_loss = values[0], .policy_loss = values[1], .q_mean = values[2]};
  }
  metrics_.push_back(last_);
  metrics_.back().skipped = program().skipped(step);
}

std::span<const float> Learner::td_error(int step) const {
  if (step < 0 || step >= static_cast<int>(metrics_.size())) return {};
  return td_error_[static_cast<std::size_t>(step)];
}

Result<StepMetrics> Learner::step(const BatchView& batch) {
  TROUPE_TRY(stage(batch));
  TROUPE_TRY(begin());
  TROUPE_ASSIGN(const std::span<const StepMetrics> metrics, finish());
  return metrics.back();
}

PolicyColumns policy_columns(const Options& options) {
  return {{{"observation", DType::kF32, Shape{options.environment.observation_size}}},
          {{"action", DType::kF32, Shape{options.environment.action_size()}}}};
}

void build_policy(Graph& graph, const Options& options) {
  const Var observation = graph.input("observation", Shape{options.environment.observation_size});
  graph.output("action", policy_network(graph, graph.group(kPolicyGroup), options, observation));
}

Result<std::unique_ptr<Policy>> make_policy(const Options& options, const PolicyOptions& policy_options) {
  TROUPE_TRY(validate(options));
  return Policy::make([&options](Graph& graph) { build_policy(graph, options); }, policy_columns(options),
                      policy_options);
}

}  // namespace troupe::learner::d4pg
