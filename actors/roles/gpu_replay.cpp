#include <troupe/actors/roles/gpu_replay.hpp>

#include <fmt/format.h>

#include <algorithm>

#include <troupe/core/log.hpp>

namespace troupe::actors {

/// Between the learner's program and the table; the program calls it.
class GpuReplay::Feed final : public learner::DeviceFeed {
 public:
  Feed(replay::GpuTable& table, std::int64_t batch) : table_(table), batch_(batch) {}

  /// Where the program wants its inputs, and puts the new priorities.
  Status connect(learner::Program& program, double importance_exponent) {
    for (const TensorSpec& column : table_.options().signature) {
      TROUPE_ASSIGN(const learner::DeviceSpan input, program.device_input(column.name));
      columns_.push_back(input.data);
    }
    exponent_ = importance_exponent;
    if (exponent_ == 0) return {};
    TROUPE_ASSIGN(const learner::DeviceSpan weight, program.device_input("weight"));
    TROUPE_ASSIGN(const learner::DeviceSpan td_error, program.device_output("td_error"));
    weights_ = static_cast<float*>(weight.data);
    td_error_ = static_cast<const float*>(td_error.data);
    return {};
  }

  Status before_launch(int steps, TroupeCudaStream* stream) override {
    return table_.begin_launch(steps, batch_, stream);
  }
  Status enqueue_inputs(int step, TroupeCudaStream* stream) override {
    return table_.enqueue_draw(step, columns_, weights_, exponent_, stream);
  }
  Status enqueue_outputs(int step, const TroupeCudaControl* control, TroupeCudaStream* stream) override {
    return td_error_ == nullptr ? Status{} : table_.enqueue_update(step, td_error_, control, stream);
  }

 private:
  replay::GpuTable& table_;
  const std::int64_t batch_;
  double exponent_ = 0;
  std::vector<void*> columns_;
  float* weights_ = nullptr;
  const float* td_error_ = nullptr;
};

Result<std::unique_ptr<GpuReplay>> GpuReplay::make(const ReplayActorOptions& options, const RoleIdentity& identity,
                                                   learner::d4pg::Learner& learner, double importance_exponent) {
  const std::shared_ptr<const gpu::Gpu> gpu = learner.program().gpu();
  if (gpu == nullptr) {
    return Error{Code::kInvalidArgument,
                 fmt::format("{}: replay is to be on the learner's GPU, but the learner is on {}", identity.name(),
                             learner::to_string(learner.program().device()))};
  }
  replay::GpuTable* table = nullptr;
  const auto make_table = [&](replay::TableOptions made) -> Result<std::unique_ptr<replay::Table>> {
    TROUPE_ASSIGN(auto on_gpu, replay::GpuTable::make(std::move(made), gpu));
    table = on_gpu.get();
    return std::unique_ptr<replay::Table>(std::move(on_gpu));
  };
  TROUPE_ASSIGN(auto intake, ReplayIntake::make(options, identity, make_table));
  auto feed = std::make_shared<Feed>(*table, options.batch);
  TROUPE_TRY(feed->connect(learner.program(), importance_exponent));
  TROUPE_TRY(learner.program().attach(std::move(feed)));
  log::info("{}: replay on {}, for {} items", identity.name(), gpu->name(), table->options().max_items);
  return std::unique_ptr<GpuReplay>(new GpuReplay(learner, options.batch, std::move(intake)));
}

GpuReplay::~GpuReplay() {
  (void)learner_.finish();  // says that none is under way, or that the GPU is lost; both end it
  (void)learner_.program().attach(nullptr);
}

Status GpuReplay::take(RoleContext& context, learner::d4pg::Learner&, std::int64_t) {
  TROUPE_TRY(intake_->take(context));
  return {};
}

Result<std::int64_t> GpuReplay::begin(learner::d4pg::Learner& learner, std::int64_t most) {
  const std::int64_t wanted =
      std::min({most, std::int64_t{learner.steps_per_launch()}, replay::kMostLaunchDraws / batch_});
  const std::int64_t steps = intake_->table().sampleable(wanted * batch_) / batch_;
  if (steps == 0) return std::int64_t{0};
  TROUPE_TRY(learner.begin(static_cast<int>(steps)));
  return steps;
}

}  // namespace troupe::actors
