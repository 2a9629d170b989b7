#include <troupe/actors/roles/evaluation_publication.hpp>

#include <utility>

#include <troupe/learner/replicate/replicator.hpp>

namespace troupe::actors {
namespace {

class StepPublication final : public Publication {
 public:
  StepPublication(MakeParametersFrame make, std::int64_t every_steps)
      : make_(std::move(make)), every_steps_(every_steps) {}

  Result<bool> publish_if_due(RoleContext& context, learner::Program& program, const GroupMember& member,
                              bool last) override {
    const std::int64_t step = program.step();
    const bool due = step > 0 && step != published_ && (last || step >= next_step_);
    if (!due || !member.is_first()) return true;
    TROUPE_ASSIGN(Frame published, make_(context.pool(), program, step));
    context.out(kPublishPort).send(std::move(published));
    published_ = step;
    next_step_ = (step / every_steps_ + 1) * every_steps_;
    return true;
  }

 private:
  const MakeParametersFrame make_;
  const std::int64_t every_steps_;
  std::int64_t next_step_ = 0;
  std::int64_t published_ = -1;
};

/// What the model's evaluation takes from the program that trains. Errors: those of the evaluation's program.
Result<MakeParametersFrame> evaluated_parameters(const ReplicaModel& model) {
  TROUPE_ASSIGN(const auto evaluation, model.make_evaluation());
  TROUPE_ASSIGN(const auto one, learner::OneDevice::make(*evaluation, {.batch = model.evaluation_batch}));
  return MakeParametersFrame([parameters = ReplicaParameters(one->program())](
                                 messages::FramePool& pool, learner::Program& program, std::int64_t step) {
    return parameters.frame(pool, program, step);
  });
}

}  // namespace

PublicationSpec step_publication(std::function<Result<MakeParametersFrame>()> make, std::int64_t every_steps) {
  return {.outlets = {{kPublishPort, "Parameters", ChannelKind::kLatest}},
          .make = [make = std::move(make), every_steps](const RoleIdentity&) -> Result<std::unique_ptr<Publication>> {
            TROUPE_ASSIGN(MakeParametersFrame frame, make());
            return {std::make_unique<StepPublication>(std::move(frame), every_steps)};
          }};
}

PublicationSpec evaluation_publication(const ReplicaModel& model, std::int64_t every_steps) {
  if (!model.make_evaluation) return {};
  return step_publication([model] { return evaluated_parameters(model); }, every_steps);
}

}  // namespace troupe::actors
