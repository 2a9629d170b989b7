#include <troupe/actors/roles/gpu_replay_feed.hpp>

#include <fmt/format.h>

#include <algorithm>

#include <troupe/core/log.hpp>
#include <troupe/core/stacks.hpp>

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

class GpuReplayFeed final : public Feed {
 public:
  GpuReplayFeed(const GpuReplayFeedOptions& options, RoleIdentity identity)
      : options_(options), identity_(std::move(identity)), slot_(options.signature) {}

  Status make_replica() {
    // Nothing is ever offered: the table fills the inputs on the GPU.
    TROUPE_ASSIGN(replica_,
                  options_.make_replica([&slot = slot_](const learner::InputContext&) { return slot.pipeline(); }));
    return {};
  }
  learner::Replica& replica() override { return *replica_; }

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
    TROUPE_ASSIGN(intake_, ReplayIntake::make(options_.replay, identity_, make_table));
    log::info("{}: replay on {}, for {} items", identity_.name(), gpu->name(), table_->options().max_items);
    if (Stacks(table_->options().signature).any()) {
      log::warn("TRP-W303 {}: replay on {} holds whole stacks, {} bytes an item; on the host each plane is kept once",
                identity_.name(), gpu->name(), row_bytes(table_->options().signature));
    }
    return attach_to(program);
  }
  /// Waits for the launch under way, which uses the table.
  void disconnect(learner::Replicator& replicator) override {
    (void)replicator.program().finish();  // says that none is under way, or that the GPU is lost; both end it
    (void)replicator.program().attach(nullptr);
  }

  Status take(RoleContext& context, learner::Replicator&, std::int64_t, bool) override {
    TROUPE_TRY(intake_->take(context));
    return {};
  }
  Result<std::int64_t> begin(learner::Replicator& replicator, std::int64_t most) override {
    const std::int64_t batch = options_.replay.batch;
    const std::int64_t wanted =
        std::min({most, std::int64_t{replicator.steps_per_launch()}, replay::kMostLaunchDraws / batch});
    const std::int64_t steps = intake_->table().sampleable(wanted * batch) / batch;
    if (steps == 0) return std::int64_t{0};
    if (!replicator.program().has_feed()) TROUPE_TRY(attach_to(replicator.program()));
    const Status begun = replicator.begin(static_cast<int>(steps));
    // A group of another size has another program, and this one's stream goes with it.
    const Status ended = identity_.group != nullptr ? table_->end_launches() : Status();
    TROUPE_TRY(begun);
    TROUPE_TRY(ended);
    return steps;
  }
  BatchView last_batch(const learner::Replicator&) const override { return {}; }
  std::string waiting_for() const override {
    return intake_ != nullptr ? intake_->waiting_for(options_.replay.batch) : "";
  }
  void report(const learner::Replicator&, Report& report) const override { intake_->report(report); }
  void save(RoleState& state) const override { intake_->save(state); }
  Status restore(const RoleState& state) override { return intake_->restore(state); }
  void committed() override { intake_->committed(); }

 private:
  Status attach_to(learner::Program& program) {
    return feed_from(*table_, options_.replay.batch, options_.importance_exponent, options_.priority_output, program);
  }

  const GpuReplayFeedOptions options_;
  const RoleIdentity identity_;
  learner::BatchSlot slot_;
  std::unique_ptr<learner::Replica> replica_;
  std::unique_ptr<ReplayIntake> intake_;
  replay::GpuTable* table_ = nullptr;  ///< the intake's
};

}  // namespace

Status feed_from(replay::GpuTable& table, std::int64_t batch, double importance_exponent,
                 const std::string& priority_output, learner::Program& program) {
  auto feed = std::make_shared<TableFeed>(table, batch);
  TROUPE_TRY(feed->find_places(program, importance_exponent, priority_output));
  return program.attach(std::move(feed));
}

FeedSpec gpu_replay_feed(GpuReplayFeedOptions options) {
  return {.inlets = {{"trajectories", "Trajectory"}},
          .make = [options = std::move(options)](const RoleIdentity& identity) -> Result<std::unique_ptr<Feed>> {
            auto feed = std::make_unique<GpuReplayFeed>(options, identity);
            TROUPE_TRY(feed->make_replica());
            return {std::move(feed)};
          }};
}

}  // namespace troupe::actors
