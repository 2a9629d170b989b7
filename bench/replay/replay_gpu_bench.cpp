// Prioritised replay in a GPU's memory: a million one-step transitions (observation 17, action 6). A launch draws 32
// batches of 256 one after the other, with their columns and importance weights, and gives each of them new priorities
// before the next is drawn, as prioritised learning does. The value is items per second.
#include <vector>

#include <troupe/bench/gpu/device.hpp>
#include <troupe/core/rng.hpp>
#include <troupe/replay/gpu_table.hpp>
#include <troupe/replay/n_step_adder.hpp>

namespace troupe::replay {
namespace {

constexpr double kPriorityExponent = 0.6, kImportanceExponent = 0.4;

void fill(GpuTable& table) {
  constexpr std::int64_t kRows = 1024;
  BatchBuffer rows(table.options().signature, kRows);
  Rng rng(1);
  for (std::size_t column = 0; column < table.options().signature.size(); ++column) {
    for (float& value : rows.mutable_view().as<float>(column)) value = static_cast<float>(rng.normal());
  }
  std::vector<double> priorities(kRows);
  for (std::int64_t items = 0; items < table.options().max_items; items += kRows) {
    for (double& priority : priorities) priority = rng.uniform();
    (void)table.insert(rows.view(), priorities).value();
  }
}

/// Device memory, and what a launch puts on a stream.
class Draws {
 public:
  Draws(std::shared_ptr<const gpu::Gpu> gpu, GpuTable& table, std::int64_t steps, std::int64_t rows)
      : gpu_(std::move(gpu)), api_(gpu_->api()), table_(table), steps_(steps), rows_(rows) {
    check(api_.make_stream(&stream_));
    const auto numbers = [&](std::int64_t each) {
      memory_.push_back(gpu_->allocate(static_cast<std::size_t>(rows * each) * sizeof(float), "a batch").value());
      return memory_.back().as<float>();
    };
    for (const TensorSpec& column : table.options().signature) columns_.push_back(numbers(column.shape.elements()));
    weights_ = numbers(1);
    priorities_ = numbers(1);
    Rng rng(3);
    std::vector<float> priorities(static_cast<std::size_t>(rows));
    for (float& priority : priorities) priority = static_cast<float>(rng.uniform());
    check(api_.copy(priorities_, priorities.data(), priorities.size() * sizeof(float), stream_));
    check(api_.synchronise(stream_));
    enqueue();  // loads the kernels, which cannot be recorded
    check(api_.synchronise(stream_));
    table_.begin_launch(steps_, rows_, stream_).value();
    check(api_.begin_capture(stream_));
    put_steps();
    check(api_.end_capture(stream_, &graph_));
    check(api_.launch_graph(graph_, stream_));
    check(api_.synchronise(stream_));
  }
  ~Draws() {
    (void)api_.synchronise(stream_);
    (void)api_.destroy_graph(graph_);
    (void)api_.destroy_stream(stream_);
  }
  Draws(const Draws&) = delete;
  Draws& operator=(const Draws&) = delete;

  /// A launch; it is waited for when the one after the next begins.
  void launch() {
    table_.begin_launch(steps_, rows_, stream_).value();
    check(api_.launch_graph(graph_, stream_));
  }
  void wait() { check(api_.synchronise(stream_)); }

 private:
  void check(int error) const { gpu_->check(error, "drawing").value(); }
  void enqueue() {
    table_.begin_launch(steps_, rows_, stream_).value();
    put_steps();
  }
  void put_steps() {
    for (std::int64_t step = 0; step < steps_; ++step) {
      table_.enqueue_draw(step, columns_, weights_, kImportanceExponent, stream_).value();
      table_.enqueue_update(step, priorities_, nullptr, stream_).value();
    }
  }

  std::shared_ptr<const gpu::Gpu> gpu_;
  const TroupeCudaApi& api_;
  GpuTable& table_;
  std::int64_t steps_, rows_;
  TroupeCudaStream* stream_ = nullptr;
  TroupeCudaGraph* graph_ = nullptr;
  std::vector<gpu::GpuMemory> memory_;
  std::vector<void*> columns_;
  float *weights_ = nullptr, *priorities_ = nullptr;
};

void sample_prioritized(benchmark::UserCounters& counters, const std::shared_ptr<const gpu::Gpu>& gpu) {
  const auto items = bench::tiny<std::int64_t>(1 << 20, 1 << 10);
  const auto steps = bench::tiny<std::int64_t>(32, 2), rows = bench::tiny<std::int64_t>(256, 8);
  const auto table =
      GpuTable::make(
          {.signature = transition_signature({{"observation", DType::kF32, {17}}}, {{"action", DType::kF32, {6}}}),
           .max_items = items,
           .sampler = {.kind = SelectorKind::kPrioritized, .priority_exponent = kPriorityExponent}},
          gpu)
          .value();
  fill(*table);
  Draws draws(gpu, *table, steps, rows);
  constexpr int kLaunches = 20;
  const double seconds = bench::seconds_of([&] {
    for (int i = 0; i < kLaunches; ++i) draws.launch();
    draws.wait();
  });
  counters["value"] = static_cast<double>(kLaunches * steps * rows) / seconds;
}

}  // namespace
}  // namespace troupe::replay

int main(int argc, char** argv) {
  using namespace troupe;
  const auto gpu = bench::open_gpu();
  bench::add_row("gpu_sample_prioritized_256", "items/s",
                 [&](auto& counters) { replay::sample_prioritized(counters, gpu); });
  return bench::run_rows(argc, argv);
}
