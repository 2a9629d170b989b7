// Replay of stacked pixels: three-step transitions of 84 x 84 x 9, three images of 84 x 84 x 3 in each stack, as DrQ-v2
// learns from, 16 a trajectory. vs_whole_stacks is the same in the same run with a column that is not said to be a
// stack, so that each row holds both of its stacks. items_per_gib_... are items in a GiB of a table's memory, of
// messages and of journal; insert is a table's, of trajectories as they come; sample_256 draws batches; act_to_replay
// is all from an adder's rows to the table, which splits rows on the way. No image comes again but in the stacks of its
// neighbours.
#include <benchmark/benchmark.h>

#include <chrono>
#include <cstring>
#include <deque>
#include <memory>
#include <vector>

#include <troupe/core/rng.hpp>
#include <troupe/messages/trajectory.hpp>
#include <troupe/replay/detail/journal_format.hpp>
#include <troupe/replay/n_step_adder.hpp>
#include <troupe/replay/table.hpp>

namespace troupe::replay {
namespace {

using messages::Frame;
using messages::FramePool;

constexpr std::int64_t kSide = 84, kImages = 3, kRowsEach = 16, kBatch = 256, kItems = 8000, kEpisodeSteps = 500;
constexpr std::size_t kImageBytes = kSide * kSide * 3, kStackBytes = kImages * kImageBytes;
const Signature kActed = {{"action", DType::kF32, {6}}};

Signature observed(bool split) {
  return {{"pixels", DType::kU8, {kSide, kSide, 3 * kImages}, {.planes = split ? kImages : 1}}};
}

/// What one env actor sends.
class Actor {
 public:
  explicit Actor(bool split)
      : signature_(std::make_shared<const Signature>(transition_signature(observed(split), kActed))),
        adder_(NStepAdder::make({observed(split), kActed, 3, 0.99}).value()),
        noise_(std::size_t{1} << 20) {
    Rng rng(1);
    for (std::byte& byte : noise_) byte = static_cast<std::byte>(rng());
    begin();
  }
  const std::shared_ptr<const Signature>& signature() const { return signature_; }
  /// Whole rows, kRowsEach of them or, at the end of an episode, two more.
  std::int64_t write(const MutableBatchView& out) {
    const std::vector<float> action(6, 0.5F);
    std::int64_t rows = 0;
    while (rows < kRowsEach) {
      const bool last = ++step_ % kEpisodeSteps == 0;
      show(false);
      rows += adder_->add({std::as_bytes(std::span(action)), 1, 1, stack_, last}, out, rows).value();
      if (last) begin();
    }
    return rows;
  }
  Frame trajectory(FramePool& pool, const MutableBatchView& rows, std::int64_t count) {
    auto builder = messages::TrajectoryBuilder::make(pool, {signature_, kRowsEach + 2, false}).value();
    const BatchView some = rows.view().slice(0, count);
    for (std::size_t c = 0; c < some.columns.size(); ++c) {
      std::ranges::copy(some.columns[c], builder.rows().columns[c].begin());
    }
    return std::move(builder).finish({.sequence = sequence_++}, count);
  }
  Frame trajectory(FramePool& pool) {
    const std::int64_t count = write(rows_.mutable_view());
    return trajectory(pool, rows_.mutable_view(), count);
  }

 private:
  void begin() {
    show(true);
    adder_->first(stack_).value();
  }
  void show(bool first) {
    const std::size_t from = static_cast<std::size_t>(++shown_) * 4099 % (noise_.size() - kImageBytes);
    std::memcpy(noise_.data() + from, &shown_, sizeof(shown_));
    for (std::size_t pixel = 0; pixel < kImageBytes / 3; ++pixel) {
      std::byte* const at = stack_.data() + pixel * 9;
      std::memmove(at, at + 3, 6);
      for (std::size_t k = first ? 0 : 2; k < 3; ++k) std::memcpy(at + 3 * k, noise_.data() + from + 3 * pixel, 3);
    }
  }

  std::shared_ptr<const Signature> signature_;
  std::unique_ptr<NStepAdder> adder_;
  std::vector<std::byte> noise_;
  std::vector<std::byte> stack_ = std::vector<std::byte>(kStackBytes);
  BatchBuffer rows_{*signature_, kRowsEach + 2};
  std::int64_t step_ = 0, shown_ = 0;
  std::uint64_t sequence_ = 0;
};

/// One of the two ways: a full table and what fills it.
struct Side {
  explicit Side(bool split)
      : actor(split), table(Table::make({.signature = *actor.signature(), .max_items = kItems}).value()) {
    while (table->info().items < kItems) insert(actor.trajectory(pool));
  }
  void insert(const Frame& frame) { (void)table->insert(messages::read_trajectory(frame).value().rows(), {}).value(); }
  FramePool pool;
  Actor actor;
  std::unique_ptr<Table> table;
};

Side& side(bool split) {
  static Side splits(true);
  static Side whole(false);
  return split ? splits : whole;
}

void report(benchmark::State& state, double value, double whole, const char* unit) {
  state.counters["value"] = value;
  state.counters["vs_whole_stacks"] = whole;
  state.SetLabel(unit);
}

/// Items in a GiB, of what `bytes(side)` gives as bytes an item.
template <typename Bytes>
void items_per_gib(benchmark::State& state, const Bytes& bytes) {
  constexpr double kGib = 1024.0 * 1024 * 1024;
  double split = 0, whole = 0;
  for (auto _ : state) {
    split = kGib / bytes(side(true));
    whole = kGib / bytes(side(false));
  }
  report(state, split, whole, "items/GiB");
}

void items_per_gib_memory(benchmark::State& state) {
  items_per_gib(state, [](Side& s) {
    const TableInfo info = s.table->info();
    return static_cast<double>(info.bytes) / static_cast<double>(info.items);
  });
}
void items_per_gib_message(benchmark::State& state) {
  items_per_gib(state, [](Side& s) {
    const Frame frame = s.actor.trajectory(s.pool);
    return static_cast<double>(frame.size()) /
           static_cast<double>(messages::read_trajectory(frame).value().rows().rows);
  });
}
void items_per_gib_journal(benchmark::State& state) {
  items_per_gib(state, [](Side& s) {
    const auto view = messages::read_trajectory(s.actor.trajectory(s.pool)).value();
    const BatchView& rows = view.rows();
    return static_cast<double>(detail::record_bytes({.rows = rows})) / static_cast<double>(rows.rows);
  });
}
BENCHMARK(items_per_gib_memory)->Iterations(1);
BENCHMARK(items_per_gib_message)->Iterations(1);
BENCHMARK(items_per_gib_journal)->Iterations(1);

/// Items a second, both ways in turn. prepare(side) is not measured; run(side) returns the items that it made.
template <typename Prepare, typename Run>
void items_per_second(benchmark::State& state, const Prepare& prepare, const Run& run) {
  double items[2] = {}, took[2] = {};
  for (auto _ : state) {
    for (const bool split : {true, false}) {
      Side& s = side(split);
      prepare(s);
      const auto start = std::chrono::steady_clock::now();
      items[split] += static_cast<double>(run(s));
      took[split] += std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    }
    state.SetIterationTime((took[0] + took[1]) / static_cast<double>(state.iterations() + 1));
  }
  report(state, items[1] / took[1], items[0] / took[0], "items/s");
}

void insert(benchmark::State& state) {
  std::deque<Frame> frames;
  items_per_second(
      state,
      [&](Side& s) {
        for (int i = 0; i < 16; ++i) frames.push_back(s.actor.trajectory(s.pool));
      },
      [&](Side& s) {
        const std::int64_t before = s.table->info().inserts;
        for (; !frames.empty(); frames.pop_front()) s.insert(frames.front());
        return s.table->info().inserts - before;
      });
}
BENCHMARK(insert)->UseManualTime()->Iterations(40);

void sample_256(benchmark::State& state) {
  BatchBuffer split_batch(*side(true).actor.signature(), kBatch), whole_batch(*side(false).actor.signature(), kBatch);
  std::vector<SampledItem> items(kBatch);
  items_per_second(
      state, [](Side&) {},
      [&](Side& s) {
        for (int i = 0; i < 4; ++i) {
          BatchBuffer& batch = &s == &side(true) ? split_batch : whole_batch;
          s.table->sample(batch.mutable_view(), items).value();
          benchmark::DoNotOptimize(batch.view().columns[0].data());
        }
        return 4 * kBatch;
      });
}
BENCHMARK(sample_256)->UseManualTime()->Iterations(40);

void act_to_replay(benchmark::State& state) {
  std::vector<std::unique_ptr<BatchBuffer>> rows;
  std::vector<std::int64_t> counts;
  items_per_second(
      state,
      [&](Side& s) {
        rows.clear();
        counts.clear();
        for (int i = 0; i < 8; ++i) {
          rows.push_back(std::make_unique<BatchBuffer>(*s.actor.signature(), kRowsEach + 2));
          counts.push_back(s.actor.write(rows.back()->mutable_view()));
        }
      },
      [&](Side& s) {
        std::int64_t made = 0;
        for (std::size_t i = 0; i < rows.size(); ++i) {
          s.insert(s.actor.trajectory(s.pool, rows[i]->mutable_view(), counts[i]));
          made += counts[i];
        }
        return made;
      });
}
BENCHMARK(act_to_replay)->UseManualTime()->Iterations(40);

}  // namespace
}  // namespace troupe::replay

BENCHMARK_MAIN();
