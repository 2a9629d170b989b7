#include <troupe/actors/roles/gpu_replay_feed.hpp>

#include <fmt/format.h>

#include <algorithm>

namespace troupe::actors {
namespace {

class TableFeed final : public learner::DeviceFeed {
 public:
  TableFeed(replay::GpuTable& table, std::int64_t batch) : table_(table), batch_(batch) {}

  /// Where the program wants its inputs, and puts the new priorities.
  Status find_places(const learner::Program& program, double importance_exponent, const std::string& priority_output) {
    for (const TensorSpec& column : table_.options().signature) {
      TROUPE_ASSIGN(const learner::DeviceSpan input, program.device_input(column.name));
      columns_.push_back(input.data);
    }
    exponent_ = importance_exponent;
    if (exponent_ == 0) return {};
    TROUPE_ASSIGN(const learner::DeviceSpan weight, program.device_input("weight"));
    TROUPE_ASSIGN(const learner::DeviceSpan priorities, program.device_output(priority_output));
    weights_ = static_cast<float*>(weight.data);
    priorities_ = static_cast<const float*>(priorities.data);
    return {};
  }

  Status before_launch(int steps, TroupeCudaStream* stream) override {
    return table_.begin_launch(steps, batch_, stream);
  }
  Status enqueue_inputs(int step, TroupeCudaStream* stream) override {
    return table_.enqueue_draw(step, columns_, weights_, exponent_, stream);
  }
  Status enqueue_outputs(int step, const TroupeCudaControl* control, TroupeCudaStream* stream) override {
    return priorities_ == nullptr ? Status{} : table_.enqueue_update(step, priorities_, control, stream);
  }

 private:
  replay::GpuTable& table_;
  const std::int64_t batch_;
  double exponent_ = 0;
  std::vector<void*> columns_;
  float* weights_ = nullptr;
  const float* priorities_ = nullptr;
};

class GpuReplayFeed final : public HeldReplayFeed {
 public:
  GpuReplayFeed(const HeldReplayFeedOptions& options, const RoleIdentity& identity)
      : HeldReplayFeed(options, identity) {}

  Status connect(learner::Replicator& replicator) override {
    learner::Program& program = replicator.program();
    const std::shared_ptr<const gpu::Gpu> gpu = program.gpu();
    if (gpu == nullptr) {
      return Error{Code::kInvalidArgument,
                   fmt::format("{}: replay is to be on the trainer's GPU, but the trainer is on {}", identity_.name(),
                               learner::to_string(program.device()))};
    }
    const auto make_table = [&](replay::TableOptions made) -> Result<std::unique_ptr<replay::Table>> {
      TROUPE_ASSIGN(auto on_gpu, replay::GpuTable::make(std::move(made), gpu));
      table_ = on_gpu.get();
      return std::unique_ptr<replay::Table>(std::move(on_gpu));
    };
    TROUPE_TRY(make_intake(make_table, gpu->name()));
    return attach_to(program);
  }
  /// Waits for the launch under way, which uses the table.
  void disconnect(learner::Replicator& replicator) override {
    (void)replicator.program().finish();  // says that none is under way, or that the GPU is lost; both end it
    (void)replicator.program().attach(nullptr);
  }

  Result<std::int64_t> begin(learner::Replicator& replicator, std::int64_t most) override {
    const std::int64_t steps = steps_ready(std::min(
        {most, std::int64_t{replicator.steps_per_launch()}, replay::kMostLaunchDraws / options_.replay.batch}));
    if (steps == 0) return std::int64_t{0};
    if (!replicator.program().has_feed()) TROUPE_TRY(attach_to(replicator.program()));
    const Status begun = replicator.begin(static_cast<int>(steps));
    // A group of another size has another program, and this one's stream goes with it.
    const Status ended = identity_.group != nullptr ? table_->end_launches() : Status();
    TROUPE_TRY(begun);
    TROUPE_TRY(ended);
    return steps;
  }

 private:
  Status attach_to(learner::Program& program) {
    return feed_from(*table_, options_.replay.batch, options_.importance_exponent, options_.priority_output, program);
  }

  replay::GpuTable* table_ = nullptr;  ///< the intake's
};

}  // namespace

Status feed_from(replay::GpuTable& table, std::int64_t batch, double importance_exponent,
                 const std::string& priority_output, learner::Program& program) {
  auto feed = std::make_shared<TableFeed>(table, batch);
  TROUPE_TRY(feed->find_places(program, importance_exponent, priority_output));
  return program.attach(std::move(feed));
}

FeedSpec gpu_replay_feed(HeldReplayFeedOptions options) { return held_replay_feed<GpuReplayFeed>(std::move(options)); }

}  // namespace troupe::actors
