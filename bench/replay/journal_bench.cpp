// What the journal costs an insert, and how fast a table is back after a kill: 1 GiB within 5 s asks for 215 MB/s, with
// every checksum and the insertion into the table. On the disk that holds TMPDIR. States are one-step transitions
// (observation 17, action 6), 16 a trajectory; pixels are 84 x 84 x 9 bytes, 4 a trajectory.
#include <benchmark/benchmark.h>
#include <unistd.h>

#include <filesystem>
#include <thread>

#include <troupe/core/clock.hpp>
#include <troupe/core/log.hpp>
#include <troupe/core/rng.hpp>
#include <troupe/replay/journal.hpp>
#include <troupe/replay/n_step_adder.hpp>
#include <troupe/replay/table.hpp>

namespace troupe::replay {
namespace {

struct Kind {
  Signature signature;
  std::int64_t rows;  // of a trajectory
};
Kind states() {
  return {transition_signature({{"observation", DType::kF32, {17}}}, {{"action", DType::kF32, {6}}}), 16};
}
Kind pixels() { return {{{"pixels", DType::kU8, {84, 84, 9}}, {"reward", DType::kF32, {}}}, 4}; }

constexpr std::int64_t kTableBytes = std::int64_t{1} << 30;

/// A folder that goes away.
class Folder {
 public:
  Folder() : path_(std::filesystem::temp_directory_path() / ("troupe_journal_bench_" + std::to_string(getpid()))) {
    std::filesystem::remove_all(path_);
  }
  ~Folder() { std::filesystem::remove_all(path_); }
  std::shared_ptr<JournalFolder> open() const { return std::move(open_journal_folder(path_.string())).value(); }

 private:
  const std::filesystem::path path_;
};

std::unique_ptr<Table> make_table(const Kind& kind) {
  const auto row = static_cast<std::int64_t>(row_bytes(kind.signature));
  return std::move(Table::make({.signature = kind.signature, .max_items = kTableBytes / row})).value();
}

JournalOptions options_of(const Kind& kind, Durability durability) {
  return {.owner = "bench", .signature = kind.signature, .durability = durability};
}

Duration now() { return SteadyClock().now(); }

/// Inserts a trajectory an iteration; with a journal, as many may wait for it as 8 actors with 32 credits hold back.
void insert(benchmark::State& state, const Kind& kind, std::optional<Durability> durability) {
  const Folder folder;
  const auto table = make_table(kind);
  std::unique_ptr<Journal> journal;
  if (durability) {
    journal = std::move(Journal::begin(folder.open(), options_of(kind, *durability), now(), 0)).value();
  }
  BatchBuffer rows(kind.signature, kind.rows);
  Rng rng(1);
  for (const auto& column : rows.mutable_view().columns) {
    for (std::byte& byte : column) byte = static_cast<std::byte>(rng.below(256));
  }
  const BatchView view = rows.view();
  const auto window = static_cast<std::uint64_t>(256 * kind.rows);
  std::uint64_t sequence = 0;
  for (auto _ : state) {
    (void)table->insert(view, {}).value();
    if (!journal) continue;
    journal->append({.producer = ProducerSequence{0, 0, sequence++}, .rows = view}).value();
    journal->keep_newest(table->info().items);
    journal->advance(now());
    while (journal->appended() - journal->acknowledged() > window) {
      std::this_thread::yield();
      journal->advance(now());
    }
  }
  if (journal && journal->stats().lost_rows > 0) state.SkipWithError("the disk is slower than the inserts");
  state.SetItemsProcessed(state.iterations() * kind.rows);
  state.SetBytesProcessed(state.iterations() * kind.rows * static_cast<std::int64_t>(row_bytes(kind.signature)));
  state.SetLabel("items/s");
}
void journal_state_none(benchmark::State& state) { insert(state, states(), {}); }
void journal_state_relaxed(benchmark::State& state) { insert(state, states(), Durability::kRelaxed); }
void journal_state_durable(benchmark::State& state) { insert(state, states(), Durability::kDurable); }
void journal_pixels_none(benchmark::State& state) { insert(state, pixels(), {}); }
void journal_pixels_relaxed(benchmark::State& state) { insert(state, pixels(), Durability::kRelaxed); }
void journal_pixels_durable(benchmark::State& state) { insert(state, pixels(), Durability::kDurable); }
BENCHMARK(journal_state_none)->UseRealTime();
BENCHMARK(journal_state_relaxed)->UseRealTime();
BENCHMARK(journal_state_durable)->UseRealTime();
BENCHMARK(journal_pixels_none)->UseRealTime();
BENCHMARK(journal_pixels_relaxed)->UseRealTime();
BENCHMARK(journal_pixels_durable)->UseRealTime();

/// A table of 1 GiB from its journal, once.
void recover(benchmark::State& state, const Kind& kind) {
  const Folder folder;
  const JournalOptions options = options_of(kind, Durability::kRelaxed);
  {
    auto journal = std::move(Journal::begin(folder.open(), options, now(), 0)).value();
    BatchBuffer rows(kind.signature, kind.rows);
    for (std::int64_t bytes = 0; bytes < kTableBytes;) {
      while (journal->stats().unsynced_bytes > options.max_unsynced_bytes / 2) {
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
        journal->advance(now());
      }
      journal->append({.rows = rows.view()}).value();
      journal->advance(now());
      bytes += kind.rows * static_cast<std::int64_t>(row_bytes(kind.signature));
    }
  }
  for (auto _ : state) {
    const Duration start = now();
    const auto table = make_table(kind);
    auto opened = Journal::recover(folder.open(), options, start, [&](Key first, const JournalRecord& record) {
      return table->recover(first, record.rows, record.priorities, record.samples);
    });
    opened.value();
    const double took = seconds(now() - start);
    state.SetIterationTime(took);
    state.counters["value"] = static_cast<double>(opened->recovery.bytes) / 1e6 / took;
    state.counters["seconds"] = took;
  }
  state.SetLabel("MB/s");
}
void journal_recover_state(benchmark::State& state) { recover(state, states()); }
void journal_recover_pixels(benchmark::State& state) { recover(state, pixels()); }
BENCHMARK(journal_recover_state)->UseManualTime()->Iterations(1);
BENCHMARK(journal_recover_pixels)->UseManualTime()->Iterations(1);

}  // namespace
}  // namespace troupe::replay

int main(int argc, char** argv) {
  troupe::log::set_level(troupe::log::Level::kWarn);
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
}
