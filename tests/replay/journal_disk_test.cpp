// The journal on real files: killed processes, a disk without room, a disk that hangs.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <thread>

#include <troupe/core/clock.hpp>
#include <troupe/core/log.hpp>
#include <troupe/core/rng.hpp>
#include <troupe/replay/journal.hpp>
#include <troupe/tests/replay/table_fixture.hpp>

namespace troupe::replay {
namespace {

using std::chrono::milliseconds;
using ::testing::HasSubstr;
namespace fs = std::filesystem;

Duration now() { return SteadyClock().now(); }

JournalOptions options_of(Durability durability) {
  return {.owner = "run/replay-0",
          .signature = test_signature(),
          .durability = durability,
          .sync_period = milliseconds(5),
          .retry_period = milliseconds(20),
          .segment_bytes = 64 << 10,
          .max_unsynced_bytes = 256 << 10};
}

void append_row(Journal& journal, std::int64_t id) {
  const TestBatch row({id});
  journal.append({.producer = ProducerSequence{0, 0, static_cast<std::uint64_t>(id)}, .rows = row.view()}).value();
}

/// Counts rows 0, 1, 2, ...
RecordSink counting(std::int64_t& rows) {
  return [&rows](Key first, const JournalRecord& record) -> Status {
    for (std::size_t r = 0; r < static_cast<std::size_t>(record.rows.rows); ++r, ++rows) {
      EXPECT_EQ(TestBatch::id(record.rows, r), rows);
      EXPECT_EQ(first + r, static_cast<Key>(rows));
    }
    return {};
  };
}

class JournalDisk : public ::testing::Test {
 protected:
  JournalDisk() : path_(fs::path(::testing::TempDir()) / ("journal_disk_test_" + std::to_string(getpid()))) {
    fs::create_directories(path_);
  }
  ~JournalDisk() override {
    log::set_level(log::Level::kInfo);
    fs::remove_all(path_);
  }
  std::shared_ptr<JournalFolder> folder(const std::string& name = "journal") const {
    return std::move(open_journal_folder((path_ / name).string())).value();
  }

  const fs::path path_;
};

TEST_F(JournalDisk, KeepsWhatAKilledProcessAcknowledged) {
  Rng rng(1);
  std::int64_t rows = 0;  // of all lives
  for (int life = 0; life < 12; ++life) {
    const Durability durability = life % 2 == 0 ? Durability::kDurable : Durability::kRelaxed;
    int pipe_ends[2];
    ASSERT_EQ(pipe2(pipe_ends, O_CLOEXEC), 0);
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      // Inserts and says what is acknowledged, until it is killed.
      std::int64_t next = 0;
      auto opened = Journal::recover(folder(), options_of(durability), now(), counting(next));
      if (!opened.ok()) _exit(1);
      std::uint64_t said = 0;
      for (;;) {
        if (opened->journal->stats().unsynced_bytes < (128 << 10)) append_row(*opened->journal, next++);
        opened->journal->advance(now());
        const std::uint64_t acknowledged = opened->journal->acknowledged();
        if (acknowledged != said && write(pipe_ends[1], &acknowledged, sizeof(acknowledged)) != sizeof(acknowledged)) {
          _exit(2);
        }
        said = acknowledged;
      }
    }
    close(pipe_ends[1]);
    std::uint64_t acknowledged = 0;
    auto drain = [&] {
      std::uint64_t value;
      while (read(pipe_ends[0], &value, sizeof(value)) == sizeof(value)) acknowledged = value;
    };
    ASSERT_EQ(read(pipe_ends[0], &acknowledged, sizeof(acknowledged)), ssize_t{sizeof(acknowledged)}) << "it started";
    std::thread reader(drain);
    std::this_thread::sleep_for(std::chrono::microseconds(rng.below(20'000)));
    kill(child, SIGKILL);
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    reader.join();
    close(pipe_ends[0]);
    ASSERT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);

    std::int64_t recovered = 0;
    auto opened = Journal::recover(folder(), options_of(durability), now(), counting(recovered));
    ASSERT_TRUE(opened.ok()) << opened.error().message;
    ASSERT_GE(recovered, static_cast<std::int64_t>(acknowledged));
    ASSERT_GE(recovered, rows) << "rows of an earlier life are gone";
    rows = recovered;
  }
  EXPECT_GT(rows, 100);
}

/// Runs `body` on a thread with a file system of `bytes` bytes mounted at `path`, which nobody else sees.
/// False, with the reason, where this needs a right that we do not have.
std::string with_small_disk(const fs::path& path, std::size_t bytes, const std::function<void()>& body) {
  std::string missing;
  std::thread([&] {
    if (unshare(CLONE_NEWNS) != 0) return void(missing = "cannot have a mount namespace of its own (not root?)");
    if (mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
        mount("none", path.c_str(), "tmpfs", 0, ("size=" + std::to_string(bytes)).c_str()) != 0) {
      return void(missing = "cannot mount a tmpfs");
    }
    body();
    umount2(path.c_str(), MNT_DETACH);
  }).join();
  return missing;
}

TEST_F(JournalDisk, OutlivesAFullDisk) {
  log::set_level(log::Level::kOff);
  for (const Durability durability : {Durability::kDurable, Durability::kRelaxed}) {
    const fs::path small = path_ / "small";
    fs::create_directories(small);
    const std::string missing = with_small_disk(small, 1 << 20, [&] {
      // Somebody else's file leaves little room.
      std::ofstream(small / "ballast") << std::string(700 << 10, 'x');
      auto journal = std::move(Journal::begin(folder("small/journal"), options_of(durability), now(), 0)).value();
      std::int64_t next = 0;
      auto live = [&](auto enough, const char* what) {
        const Duration deadline = now() + std::chrono::seconds(10);
        for (; !enough(); ++next) {
          ASSERT_LT(now(), deadline) << what;
          while (journal->stats().unsynced_bytes > (128 << 10) && !enough()) {
            journal->advance(now());
            std::this_thread::sleep_for(milliseconds(1));
            ASSERT_LT(now(), deadline) << what;
          }
          if (enough()) return;
          append_row(*journal, next);
          journal->advance(now());
        }
      };
      live([&] { return !journal->healthy(); }, "the disk is never full");
      EXPECT_GT(journal->appended(), 100u);
      EXPECT_THAT(journal->waiting_for(now()), HasSubstr("No space left on device"));
      EXPECT_THAT(journal->waiting_for(now()), HasSubstr("KiB free"));
      EXPECT_FALSE(journal->position().has_value()) << "a checkpoint must keep the rows itself";
      // Inserts go on as far as memory goes; none of a durable journal is acknowledged.
      const std::uint64_t failed_at = journal->appended();
      live([&] { return journal->appended() > failed_at + 50; }, "inserts do not go on");
      if (durability == Durability::kRelaxed) {
        EXPECT_EQ(journal->acknowledged(), journal->appended());
      } else if (!journal->healthy()) {
        EXPECT_LE(journal->acknowledged(), failed_at);
      }
      fs::remove(small / "ballast");
      live([&] { return journal->healthy() && journal->acknowledged() > failed_at + 50; }, "it never works again");
      const auto end = static_cast<std::int64_t>(journal->appended());
      journal.reset();
      std::int64_t recovered = 0;
      auto opened = Journal::recover(folder("small/journal"), options_of(durability), now(), counting(recovered));
      ASSERT_TRUE(opened.ok()) << opened.error().message;
      EXPECT_EQ(recovered, end);
    });
    if (!missing.empty()) GTEST_SKIP() << missing;
  }
}

// ---- A disk that hangs in a sync ----

/// Holds every sync back while the gate is shut.
class Gate {
 public:
  void shut() { mutex_.lock(); }
  void open() { mutex_.unlock(); }
  void pass() { std::lock_guard lock(mutex_); }

 private:
  std::mutex mutex_;
};

class GatedFile final : public JournalFile {
 public:
  GatedFile(std::shared_ptr<JournalFile> file, Gate& gate) : file_(std::move(file)), gate_(gate) {}
  Status append(std::span<const std::byte> bytes) override { return file_->append(bytes); }
  Status sync() override {
    gate_.pass();
    return file_->sync();
  }

 private:
  const std::shared_ptr<JournalFile> file_;
  Gate& gate_;
};

class GatedFolder final : public JournalFolder {
 public:
  GatedFolder(std::shared_ptr<JournalFolder> folder, Gate& gate) : folder_(std::move(folder)), gate_(gate) {}
  std::string path() const override { return folder_->path(); }
  Result<std::vector<std::string>> list() override { return folder_->list(); }
  Result<std::uint64_t> size(const std::string& name) override { return folder_->size(name); }
  Result<std::size_t> read(const std::string& name, std::uint64_t offset, std::span<std::byte> out) override {
    return folder_->read(name, offset, out);
  }
  Result<std::shared_ptr<JournalFile>> create(const std::string& name) override {
    TROUPE_ASSIGN(auto file, folder_->create(name));
    return std::shared_ptr<JournalFile>(std::make_shared<GatedFile>(std::move(file), gate_));
  }
  Status overwrite(const std::string& name, std::span<const std::byte> bytes, bool sync) override {
    return folder_->overwrite(name, bytes, sync);
  }
  Status rename(const std::string& from, const std::string& to) override { return folder_->rename(from, to); }
  Status remove(const std::string& name) override { return folder_->remove(name); }
  Status sync() override { return folder_->sync(); }

 private:
  const std::shared_ptr<JournalFolder> folder_;
  Gate& gate_;
};

TEST_F(JournalDisk, NeverWaitsForADiskThatHangs) {
  log::set_level(log::Level::kOff);
  for (const Durability durability : {Durability::kDurable, Durability::kRelaxed}) {
    Gate gate;
    const std::string name = durability == Durability::kDurable ? "durable" : "relaxed";
    auto journal =
        std::move(Journal::begin(std::make_shared<GatedFolder>(folder(name), gate), options_of(durability), now(), 0))
            .value();
    gate.shut();
    // The calls below would never return if one of them waited for a sync.
    std::int64_t next = 0;
    while (journal->accepts() && journal->stats().lost_rows == 0) {
      append_row(*journal, next++);
      journal->advance(now() + milliseconds(next));
    }
    EXPECT_GE(journal->stats().unsynced_bytes, options_of(durability).max_unsynced_bytes);
    EXPECT_LE(journal->stats().unsynced_bytes, options_of(durability).max_unsynced_bytes + 200);
    EXPECT_TRUE(journal->healthy());
    if (durability == Durability::kDurable) {
      EXPECT_EQ(journal->acknowledged(), 0u);
      EXPECT_THAT(journal->waiting_for(now()), HasSubstr("wait for a sync"));
      const TestBatch row({0});
      EXPECT_EQ(journal->append({.rows = row.view()}).error().code, Code::kUnavailable);
    } else {
      EXPECT_EQ(journal->acknowledged(), journal->appended()) << "written, so safe from a kill";
      EXPECT_EQ(journal->stats().lost_rows, 1);
      EXPECT_EQ(journal->appended(), static_cast<std::uint64_t>(next - 1)) << "what was lost has no place in it";
    }
    gate.open();
    const Duration deadline = now() + std::chrono::seconds(10);
    while (journal->stats().unsynced_bytes > 0 && now() < deadline) {
      std::this_thread::sleep_for(milliseconds(1));
      journal->advance(now() + std::chrono::seconds(100));
    }
    EXPECT_EQ(journal->stats().unsynced_bytes, 0);
    EXPECT_EQ(journal->acknowledged(), journal->appended());
    const auto end = static_cast<std::int64_t>(journal->appended());
    journal.reset();
    std::int64_t recovered = 0;
    ASSERT_TRUE(Journal::recover(folder(name), options_of(durability), now(), counting(recovered)).ok());
    EXPECT_EQ(recovered, end);
  }
}

TEST_F(JournalDisk, RefusesWhatIsNoFile) {
  {
    auto journal = std::move(Journal::begin(folder(), options_of(Durability::kDurable), now(), 0)).value();
    append_row(*journal, 0);
    journal->advance(now());
  }
  const fs::path segment = path_ / "journal" / "journal-0000000001-0000000001";
  ASSERT_TRUE(fs::exists(segment));
  EXPECT_EQ(fs::status(segment).permissions(), fs::perms::owner_read | fs::perms::owner_write);
  EXPECT_EQ(fs::status(path_ / "journal").permissions(), fs::perms::owner_all);
  fs::rename(segment, path_ / "elsewhere");
  fs::create_symlink(path_ / "elsewhere", segment);
  std::int64_t rows = 0;
  const auto opened = Journal::recover(folder(), options_of(Durability::kDurable), now(), counting(rows));
  ASSERT_FALSE(opened.ok());
  EXPECT_THAT(opened.error().message, HasSubstr("not a regular file"));
  // A file of 2 GiB that holds nothing is refused before memory is taken for it.
  fs::remove(segment);
  fs::rename(path_ / "elsewhere", segment);
  fs::resize_file(segment, std::uintmax_t{2} << 30);
  const auto large = Journal::recover(folder(), options_of(Durability::kDurable), now(), counting(rows));
  ASSERT_FALSE(large.ok());
  EXPECT_THAT(large.error().message, HasSubstr("2147483648 bytes, expected at most"));
}

}  // namespace
}  // namespace troupe::replay
