#pragma once
// A learner's steps from replay in the memory of its own GPU: trajectories go to the learner's node and stream into the
// table there, and a launch draws, steps and sets priorities as often as it has steps, without the host. So a step sees
// the priorities of the one before, which replay of a role of its own hears of some batches later. The table lives and
// dies with the learner, whose part of a checkpoint holds it.
#include <cstdint>
#include <memory>
#include <string>

#include <troupe/actors/roles/learner_input.hpp>
#include <troupe/actors/roles/replay_intake.hpp>
#include <troupe/learner/engine/device_feed.hpp>
#include <troupe/replay/gpu_table.hpp>

namespace troupe::actors {

/// Port: in trajectories (stream, Trajectory), see ReplayIntake.
class GpuReplay final : public LearnerInput {
 public:
  /// importance_exponent: of the weights for the learner's input "weight", see ReplayBatchesOptions; without such an
  /// input, priorities stay as they came. `learner` outlives what is returned. Errors: those of ReplayIntake::make()
  /// and replay::GpuTable::make(); kInvalidArgument when the learner is not on a GPU.
  static Result<std::unique_ptr<GpuReplay>> make(const ReplayActorOptions& options, const RoleIdentity& identity,
                                                 learner::d4pg::Learner& learner, double importance_exponent);

  /// Waits for the launch under way, which uses the table.
  ~GpuReplay() override;

  Status take(RoleContext& context, learner::d4pg::Learner& learner, std::int64_t most) override;
  Result<std::int64_t> begin(learner::d4pg::Learner& learner, std::int64_t most) override;
  Status done(const learner::d4pg::Learner&) override { return {}; }
  BatchView last_batch() const override { return {}; }
  std::string waiting_for() const override { return intake_->waiting_for(batch_); }
  void report(Report& report) const override { intake_->report(report); }
  void save(RoleState& state) const override { intake_->save(state); }
  Status restore(const RoleState& state) override { return intake_->restore(state); }
  void committed() override { intake_->committed(); }

 private:
  class Feed;
  GpuReplay(learner::d4pg::Learner& learner, std::int64_t batch, std::unique_ptr<ReplayIntake> intake)
      : learner_(learner), batch_(batch), intake_(std::move(intake)) {}

  learner::d4pg::Learner& learner_;
  const std::int64_t batch_;
  std::unique_ptr<ReplayIntake> intake_;
};

}  // namespace troupe::actors
