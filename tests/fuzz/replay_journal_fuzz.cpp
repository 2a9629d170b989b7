// Replay's journal as a process finds it, and the image of a table in a checkpoint.
#include <chrono>
#include <map>

#include <troupe/core/crc32c.hpp>
#include <troupe/replay/detail/journal_format.hpp>
#include <troupe/replay/journal.hpp>
#include <troupe/replay/table.hpp>
#include <troupe/tests/fuzz/fuzz.hpp>
#include <troupe/tests/replay/fake_disk.hpp>

namespace troupe::fuzz {
namespace {

using namespace replay;
using namespace replay::detail;

const Signature kSignature = {
    {"observation", DType::kF32, {3}}, {"pixels", DType::kU8, {2, 6}, {3}}, {"reward", DType::kF64, {}}};
constexpr std::size_t kHeadPrefix = 16, kRecordHeader = 48;

JournalOptions options() {
  return {.owner = "run/replay-0",
          .signature = kSignature,
          .segment_bytes = 4096,
          .max_unsynced_bytes = 1 << 20,
          .background = false};
}

/// The checksums of a segment's head and records, as their writer makes them, as far as their sizes go.
std::string repaired(Bytes segment) {
  std::vector<std::byte> bytes(segment.begin(), segment.end());
  const std::span<std::byte> all = bytes;
  std::size_t at = kHeadPrefix + std::size_t{load<std::uint32_t>(all, 8)};
  if (all.size() < kHeadPrefix || at > all.size()) return to_string(bytes);
  const auto size = load<std::uint32_t>(all, 8);
  store(all, 12, crc32c(all.subspan(kHeadPrefix, size), crc32c(std::as_bytes(std::span(&size, 1)))));
  while (all.size() - at >= kRecordHeader) {
    const auto record = all.subspan(at);
    const auto body = std::min<std::uint64_t>(load<std::uint64_t>(record, 8), record.size() - kRecordHeader);
    store(record, 4, crc32c(record.subspan(kRecordHeader, body)));
    store(record, 0, crc32c(record.subspan(4, kRecordHeader - 4)));
    at += kRecordHeader + body;
  }
  return to_string(bytes);
}

struct Rows {
  std::vector<Key> keys;
  std::uint64_t rows = 0;
  RecordSink sink() {
    return [this](Key first, const JournalRecord& record) -> Status {
      TROUPE_CHECK(keys.empty() || first == keys.back() + 1, "keys are not consecutive");
      for (const auto* const parts : {&record.rows.columns, &record.rows.planes}) {
        for (const auto& part : *parts) sum += part.empty() ? 0 : std::to_integer<int>(part.back());
      }
      for (std::int64_t i = 0; i < record.rows.rows; ++i) keys.push_back(first + static_cast<Key>(i));
      return {};
    };
  }
  int sum = 0;
};

/// What is recovered is there again, and the same, when it is recovered once more.
void journal(Input input) {
  const bool repair = input.choose(4) != 0;
  std::map<std::string, std::vector<std::byte>> files;
  while (!input.empty()) {
    const std::uint8_t which = input.take<std::uint8_t>();
    const Bytes given = input.part();
    const SegmentId id{static_cast<std::uint64_t>(which / 16 % 4), static_cast<std::uint64_t>(which % 16)};
    const bool claim = which >= 128;
    std::vector<std::byte> bytes(given.begin(), given.end());
    if (repair && claim)
      store(bytes, 24, std::uint64_t{crc32c(Bytes(bytes).first(std::min<std::size_t>(24, bytes.size())))});
    if (repair && !claim) {
      const std::string good = repaired(given);
      bytes.assign(bytes_of(good).begin(), bytes_of(good).end());
    }
    files[claim ? std::string(kClaimName) : id.name()] = std::move(bytes);
  }
  FakeDisk disk(1);
  disk.put_back(files);
  Rows first;
  {
    const auto opened = Journal::recover(disk.folder(), options(), Duration{}, first.sink());
    if (!opened.ok()) return;
    TROUPE_CHECK(opened->recovery.rows == static_cast<std::int64_t>(first.keys.size()), "rows");
    opened->journal->advance(std::chrono::seconds(1));
  }
  Rows second;
  const auto again = Journal::recover(disk.folder(), options(), std::chrono::seconds(2), second.sink());
  TROUPE_CHECK(again.ok(), "a recovered journal does not recover: {}", again.error().message);
  TROUPE_CHECK(second.keys == first.keys && second.sum == first.sum, "{} rows, then {}", first.keys.size(),
               second.keys.size());
}

TableOptions table_options() {
  return {.signature = kSignature,
          .max_items = 16,
          .sampler = {.kind = SelectorKind::kPrioritized, .priority_exponent = 0.5},
          .seed = 1};
}

/// An image that is taken gives a table that works and saves the same image.
void image(Input input) {
  std::vector<std::vector<std::byte>> chunks;
  while (!input.empty() && chunks.size() < 4) {
    const Bytes chunk = input.part();
    chunks.emplace_back(chunk.begin(), chunk.end());
  }
  const auto table = Table::make(table_options()).value();
  if (!table->restore(chunks).ok()) return;
  const auto saved = table->save();
  const auto other = Table::make(table_options()).value();
  TROUPE_CHECK(other->restore(saved).ok(), "what was saved is not restored");
  TROUPE_CHECK(other->save() == saved, "an image changed");
}

std::string journal_seed() {
  FakeDisk disk(1);
  auto journal = Journal::begin(disk.folder(), options(), Duration{}, 5).value();
  BatchBuffer batch(kSignature, 3);
  for (const auto& column : batch.mutable_view().columns) std::ranges::fill(column, std::byte{0});
  const std::vector<double> priorities = {1, 2, 3};
  const Stacks stacks(kSignature);
  StackSplitter splitter(stacks);
  for (std::uint64_t i = 0; i < 3; ++i) {
    journal
        ->append({.producer = ProducerSequence{0, 1, i},
                  .samples = 2,
                  .rows = i == 0 ? batch.view() : splitter.split(batch.view()),
                  .priorities = i == 1 ? std::span<const double>() : priorities})
        .value();
    journal->advance(std::chrono::seconds(i + 1));
  }
  journal.reset();
  std::string all("\1", 1);
  for (const auto& [name, bytes] : disk.snapshot()) {
    const auto id = parse_segment_name(name);
    all += static_cast<char>(id ? id->generation % 4 * 16 + id->number % 16 : 128);
    all += part(to_string(bytes));
  }
  return all;
}

std::string image_seed() {
  const auto table = Table::make(table_options()).value();
  BatchBuffer batch(kSignature, 3);
  for (const auto& column : batch.mutable_view().columns) std::ranges::fill(column, std::byte{0});
  table->insert(batch.view(), std::vector<double>{1, 2, 3}).value();
  std::string all;
  for (const auto& chunk : table->save()) all += part(to_string(chunk));
  return all;
}

void one_input(Bytes input) {
  Input choice(input);
  choice.choose(3) == 0 ? image(choice) : journal(choice);
}

std::vector<std::string> seeds() { return {"\1" + journal_seed(), std::string(1, '\0') + image_seed()}; }

const Registered registered({"replay_journal", one_input, seeds});

}  // namespace
}  // namespace troupe::fuzz
