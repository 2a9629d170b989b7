#include <troupe/actors/roles/replica_publisher.hpp>

#include <algorithm>

#include <troupe/learner/replicate/replicator.hpp>

namespace troupe::actors {

Result<ReplicaPublisher> ReplicaPublisher::make(const ReplicaModel& model, std::int64_t every_steps,
                                                std::int64_t last_step) {
  ReplicaPublisher publisher(every_steps, last_step);
  if (!model.make_evaluation) return publisher;
  TROUPE_ASSIGN(const auto evaluation, model.make_evaluation());
  TROUPE_ASSIGN(const auto one, learner::OneDevice::make(*evaluation, {.batch = model.evaluation_batch}));
  publisher.parameters_.emplace(one->program());
  return publisher;
}

Result<Frame> ReplicaPublisher::frame(messages::FramePool& pool, learner::Program& trained, std::int64_t step) const {
  return parameters_->frame(pool, trained, step);
}

Status ReplicaPublisher::publish_if_due(RoleContext& context, learner::Program& trained, std::int64_t step) {
  if (!parameters_ || step < next_step_) return {};
  TROUPE_ASSIGN(Frame published, frame(context.pool(), trained, step));
  context.out(kPublishPort).send(std::move(published));
  next_step_ = step < last_step_ ? std::min((step / every_steps_ + 1) * every_steps_, last_step_) : step + 1;
  return {};
}

}  // namespace troupe::actors
