#include <troupe/learner/d4pg/learner.hpp>

#include <cmath>
#include <utility>

#include <troupe/core/check.hpp>
#include <troupe/learner/d4pg/networks.hpp>

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

Result<StepMetrics> Learner::step(const BatchView& batch) {
  TROUPE_TRY(slot_.offer(batch));
  TROUPE_TRY(replicator_->step());
  const std::span<const double> values = program().metrics();
  TROUPE_CHECK(values.size() == 3, "d4pg: {} metrics", values.size());
  const std::span<const float> td_error = program().output("td_error");
  td_error_.assign(td_error.begin(), td_error.end());
  metrics_.skipped = program().skipped_in_a_row() > 0;
  if (metrics_.skipped) {
    for (float& error : td_error_) error = std::isfinite(error) ? error : 0;
  } else {
    metrics_ = {.critic_loss = values[0], .policy_loss = values[1], .q_mean = values[2]};
  }
  return metrics_;
}

Result<std::unique_ptr<Policy>> make_policy(const Options& options, const PolicyOptions& policy_options) {
  TROUPE_TRY(validate(options));
  const auto network = [&options](Graph& graph, Var observation) {
    return policy_network(graph, graph.group(kPolicyGroup), options, observation);
  };
  return Policy::make(network, options.environment.observation_size, policy_options);
}

}  // namespace troupe::learner::d4pg
