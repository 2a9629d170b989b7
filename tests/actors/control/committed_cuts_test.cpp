// A committed cut is whole or not used, whatever happens to its files, and a death or a failure at any call of a commit
// leaves a whole one. The program is linked with --wrap for the calls below.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <functional>
#include <sstream>

#include <troupe/actors/control/committed_cuts.hpp>
#include <troupe/actors/control/run_checkpoint.hpp>
#include <troupe/actors/runtime/protocol.hpp>
#include <troupe/core/log.hpp>
#include <troupe/messages/checkpoint_files.hpp>
#include <troupe/tests/actors/test_roles.hpp>

namespace {
/// Called before each wrapped call; returns 0 to go on or an errno to fail with.
std::function<int()> hook;
bool stopped() {
  if (!hook) return false;
  errno = hook();
  return errno != 0;
}
}  // namespace

extern "C" {
int __real_fsync(int fd);
ssize_t __real_write(int fd, const void* data, size_t size);
int __real_rename(const char* from, const char* to);
int __wrap_fsync(int fd) { return stopped() ? -1 : __real_fsync(fd); }
ssize_t __wrap_write(int fd, const void* data, size_t size) { return stopped() ? -1 : __real_write(fd, data, size); }
int __wrap_rename(const char* from, const char* to) { return stopped() ? -1 : __real_rename(from, to); }
}

namespace troupe::actors {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::UnorderedElementsAre;

class CommittedCuts : public ::testing::Test {
 protected:
  void SetUp() override {
    log::set_level(log::Level::kOff);
    directory = fs::path(::testing::TempDir()) /
                ("committed_cuts_" + std::string(::testing::UnitTest::GetInstance()->current_test_info()->name()));
    fs::remove_all(directory);
    fs::create_directories(directory);
    topology = testing::counting(2, 10, 4, std::make_shared<testing::Collected>());
  }
  void TearDown() override {
    hook = nullptr;
    fs::remove_all(directory);
    log::set_level(log::Level::kInfo);
  }

  CutPart write_part(const std::string& node, std::uint64_t number, const std::vector<std::string>& instances) {
    Cut cut;
    cut.number = number;
    for (const std::string& instance : instances) {
      auto state = std::make_shared<InstanceState>();
      // The collector has nothing to save: an instance without state is another thing than none.
      if (instance != "collector") state->role.counters = {{"next", static_cast<std::int64_t>(number)}};
      cut.instances.push_back({instance, state});
    }
    auto contents = to_contents(topology, cut, {});
    contents.run_id = "run";
    contents.learner_step = static_cast<std::int64_t>(number);
    EXPECT_TRUE(messages::write_checkpoint({(directory / node).string(), messages::kKeepAll, {}}, contents).ok());
    return {node, messages::checkpoint_id((directory / node).string(), cut_name(number)).value(), instances};
  }
  CommittedCut write_parts(std::uint64_t number) {
    return {number, {write_part("a", number, {"counter-0"}), write_part("b", number, {"collector", "counter-1"})}};
  }
  void commit(std::uint64_t number, int keep = 2) {
    const Status done = commit_cut(directory, write_parts(number), keep);
    ASSERT_TRUE(done.ok()) << done.error().message;
  }
  std::uint64_t newest_whole() {
    const auto whole = whole_cuts(directory);
    return whole.ok() ? whole->cuts.front().number : 0;
  }
  static std::string read(const fs::path& file) {
    std::ostringstream text;
    text << std::ifstream(file, std::ios::binary).rdbuf();
    return text.str();
  }
  static void write(const fs::path& file, const std::string& text) { std::ofstream(file, std::ios::binary) << text; }
  std::vector<std::string> names(const fs::path& folder) {
    std::vector<std::string> all;
    for (const auto& entry : fs::directory_iterator(folder)) all.push_back(entry.path().filename());
    return all;
  }

  fs::path directory;
  Topology topology;
};

TEST_F(CommittedCuts, SayWhatEveryPartIs) {
  EXPECT_EQ(newest_cut(directory).error().code, Code::kNotFound);
  EXPECT_EQ(whole_cuts(directory).error().code, Code::kNotFound);
  const CommittedCut cut = write_parts(7);
  ASSERT_TRUE(commit_cut(directory, cut, 2).ok());
  EXPECT_EQ(newest_cut(directory).value(), cut);
  EXPECT_TRUE(cut.has("counter-1"));
  EXPECT_FALSE(cut.has("counter-2"));
  const WholeCuts whole = whole_cuts(directory).value();
  EXPECT_THAT(whole.cuts, ElementsAre(cut));
  EXPECT_THAT(whole.rejected, ::testing::IsEmpty());
}

TEST_F(CommittedCuts, TheOneBeforeIsUsedWhenAnyByteOfAnyFileIsFlipped) {
  commit(1);
  commit(2);
  int files = 0;
  for (const auto& entry : fs::recursive_directory_iterator(directory)) {
    const std::string path = entry.path().string();
    if (!entry.is_regular_file() || (path.find("step-000000002") == std::string::npos && !path.ends_with("cut.json"))) {
      continue;
    }
    ++files;
    const std::string good = read(path);
    const std::size_t pace = std::max<std::size_t>(1, good.size() / 60);
    for (std::size_t i = 0; i < good.size(); i += pace) {
      std::string bad = good;
      bad[i] = static_cast<char>(bad[i] ^ 0x10);
      write(path, bad);
      const auto whole = whole_cuts(directory);
      ASSERT_TRUE(whole.ok()) << whole.error().message;
      ASSERT_EQ(whole->cuts.front().number, 1U) << path << " byte " << i;
      ASSERT_EQ(whole->rejected.size(), 1U);
      EXPECT_THAT(whole->rejected[0].reason, HasSubstr(entry.path().filename().string()));
    }
    for (const std::size_t size :
         {std::size_t{0}, good.size() / 2, good.size() - std::min<std::size_t>(1, good.size())}) {
      if (good.empty()) continue;
      write(path, good.substr(0, size));
      ASSERT_EQ(newest_whole(), 1U) << path << " cut short to " << size;
    }
    write(path, good);
    ASSERT_EQ(newest_whole(), 2U);
  }
  EXPECT_EQ(files, 7) << "three of each part and cut.json";
}

TEST_F(CommittedCuts, TheOneBeforeIsUsedWhenAnythingIsMissing) {
  for (const char* const gone : {"a/step-000000002", "b/step-000000002", "a/step-000000002/manifest.json",
                                 "b/step-000000002/counters.chunks", "a", "b", "cut.json"}) {
    fs::remove_all(directory);
    fs::create_directories(directory);
    commit(1);
    commit(2);
    fs::rename(directory / gone, directory.string() + ".gone");
    if (std::string(gone).size() == 1) {  // its folder holds the part of the first cut, too
      fs::create_directory(directory / gone);
      fs::rename(directory.string() + ".gone/step-000000001", directory / gone / "step-000000001");
    }
    fs::remove_all(directory.string() + ".gone");
    EXPECT_EQ(newest_whole(), 1U) << gone;
  }
}

TEST_F(CommittedCuts, APartOfAnotherCutIsNotTakenForOne) {
  commit(1);
  commit(2);
  // Whole by itself, and of the right number.
  fs::remove_all(directory / "a" / "step-000000002");
  write_part("a", 2, {"counter-0", "counter-1"});
  const WholeCuts whole = whole_cuts(directory).value();
  EXPECT_EQ(whole.cuts.front().number, 1U);
  EXPECT_THAT(whole.rejected[0].reason, HasSubstr("part of node a: is not the part that was committed"));
}

TEST_F(CommittedCuts, OneErrorNamesAllWhenNoneIsWhole) {
  commit(1);
  commit(2);
  fs::remove_all(directory / "a" / "step-000000002");
  write(directory / "b" / "step-000000001" / "counters.chunks", "");
  const auto none = whole_cuts(directory);
  ASSERT_FALSE(none.ok());
  EXPECT_EQ(none.error().code, Code::kCorrupt);
  EXPECT_THAT(none.error().message, HasSubstr("no checkpoint is whole; step-000000002: part of node a: "));
  EXPECT_THAT(none.error().message,
              HasSubstr("; step-000000001: part of node b: step-000000001: counters.chunks: got 0"));
  EXPECT_EQ(open_run_checkpoint(directory).error().code, Code::kCorrupt);
}

TEST_F(CommittedCuts, ReadersUseTheOneBefore) {
  commit(1);
  commit(2);
  fs::remove_all(directory / "a" / "step-000000002");
  const auto parts = open_run_checkpoint(directory).value();
  ASSERT_EQ(parts.size(), 2U);
  EXPECT_EQ(parts[0].learner_step, 1);
  EXPECT_EQ(parts[1].learner_step, 1);
}

TEST_F(CommittedCuts, PartsThatAreElsewhereAreLeftToTheirHosts) {
  commit(1);
  CommittedCut cut = write_parts(2);
  fs::rename(directory / "b", directory.string() + ".other_host");
  ASSERT_TRUE(commit_cut(directory, cut, 2).ok());
  const CommittedCut newest = newest_cut(directory).value();
  EXPECT_TRUE(newest.parts[0].here);
  EXPECT_FALSE(newest.parts[1].here);
  // Both parts of the first cut should be here, and one is not.
  const WholeCuts whole = whole_cuts(directory).value();
  EXPECT_THAT(whole.cuts, ElementsAre(newest));
  // One that can be read here after all, a shared disk that was slow say, is verified.
  fs::rename(directory.string() + ".other_host", directory / "b");
  EXPECT_EQ(newest_whole(), 2U);
  write(directory / "b" / "step-000000002" / "counters.chunks", "");
  EXPECT_EQ(newest_whole(), 1U);
}

TEST_F(CommittedCuts, OnlyWhatNoKeptCutNeedsIsRemoved) {
  for (std::uint64_t number = 1; number <= 5; ++number) {
    commit(number);
    keep_parts(directory, "a", kept_cuts(directory));
  }
  EXPECT_THAT(kept_cuts(directory), ElementsAre(5, 4));
  EXPECT_THAT(names(directory), UnorderedElementsAre("a", "b", "cut.json", "cut-000000004.json"));
  EXPECT_THAT(names(directory / "a"), UnorderedElementsAre("step-000000005", "step-000000004"));
  // Cuts that failed: their parts go, and no committed one does.
  for (std::uint64_t number = 6; number <= 9; ++number) {
    std::vector<std::uint64_t> kept = kept_cuts(directory);
    kept.push_back(number);
    keep_parts(directory, "a", kept);
    write_part("a", number, {"counter-0"});
  }
  // An order of before, which somebody heeds late who was declared dead.
  keep_parts(directory, "a", {4, 3});
  EXPECT_THAT(names(directory / "a"), UnorderedElementsAre("step-000000009", "step-000000005", "step-000000004"));
  EXPECT_THAT(names(directory / "a"), UnorderedElementsAre("step-000000009", "step-000000005", "step-000000004"));
  EXPECT_EQ(newest_whole(), 5U);
  // A node that has left for good does not keep its parts for ever.
  ASSERT_TRUE(commit_cut(directory, {10, {write_part("a", 10, {"counter-0"})}}, 2).ok());
  EXPECT_THAT(names(directory / "b"), UnorderedElementsAre("step-000000005"));
}

TEST_F(CommittedCuts, OnesThatAreSetAsideCountNoMoreAndStayForInspection) {
  commit(1);
  commit(2);
  ASSERT_TRUE(set_aside_newer(directory, 1).ok());
  EXPECT_EQ(newest_cut(directory).value().number, 1U);
  EXPECT_THAT(kept_cuts(directory), UnorderedElementsAre(1, 2));
  commit(3);
  EXPECT_THAT(kept_cuts(directory), UnorderedElementsAre(3, 1, 2));
  commit(4);
  EXPECT_THAT(kept_cuts(directory), UnorderedElementsAre(4, 3, 2)) << "it counts for none of the two that are kept";
  write(directory / "cut.json", "no file of a cut");
  ASSERT_TRUE(set_aside_newer(directory, 3).ok());
  EXPECT_EQ(newest_cut(directory).value().number, 3U);
}

// ---- a death or a failure in the middle ----

class CommitCalls : public CommittedCuts {
 protected:
  void SetUp() override {
    CommittedCuts::SetUp();
    commit(1);
    commit(2);
    next = write_parts(3);
    hook = [this] {
      ++total;
      return 0;
    };
    fs::copy(directory, directory.string() + ".copy", fs::copy_options::recursive);
    ASSERT_TRUE(commit_cut(directory.string() + ".copy", next, 2).ok());
    hook = nullptr;
    fs::remove_all(directory.string() + ".copy");
    ASSERT_GT(total, 5);
  }
  CommittedCut next;
  int total = 0;
};

TEST_F(CommitCalls, ADeathAtAnyOfThemLeavesAWholeCut) {
  for (int dying = 1; dying <= total; ++dying) {
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      int calls = 0;
      hook = [&] {
        if (++calls == dying) _exit(42);
        return 0;
      };
      (void)commit_cut(directory, next, 2);
      _exit(0);
    }
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    ASSERT_EQ(WEXITSTATUS(status), 42);
    const WholeCuts whole = whole_cuts(directory).value();
    EXPECT_THAT(whole.rejected, ::testing::IsEmpty());
    // Only the last call, the sync of the folder, comes after the rename.
    EXPECT_EQ(whole.cuts.front().number, dying == total ? 3U : 2U) << "death at call " << dying << " of " << total;
    EXPECT_THAT(kept_cuts(directory), ::testing::IsSupersetOf({2U}));
  }
  const Status done = commit_cut(directory, write_parts(4), 2);
  ASSERT_TRUE(done.ok()) << "what the dead left must not stop the next one: " << done.error().message;
  EXPECT_EQ(newest_whole(), 4U);
  EXPECT_THAT(kept_cuts(directory), ElementsAre(4, 3));
}

TEST_F(CommitCalls, AFailureOfAnyOfThemIsReportedAndLeavesAWholeCut) {
  for (const int error : {EIO, ENOSPC}) {
    for (int failing = 1; failing <= total; ++failing) {
      int calls = 0;
      hook = [&] { return ++calls == failing ? error : 0; };
      const Status done = commit_cut(directory, next, 2);
      hook = nullptr;
      ASSERT_FALSE(done.ok()) << failing;
      EXPECT_EQ(done.error().code, Code::kIo);
      const WholeCuts whole = whole_cuts(directory).value();
      EXPECT_THAT(whole.rejected, ::testing::IsEmpty());
      EXPECT_EQ(whole.cuts.front().number, failing == total ? 3U : 2U) << failing;
      if (failing < total) continue;
      ASSERT_TRUE(set_aside_newer(directory, 2).ok());
      fs::rename(directory / "cut-000000002.json", directory / "cut.json");
    }
  }
}

// ---- what instances start from ----

TEST_F(CommittedCuts, GiveEachInstanceItsStateOrAnError) {
  commit(1);
  EXPECT_EQ(load_instance(topology, directory, "counter-1", 1).value()->role.counter("next").value(), 1);
  const auto empty = load_instance(topology, directory, "collector", 1);
  ASSERT_TRUE(empty.ok()) << empty.error().message;
  EXPECT_TRUE((*empty)->role.counters.empty());
  const auto nobody = load_instance(topology, directory, "counter-7", 1);
  ASSERT_FALSE(nobody.ok());
  EXPECT_EQ(nobody.error().code, Code::kNotFound);
  EXPECT_THAT(nobody.error().message, HasSubstr("its state in checkpoint step-000000001 is in no part on this host"));
  EXPECT_FALSE(load_instance(topology, directory, "counter-1", 9).ok()) << "no such cut";
  // Where the chief's file is not, as on another host.
  fs::remove(directory / "cut.json");
  EXPECT_EQ(load_instance(topology, directory, "counter-1", 1).value()->role.counter("next").value(), 1);
  EXPECT_EQ(load_instance(topology, directory, "counter-7", 1).error().code, Code::kNotFound);
  write(directory / "b" / "step-000000001" / "counters.chunks", "");
  const auto damaged = load_instance(topology, directory, "counter-1", 1);
  ASSERT_FALSE(damaged.ok());
  EXPECT_EQ(damaged.error().code, Code::kCorrupt);
  EXPECT_THAT(damaged.error().message, HasSubstr("part of node b: step-000000001: counters.chunks: got 0 bytes"));
}

}  // namespace
}  // namespace troupe::actors
