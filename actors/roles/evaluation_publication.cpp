#include <troupe/actors/roles/evaluation_publication.hpp>

#include <utility>

#include <troupe/learner/replicate/replicator.hpp>

namespace troupe::actors {
namespace {

class EvaluationPublication final : public Publication {
 public:
  EvaluationPublication(ReplicaParameters parameters, std::int64_t every_steps)
      : parameters_(std::move(parameters)), every_steps_(every_steps) {}

  Result<bool> publish_if_due(RoleContext& context, learner::Program& program, const GroupMember& member,
                              bool last) override {
    const std::int64_t step = program.step();
    const bool due = step > 0 && step != published_ && (last || step >= next_step_);
    if (!due || !member.is_first()) return true;
    TROUPE_ASSIGN(Frame published, parameters_.frame(context.pool(), program, step));
    context.out(kPublishPort).send(std::move(published));
    published_ = step;
    next_step_ = (step / every_steps_ + 1) * every_steps_;
    return true;
  }

 private:
  const ReplicaParameters parameters_;
  const std::int64_t every_steps_;
  std::int64_t next_step_ = 0;
  std::int64_t published_ = -1;
};

}  // namespace

Result<ReplicaParameters> evaluated_parameters(const ReplicaModel& model) {
  TROUPE_ASSIGN(const auto evaluation, model.make_evaluation());
  TROUPE_ASSIGN(const auto one, learner::OneDevice::make(*evaluation, {.batch = model.evaluation_batch}));
  return ReplicaParameters(one->program());
}

PublicationSpec evaluation_publication(const ReplicaModel& model, std::int64_t every_steps) {
  if (!model.make_evaluation) return {};
  return {.outlets = {{kPublishPort, "Parameters", ChannelKind::kLatest}},
          .make = [model, every_steps](const RoleIdentity&) -> Result<std::unique_ptr<Publication>> {
            TROUPE_ASSIGN(ReplicaParameters parameters, evaluated_parameters(model));
            return {std::make_unique<EvaluationPublication>(std::move(parameters), every_steps)};
          }};
}

}  // namespace troupe::actors
