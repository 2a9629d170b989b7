// One whole D4PG learner step on a GPU, at the sizes of learner_bench.cpp. d4pg_step: on a batch that lies in the GPU's
// memory, in launches of many steps; vs_bound is what launches, memory and arithmetic of this GPU allow at most
// (bench/gpu/limits.hpp). d4pg_host_replay: batches come from prioritised replay of a million transitions on the host,
// which gets new priorities back; while the GPU takes one launch, the batches of the next are drawn. d4pg_gpu_replay:
// the same from a table in the GPU's memory, whose draws and priorities are part of the launch. In float32, and with
// TF32 products. Values are steps per second.
#include <algorithm>
#include <cmath>

#include <troupe/actors/roles/gpu_replay_feed.hpp>
#include <troupe/algorithms/d4pg/policy.hpp>
#include <troupe/bench/learner/d4pg_gpu.hpp>
#include <troupe/bench/learner/fed_steps.hpp>
#include <troupe/bench/learner/full_table.hpp>
#include <troupe/core/check.hpp>
#include <troupe/replay/n_step_adder.hpp>
#include <troupe/replay/table.hpp>
#include <troupe/tests/algorithms/d4pg/hand_fed.hpp>

namespace troupe::learner {
namespace {

constexpr double kPriorityExponent = 0.6, kImportanceExponent = 0.4;

d4pg::Options sizes() { return gpu_bench_options(bench::tiny<std::int64_t>(17, 5)); }

std::unique_ptr<d4pg::HandFed> make_learner(const d4pg::Options& options, bool tf32) {
  return d4pg::HandFed::make(
             {.d4pg = options,
              .compile = {.device = gpu_device(bench::device_index()), .tf32 = tf32, .plans = PlanChoice::kMeasured}})
      .value();
}

void d4pg_step(benchmark::UserCounters& counters, bool tf32) {
  const d4pg::Options options = sizes();
  const auto learner = make_learner(options, tf32);
  attach_fixed_batch(learner->program(), {"observation", "action", "reward", "discount", "next_observation"});
  counters["value"] = fed_steps_per_second(learner->program());
  const bench::GpuLimits& limits = bench::limits_of(learner->program().gpu());
  counters["vs_bound"] = 1 / limits.seconds(step_cost(options), tf32);
}

replay::TableOptions table_options(const d4pg::Options& options) {
  const PolicyColumns columns = d4pg::policy_columns(options);
  return {.signature = replay::transition_signature(columns.inputs, columns.outputs),
          .max_items = bench::tiny<std::int64_t>(1'000'000, 2000),
          .sampler = {.kind = replay::SelectorKind::kPrioritized, .priority_exponent = kPriorityExponent}};
}

/// Draws the batches of a launch and takes back their priorities.
class HostReplay {
 public:
  HostReplay(const d4pg::Options& options, int launch)
      : table_(replay::Table::make(table_options(options)).value()), signature_(d4pg::batch_signature(options)) {
    fill(*table_);
    for (auto& batches : launches_) {
      for (int i = 0; i < launch; ++i) batches.push_back(std::make_unique<Batch>(signature_, options.batch));
    }
    priorities_.resize(static_cast<std::size_t>(options.batch));
  }

  /// The batches of the next launch go to the program.
  void draw(Program& program) {
    present_ ^= 1;
    for (const auto& batch : launches_[present_]) {
      const MutableBatchView& all = batch->rows.mutable_view();
      MutableBatchView columns{.signature = &table_->options().signature, .rows = all.rows, .columns = all.columns};
      columns.columns.pop_back();  // the weights
      table_->sample(columns, batch->items).value();
      weigh(batch->items, all.as<float>(signature_.size() - 1));
      program.stage(batch->rows.view()).value();
    }
  }

  /// Of the launch before the one drawn last.
  void take_priorities(const Program& program) {
    for (std::size_t i = 0; i < launches_[present_ ^ 1].size(); ++i) {
      Batch& batch = *launches_[present_ ^ 1][i];
      std::ranges::copy(program.output("td_error", static_cast<int>(i)), priorities_.begin());
      std::ranges::transform(batch.items, batch.keys.begin(), &replay::SampledItem::key);
      (void)table_->update_priorities(batch.keys, priorities_).value();
    }
  }

 private:
  struct Batch {
    Batch(const Signature& signature, std::int64_t size)
        : rows(signature, size), items(static_cast<std::size_t>(size)), keys(static_cast<std::size_t>(size)) {}
    BatchBuffer rows;
    std::vector<replay::SampledItem> items;
    std::vector<replay::Key> keys;
  };

  /// Importance weights, (1 / (N P))^beta over their greatest, as the learner actor's.
  static void weigh(const std::vector<replay::SampledItem>& items, std::span<float> weights) {
    for (std::size_t i = 0; i < items.size(); ++i) {
      const double expected = static_cast<double>(items[i].table_items) * items[i].probability;
      weights[i] = static_cast<float>(std::pow(1 / expected, kImportanceExponent));
    }
    const float greatest = *std::ranges::max_element(weights);
    for (float& weight : weights) weight /= greatest;
  }

  std::unique_ptr<replay::Table> table_;
  Signature signature_;
  std::vector<std::unique_ptr<Batch>> launches_[2];
  std::vector<double> priorities_;
  std::size_t present_ = 0;
};

void d4pg_host_replay(benchmark::UserCounters& counters, bool tf32) {
  d4pg::Options options = sizes();
  options.importance_weights = true;
  const auto learner = make_learner(options, tf32);
  Program& program = learner->program();
  const int steps = program.steps_per_launch();
  HostReplay replay(options, steps);
  replay.draw(program);
  const double seconds = bench::seconds_of([&] {
    program.begin().value();
    replay.draw(program);
    (void)program.finish().value();
    replay.take_priorities(program);
  });
  TROUPE_CHECK(program.skipped() == 0, "bench: {} steps were skipped", program.skipped());
  counters["value"] = steps / seconds;
}

void d4pg_gpu_replay(benchmark::UserCounters& counters, bool tf32) {
  d4pg::Options options = sizes();
  options.importance_weights = true;
  const auto learner = make_learner(options, tf32);
  Program& program = learner->program();
  const auto table = replay::GpuTable::make(table_options(options), program.gpu()).value();
  fill(*table);
  actors::feed_from(*table, options.batch, kImportanceExponent, "td_error", program).value();
  counters["value"] = fed_steps_per_second(program);
}

}  // namespace
}  // namespace troupe::learner

int main(int argc, char** argv) {
  using namespace troupe;
  bench::open_gpu();
  for (const bool tf32 : {false, true}) {
    const std::string suffix = tf32 ? "_tf32" : "";
    bench::add_row("d4pg_step" + suffix, "steps/s", [=](auto& counters) { learner::d4pg_step(counters, tf32); });
    bench::add_row("d4pg_host_replay" + suffix, "steps/s",
                   [=](auto& counters) { learner::d4pg_host_replay(counters, tf32); });
    bench::add_row("d4pg_gpu_replay" + suffix, "steps/s",
                   [=](auto& counters) { learner::d4pg_gpu_replay(counters, tf32); });
  }
  return bench::run_rows(argc, argv);
}
