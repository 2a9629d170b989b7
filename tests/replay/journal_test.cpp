// The journal keeps what it promised: against an independent ledger over thousands of crashes, and against every bit
// and every length of a small journal on disk.
#include <troupe/replay/journal.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include <troupe/core/log.hpp>
#include <troupe/core/rng.hpp>
#include <troupe/replay/detail/journal_format.hpp>
#include <troupe/tests/replay/fake_disk.hpp>
#include <troupe/tests/replay/table_fixture.hpp>

namespace troupe::replay {
namespace {

using std::chrono::milliseconds;
using ::testing::HasSubstr;

JournalOptions journal_options_of(Durability durability = Durability::kRelaxed) {
  return {.owner = "run/replay-0",
          .signature = test_signature(),
          .durability = durability,
          .sync_period = milliseconds(10),
          .retry_period = milliseconds(10),
          .segment_bytes = 4096,
          .max_unsynced_bytes = 1 << 20,
          .background = false};
}

/// Rows of a recovery, checked for consecutive keys.
struct Recovered {
  std::vector<std::int64_t> ids;
  Key first = 0;
  std::int64_t samples = 0;

  RecordSink sink() {
    return [this](Key first_key, const JournalRecord& record) -> Status {
      if (ids.empty()) first = first_key;
      EXPECT_EQ(first_key, first + ids.size());
      for (std::size_t r = 0; r < static_cast<std::size_t>(record.rows.rows); ++r) {
        ids.push_back(TestBatch::id(record.rows, r));
        if (!record.priorities.empty()) {
          EXPECT_EQ(record.priorities[r], static_cast<double>(ids.back()) / 2);
        }
      }
      samples = record.samples;
      return {};
    };
  }
};

/// Appends one trajectory whose rows carry `ids`, every third without priorities.
Status append(Journal& journal, std::vector<std::int64_t> ids, std::optional<ProducerSequence> producer = {}) {
  std::vector<double> priorities;
  if (ids.front() % 3 != 0) {
    for (const std::int64_t id : ids) priorities.push_back(static_cast<double>(id) / 2);
  }
  const TestBatch batch(std::move(ids));
  return journal.append({.producer = producer,
                         .samples = TestBatch::id(batch.view(), 0) * 10,
                         .rows = batch.view(),
                         .priorities = priorities});
}

std::vector<std::int64_t> numbers(std::int64_t first, std::int64_t end) {
  std::vector<std::int64_t> result;
  for (; first < end; ++first) result.push_back(first);
  return result;
}

class JournalTest : public ::testing::Test {
 protected:
  JournalTest() { log::set_level(log::Level::kOff); }
  ~JournalTest() override { log::set_level(log::Level::kInfo); }
};

TEST_F(JournalTest, GivesBackWhatWasAppendedInOrder) {
  FakeDisk disk(1);
  {
    auto journal = std::move(Journal::begin(disk.folder(), journal_options_of(), {}, 100)).value();
    ASSERT_TRUE(append(*journal, {0, 1, 2}, ProducerSequence{3, 1, 7}).ok());
    ASSERT_TRUE(append(*journal, {3}, ProducerSequence{4, 0, 0}).ok());
    journal->advance(milliseconds(1));
    ASSERT_TRUE(append(*journal, {4, 5}, ProducerSequence{3, 1, 8}).ok());
    EXPECT_EQ(journal->appended(), 6u);
    EXPECT_EQ(journal->acknowledged(), 4u);
  }
  Recovered rows;
  auto opened = Journal::recover(disk.folder(), journal_options_of(), {}, rows.sink());
  ASSERT_TRUE(opened.ok()) << opened.error().message;
  EXPECT_EQ(rows.ids, numbers(0, 6));
  EXPECT_EQ(rows.first, 100u);
  EXPECT_EQ(rows.samples, 40);
  EXPECT_EQ(opened->recovery.rows, 6);
  EXPECT_EQ(opened->recovery.torn_bytes, 0);
  EXPECT_EQ(opened->journal->appended(), 6u);
  const SeenProducers& producers = opened->journal->producers();
  EXPECT_TRUE(producers.seen({3, 1, 8}));
  EXPECT_TRUE(producers.seen({3, 0, 99})) << "an older incarnation";
  EXPECT_FALSE(producers.seen({3, 1, 9}));
  EXPECT_FALSE(producers.seen({3, 2, 0})) << "a newer incarnation counts anew";
  EXPECT_FALSE(producers.seen({5, 0, 0}));
}

// ---- A ledger of its own, and thousands of crashes ----

/// Env actors that hold what was not acknowledged, a table that keeps the newest rows, and a journal that dies again
/// and again. What the journal promised is kept apart from it.
class Life {
 public:
  static constexpr std::size_t kTable = 60;
  static constexpr std::uint32_t kProducers = 3;

  Life(std::uint64_t seed, Durability durability, bool bad_disk, bool background)
      : rng_(seed), disk_(seed + 1), options_(journal_options_of(durability)), bad_disk_(bad_disk) {
    options_.max_unsynced_bytes = 4096;
    options_.background = background;
  }

  /// Once more: recovers, goes on, dies in one of its operations.
  void live_and_die() {
    if (!open()) return crash();
    if (::testing::Test::HasFailure()) return;
    disk_.die_after(1 + rng_.below(40));
    disk_.fail_with(bad_disk_ && rng_.below(2) == 0 ? 0.2 : 0);
    for (int i = 0; i < 400 && !disk_.dead(); ++i) step();
    disk_.fail_with(0);
    journal_.reset();
    crash();
    resume_from_cut_ = cut_ && rng_.below(6) == 0;
  }

  std::int64_t deaths() const { return deaths_; }
  std::int64_t resumed() const { return resumed_; }
  std::int64_t lost() const { return lost_; }

 private:
  struct Frame {
    std::vector<std::int64_t> ids;
    ProducerSequence id;
    std::optional<std::uint64_t> position;  // behind its rows; none: not inserted in this life
  };
  struct Producer {
    std::uint32_t incarnation = 0;
    std::uint64_t next = 0;
    std::deque<Frame> unacknowledged;
  };
  /// What survives: rows before `written` a kill, before `safe` a power cut.
  struct Promise {
    std::size_t written = 0;
    std::size_t safe = 0;
    void cut(std::size_t end) { *this = {std::min(written, end), std::min(safe, end)}; }
  };
  /// What a checkpoint of the whole run holds.
  struct Cut {
    JournalPosition position;
    std::vector<std::int64_t> history;
    std::vector<Producer> producers;
    Promise promise;
    bool diverged = false;
  };

  void crash() {
    ++deaths_;
    if (rng_.below(2) == 0) {
      disk_.cut_power();
      promise_.written = promise_.safe;
      if (cut_) cut_->promise.written = cut_->promise.safe;
    } else {
      disk_.kill();
    }
  }

  /// False when it died meanwhile.
  bool open() {
    if (rng_.below(4) == 0) disk_.die_after(1 + rng_.below(12));
    Recovered rows;
    const auto until = resume_from_cut_ ? std::optional(cut_->position) : std::nullopt;
    auto opened = Journal::recover(disk_.folder(), options_, now_, rows.sink(), until);
    if (disk_.dead()) return false;
    EXPECT_TRUE(opened.ok()) << opened.error().message;
    if (!opened.ok()) return true;
    journal_ = std::move(opened->journal);
    if (resume_from_cut_) {
      ++resumed_;
      history_ = cut_->history;
      producers_ = cut_->producers;
      promise_ = cut_->promise;
      if (rows.ids.empty() && !start_anew()) return false;  // they left the table long ago
    }
    check(rows);
    resume_from_cut_ = false;
    return !disk_.dead();
  }

  bool start_anew() {
    journal_.reset();
    auto begun = Journal::begin(disk_.folder(), options_, now_, 0);
    if (!begun.ok()) return false;
    journal_ = std::move(begun).value();
    history_.clear();
    released_ = 0;
    producers_.assign(kProducers, {});
    promise_ = {};
    cut_.reset();
    return true;
  }

  void check(const Recovered& rows) {
    // A slice of history that ends behind everything promised and begins before the table's oldest row.
    const std::size_t begin = rows.ids.empty() ? journal_->appended() : rows.first;
    const std::size_t end = rows.ids.empty() ? journal_->appended() : begin + rows.ids.size();
    ASSERT_LE(begin, history_.size());
    ASSERT_LE(end, history_.size());
    ASSERT_TRUE(std::equal(rows.ids.begin(), rows.ids.end(), history_.begin() + static_cast<std::ptrdiff_t>(begin)));
    ASSERT_GE(end, promise_.written) << "promised rows are gone";
    ASSERT_TRUE(rows.ids.empty() || begin <= released_) << "rows are gone that the table held";
    ASSERT_EQ(journal_->appended(), end);
    history_.resize(end);
    promise_.cut(end);
    if (cut_) {
      // What a power cut took of its rows stays lost, whatever comes in their place.
      cut_->diverged = cut_->diverged || end < cut_->history.size();
      cut_->promise.cut(end);
    }
    // Producers send again what was not acknowledged; what came through must be known.
    for (Producer& producer : producers_) {
      for (Frame& frame : producer.unacknowledged) frame.position.reset();
    }
    SeenProducers expected;
    for (const std::int64_t id : history_) expected.note(of(id));
    ASSERT_EQ(journal_->producers(), expected);
  }

  static std::int64_t id_of(const ProducerSequence& id) {
    return static_cast<std::int64_t>(id.sequence * 4096 + id.incarnation * 8 + id.index);
  }
  static ProducerSequence of(std::int64_t id) {
    return {static_cast<std::uint32_t>(id % 8), static_cast<std::uint32_t>(id / 8 % 512),
            static_cast<std::uint64_t>(id / 4096)};
  }

  void step() {
    now_ += milliseconds(rng_.below(4));
    const std::uint64_t what = rng_.below(100);
    Producer& producer = producers_[rng_.below(kProducers)];
    if (what < 60) {
      insert(producer);
    } else if (what < 95) {
      journal_->advance(now_);
      if (!disk_.dead()) acknowledge();
    } else if (what < 97) {
      if (producer.incarnation < 511 && producer.unacknowledged.empty()) {
        ++producer.incarnation;
        producer.next = 0;
      }
    } else if (const auto position = journal_->position()) {
      cut_ = Cut{*position, history_, producers_, {}};
      acknowledge();
    }
  }

  void insert(Producer& producer) {
    // First what is sent again, then something new, if there is credit.
    auto frame = std::ranges::find_if(producer.unacknowledged, [](const Frame& f) { return !f.position; });
    if (frame == producer.unacknowledged.end()) {
      if (producer.unacknowledged.size() >= 8) return;
      Frame made;
      made.id = {static_cast<std::uint32_t>(&producer - producers_.data()), producer.incarnation, producer.next++};
      made.ids.assign(1 + rng_.below(3), id_of(made.id));
      producer.unacknowledged.push_back(std::move(made));
      frame = std::prev(producer.unacknowledged.end());
    }
    if (!journal_->accepts()) return;
    if (!journal_->producers().seen(frame->id)) {
      const Status status = append(*journal_, frame->ids, frame->id);
      ASSERT_TRUE(status.ok()) << status.error().message;
      if (journal_->appended() > history_.size()) {
        history_.insert(history_.end(), frame->ids.begin(), frame->ids.end());
      } else {
        ASSERT_EQ(options_.durability, Durability::kRelaxed);
        ++lost_;
      }
      ASSERT_EQ(journal_->appended(), history_.size());
    }
    frame->position = journal_->appended();
    journal_->keep_newest(kTable);
    if (history_.size() > kTable) released_ = std::max(released_, history_.size() - kTable);
  }

  void acknowledge() {
    const std::size_t acknowledged = journal_->acknowledged();
    if (options_.durability == Durability::kDurable) promise_.safe = std::max(promise_.safe, acknowledged);
    if (journal_->healthy()) {
      promise_.written = std::max({promise_.written, promise_.safe, acknowledged});
      // A relaxed journal that has nothing to do any more has synced everything.
      if (!journal_->due(now_)) promise_.safe = std::max(promise_.safe, acknowledged);
    }
    if (cut_ && !cut_->diverged) {
      cut_->promise = promise_;
      cut_->promise.cut(cut_->history.size());
    }
    for (Producer& producer : producers_) {
      auto& frames = producer.unacknowledged;
      while (!frames.empty() && frames.front().position && *frames.front().position <= acknowledged) frames.pop_front();
    }
  }

  Rng rng_;
  FakeDisk disk_;
  JournalOptions options_;
  const bool bad_disk_;
  std::unique_ptr<Journal> journal_;
  Duration now_{};
  std::vector<Producer> producers_ = std::vector<Producer>(kProducers);
  std::vector<std::int64_t> history_;  // every row that the journal took, oldest first
  std::size_t released_ = 0;           // rows before it have left the table
  Promise promise_;
  std::optional<Cut> cut_;
  bool resume_from_cut_ = false;
  std::int64_t deaths_ = 0;
  std::int64_t resumed_ = 0;
  std::int64_t lost_ = 0;
};

class JournalLedger : public ::testing::TestWithParam<std::tuple<Durability, bool, bool>> {};

TEST_P(JournalLedger, IsNeverShortAfterCrashesAndPowerCuts) {
  log::set_level(log::Level::kOff);
  const auto [durability, bad_disk, background] = GetParam();
  std::int64_t deaths = 0, resumed = 0, lost = 0;
  const std::uint64_t lives = background ? 25 : 100;
  for (std::uint64_t seed = 1; seed <= lives; ++seed) {
    Life life(seed, durability, bad_disk, background);
    for (int i = 0; i < 30 && !HasFailure(); ++i) life.live_and_die();
    ASSERT_FALSE(HasFailure()) << "seed " << seed << ", death " << life.deaths();
    deaths += life.deaths();
    resumed += life.resumed();
    lost += life.lost();
  }
  log::set_level(log::Level::kInfo);
  EXPECT_GE(deaths, static_cast<std::int64_t>(lives) * 30);
  EXPECT_GE(resumed, static_cast<std::int64_t>(lives));
  if (durability == Durability::kDurable) {
    EXPECT_EQ(lost, 0);
  } else if (bad_disk) {
    EXPECT_GT(lost, 0) << "the bound of the memory was never met";
  }
}

// With a thread, syncs and failures overlap, and a seed does not repeat.
INSTANTIATE_TEST_SUITE_P(Journal, JournalLedger,
                         ::testing::Combine(::testing::Values(Durability::kRelaxed, Durability::kDurable),
                                            ::testing::Bool(), ::testing::Bool()),
                         [](const auto& info) {
                           return std::string(std::get<0>(info.param) == Durability::kDurable ? "Durable" : "Relaxed") +
                                  (std::get<1>(info.param) ? "OnABadDisk" : "") +
                                  (std::get<2>(info.param) ? "WithAThread" : "");
                         });

// ---- Every bit and every length of a small journal ----

/// What a killed process left: three segments, the last with two records that no sync has covered.
struct SmallJournal {
  FakeDisk disk{7};
  std::map<std::string, std::vector<std::byte>> files;
  std::vector<std::string> segments;
  std::int64_t rows = 0;
  /// Ends of the last segment's records and how many rows there are then; the first is the end of what is synced.
  std::vector<std::pair<std::size_t, std::int64_t>> ends;

  SmallJournal() {
    auto journal = std::move(Journal::begin(disk.folder(), journal_options_of(), {}, 0)).value();
    Duration now{};
    auto insert = [&](std::int64_t count, Duration wait) {
      const ProducerSequence id{1, 0, static_cast<std::uint64_t>(rows)};
      append(*journal, numbers(rows, rows + count), id).value();
      rows += count;
      journal->advance(now += wait);
    };
    while (disk.names().size() < 4) insert(20, milliseconds(6));
    journal->advance(now += milliseconds(10));
    segments = disk.names();
    std::erase(segments, "synced");
    ends.push_back({last().size(), rows});
    for (const std::int64_t count : {1, 3}) {
      insert(count, milliseconds(1));
      ends.push_back({last().size(), rows});
    }
    disk.kill();  // so that the journal's end syncs nothing
    files = disk.snapshot();
  }

  std::vector<std::byte>& last() { return disk.bytes(segments.back()); }
  Result<Journal::Opened> recover(Recovered& recovered) {
    return Journal::recover(disk.folder(), journal_options_of(), {}, recovered.sink());
  }
};

TEST_F(JournalTest, DropsATornTailAtEveryOffset) {
  SmallJournal small;
  ASSERT_EQ(small.segments.size(), 3u);
  for (std::size_t length = 0; length <= small.ends.back().first; ++length) {
    small.disk.put_back(small.files);
    small.last().resize(length);
    Recovered recovered;
    auto opened = small.recover(recovered);
    if (length < small.ends[0].first) {
      ASSERT_FALSE(opened.ok()) << length;
      ASSERT_EQ(opened.error().code, Code::kCorrupt);
      ASSERT_THAT(opened.error().message, HasSubstr("TRP-E610 run/replay-0: journal fake/")) << length;
      continue;
    }
    ASSERT_TRUE(opened.ok()) << length << ": " << opened.error().message;
    const auto after = std::ranges::upper_bound(small.ends, length, {}, &std::pair<std::size_t, std::int64_t>::first);
    const auto [whole, rows] = *std::prev(after);
    ASSERT_EQ(recovered.ids, numbers(0, rows)) << length;
    ASSERT_EQ(opened->recovery.torn_bytes, static_cast<std::int64_t>(length - whole));
    // It goes on as if nothing had been there.
    ASSERT_TRUE(append(*opened->journal, numbers(rows, rows + 2)).ok());
    opened->journal.reset();
    Recovered again;
    auto reopened = small.recover(again);
    ASSERT_TRUE(reopened.ok()) << length << ": " << reopened.error().message;
    ASSERT_EQ(again.ids, numbers(0, rows + 2));
    ASSERT_EQ(reopened->recovery.torn_bytes, 0);
  }
}

TEST_F(JournalTest, FindsAFlippedBitInEveryByte) {
  SmallJournal small;
  std::size_t refused = 0, dropped = 0, harmless = 0;
  for (const auto& [name, bytes] : small.files) {
    for (std::size_t offset = 0; offset < bytes.size(); ++offset) {
      small.disk.put_back(small.files);
      small.disk.bytes(name)[offset] ^= static_cast<std::byte>(1 << (offset % 8));
      Recovered recovered;
      auto opened = small.recover(recovered);
      const bool tail = name == small.segments.back() && offset >= small.ends[0].first;
      if (!opened.ok()) {
        ASSERT_EQ(opened.error().code, Code::kCorrupt) << opened.error().message;
        ASSERT_THAT(opened.error().message, HasSubstr(name));
        ASSERT_FALSE(tail) << "what no sync has covered may be dropped";
        ++refused;
      } else if (recovered.ids.size() < static_cast<std::size_t>(small.rows)) {
        ASSERT_TRUE(tail) << name << " at " << offset;
        ASSERT_GT(opened->recovery.torn_bytes, 0);
        ASSERT_EQ(recovered.ids, numbers(0, static_cast<std::int64_t>(recovered.ids.size())));
        ++dropped;
      } else {
        ASSERT_EQ(name, "synced") << "at " << offset;
        ASSERT_EQ(recovered.ids, numbers(0, small.rows));
        ++harmless;
      }
    }
  }
  EXPECT_GT(refused, 8'000u);
  EXPECT_GT(dropped, 100u);
  EXPECT_GT(harmless, 0u);
}

TEST_F(JournalTest, RefusesMissingAndSwappedSegments) {
  SmallJournal small;
  auto refuse = [&](auto damage, const char* expected) {
    small.disk.put_back(small.files);
    damage();
    Recovered recovered;
    const auto opened = small.recover(recovered);
    ASSERT_FALSE(opened.ok()) << expected;
    EXPECT_EQ(opened.error().code, Code::kCorrupt);
    EXPECT_THAT(opened.error().message, HasSubstr(expected));
  };
  const auto& names = small.segments;
  refuse([&] { small.disk.erase(names[1]); }, "a segment is missing or cut short");
  refuse([&] { small.disk.erase(names[2]); }, "a segment is missing or cut short");
  refuse([&] { small.disk.swap(names[1], names[2]); }, "holds the segment journal-0000000001-0000000003");
  refuse([&] { small.disk.bytes(names[0]).resize(200); }, " bytes, got 48");
  refuse(
      [&] {
        for (const auto& name : names) small.disk.erase(name);
      },
      "generation 1 is missing");
  // Without the claim nothing but a short last write is forgiven.
  small.disk.put_back(small.files);
  small.disk.erase("synced");
  small.last().resize(small.last().size() - 1);
  Recovered recovered;
  EXPECT_TRUE(small.recover(recovered).ok());
  EXPECT_EQ(recovered.ids, numbers(0, small.ends[1].second));
  refuse([&] { small.disk.erase("synced"), small.last()[small.ends[0].first] ^= std::byte{1}; }, "record header");
}

TEST_F(JournalTest, RefusesASyncThatEndsWithinARecord) {
  // Found by fuzzing: such a journal was recovered once, wrote the rest of that record anew and was refused then.
  SmallJournal small;
  ASSERT_EQ(small.rows - small.ends[1].second, 3);
  for (std::int64_t behind = 0; behind <= 3; ++behind) {
    small.disk.put_back(small.files);
    const auto row = static_cast<std::uint64_t>(small.rows - behind);
    small.disk.bytes(std::string(detail::kClaimName)) = detail::encode_claim({1, row, 0});
    Recovered once, twice;
    const auto opened = small.recover(once);
    ASSERT_EQ(opened.ok(), behind == 0 || behind == 3) << behind;
    if (!opened.ok()) {
      EXPECT_THAT(opened.error().message, HasSubstr("passes row " + std::to_string(row) + ", the last"));
      continue;
    }
    opened->journal->advance(milliseconds(1));
    ASSERT_TRUE(small.recover(twice).ok());
    EXPECT_EQ(twice.ids, numbers(0, small.rows));
  }
}

TEST_F(JournalTest, RefusesAnotherOwnersAndAnotherSignatures) {
  SmallJournal small;
  Recovered recovered;
  JournalOptions options = journal_options_of();
  options.owner = "run/replay-1";
  auto opened = Journal::recover(small.disk.folder(), options, {}, recovered.sink());
  ASSERT_FALSE(opened.ok());
  EXPECT_THAT(opened.error().message, HasSubstr("belongs to \"run/replay-0\", expected \"run/replay-1\""));
  options = journal_options_of();
  options.signature.pop_back();
  opened = Journal::recover(small.disk.folder(), options, {}, recovered.sink());
  ASSERT_FALSE(opened.ok());
  EXPECT_EQ(opened.error().code, Code::kShapeMismatch);
  options = journal_options_of();
  options.segment_bytes = 100;
  opened = Journal::recover(small.disk.folder(), options, {}, recovered.sink());
  ASSERT_FALSE(opened.ok());
  EXPECT_THAT(opened.error().message, HasSubstr("segment_bytes is 100, expected 4096.."));
}

// ---- Bounds ----

TEST_F(JournalTest, DeletesSegmentsWhoseRowsHaveLeftTheTable) {
  FakeDisk disk(3);
  auto journal = std::move(Journal::begin(disk.folder(), journal_options_of(), {}, 0)).value();
  constexpr std::int64_t kTable = 100;
  std::int64_t most = 0;
  for (std::int64_t row = 0; row < 5000; row += 5) {
    ASSERT_TRUE(append(*journal, numbers(row, row + 5)).ok());
    journal->keep_newest(kTable);
    journal->advance(milliseconds(row * 4));
    most = std::max(most, journal->stats().disk_bytes);
  }
  const std::int64_t row_bytes = 48 / 5 + 8 + 24 + 16 + 8;  // header, priority, padded columns
  EXPECT_LE(most, kTable * row_bytes + 3 * (4096 + 600)) << "the table's rows and two segments";
  std::int64_t on_disk = 0;
  for (const std::string& name : disk.names()) on_disk += static_cast<std::int64_t>(disk.bytes(name).size());
  EXPECT_LE(on_disk, most + 4096);
  journal.reset();
  Recovered recovered;
  ASSERT_TRUE(Journal::recover(disk.folder(), journal_options_of(), {}, recovered.sink()).ok());
  ASSERT_GE(recovered.ids.size(), static_cast<std::size_t>(kTable));
  EXPECT_EQ(recovered.ids, numbers(5000 - static_cast<std::int64_t>(recovered.ids.size()), 5000));
  EXPECT_EQ(recovered.first, static_cast<Key>(recovered.ids.front()));
}

TEST_F(JournalTest, GoesBackToACheckpointForGood) {
  SmallJournal small;
  ASSERT_GT(small.rows, 100);
  auto recover = [&](std::optional<JournalPosition> until) {
    Recovered recovered;
    auto opened = Journal::recover(small.disk.folder(), journal_options_of(), {}, recovered.sink(), until);
    EXPECT_TRUE(opened.ok()) << opened.error().message;
    small.disk.kill();
    return recovered.ids;
  };
  // Killed before anything is deleted: a journal that forgot all rows, and then one that wants some of them back.
  ASSERT_TRUE(Journal::begin(small.disk.folder(), journal_options_of(), {}, 0).ok());
  small.disk.kill();
  EXPECT_EQ(recover(JournalPosition{1, 220}), numbers(0, 220));
  EXPECT_EQ(recover({}), numbers(0, 220));
  EXPECT_EQ(recover(JournalPosition{1, 160}), numbers(0, 160));
  EXPECT_EQ(recover({}), numbers(0, 160));
  EXPECT_EQ(recover(JournalPosition{1, 200}), numbers(0, 160)) << "going back forgot what came later";
}

TEST_F(JournalTest, BeginningAnewForgetsTheOldRows) {
  SmallJournal small;
  {
    auto journal = std::move(Journal::begin(small.disk.folder(), journal_options_of(), {}, 5000)).value();
    EXPECT_EQ(journal->appended(), 0u);
    ASSERT_TRUE(append(*journal, {7, 8}).ok());
    journal->advance(milliseconds(1));
    journal->advance(milliseconds(20));
    EXPECT_EQ(small.disk.names().size(), 2u) << "a segment and the claim";
  }
  Recovered recovered;
  ASSERT_TRUE(small.recover(recovered).ok());
  EXPECT_EQ(recovered.ids, numbers(7, 9));
  EXPECT_EQ(recovered.first, 5000u);
}

}  // namespace
}  // namespace troupe::replay
