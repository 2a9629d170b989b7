// Files of several processes and users, and damaged ones.
#include <troupe/learner/engine/cpu/plan_cache.hpp>

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include <fmt/format.h>

namespace troupe::learner {
namespace {

namespace fs = std::filesystem;

class PlanCacheTest : public testing::Test {
 protected:
  PlanCacheTest()
      : folder(fs::path(testing::TempDir()) / fmt::format("plan_cache_{}_{}",
                                                          testing::UnitTest::GetInstance()->current_test_info()->name(),
                                                          getpid())) {
    fs::remove_all(folder);
  }
  ~PlanCacheTest() override { fs::remove_all(folder); }

  PlanCache open(const std::string& processor = "a processor, avx2") const { return {folder.string(), processor}; }
  static MeasuredWays ways(double micros = 1.5) { return {{{"sgemm", micros}, {"matmul", 2 * micros}}}; }
  std::string content() const {
    std::ifstream in(open().path(), std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  void write(const std::string& text) const { std::ofstream(open().path(), std::ios::binary) << text; }

  const fs::path folder;
};

TEST_F(PlanCacheTest, KeepsWhatWasMeasuredForTheNextProcess) {
  {
    PlanCache cache = open();
    EXPECT_EQ(cache.find("product nt 256 x 512 x 512"), nullptr);
    cache.add("product nt 256 x 512 x 512", ways(1650.25));
    cache.add("product nn 1 x 2 x 3", {{{"eigen", 0.07}}});
    ASSERT_TRUE(cache.save().ok());
    ASSERT_TRUE(cache.save().ok()) << "there is nothing to write";
  }
  const PlanCache cache = open();
  const MeasuredWays* found = cache.find("product nt 256 x 512 x 512");
  ASSERT_NE(found, nullptr);
  ASSERT_EQ(found->ways.size(), 2U);
  EXPECT_EQ(found->ways[0].name, "sgemm");
  EXPECT_EQ(found->ways[0].micros, 1650.25);
  EXPECT_EQ(found->ways[1].name, "matmul");
  ASSERT_NE(cache.find("product nn 1 x 2 x 3"), nullptr);
  EXPECT_EQ(cache.all().size(), 2U);
}

TEST_F(PlanCacheTest, TellsProcessorsApart) {
  PlanCache one = open("one");
  one.add("shape", ways());
  one.save().value();
  EXPECT_EQ(open("another").find("shape"), nullptr);
  EXPECT_NE(open("one").find("shape"), nullptr);
  fs::copy_file(one.path(), open("another").path());  // as if both had one checksum
  EXPECT_EQ(open("another").find("shape"), nullptr);
}

TEST_F(PlanCacheTest, TwoProcessesKeepWhatTheOtherMeasured) {
  PlanCache first = open(), second = open();
  first.add("of the first", ways());
  second.add("of the second", ways());
  first.save().value();
  second.save().value();
  const PlanCache third = open();
  EXPECT_NE(third.find("of the first"), nullptr);
  EXPECT_NE(third.find("of the second"), nullptr);
}

TEST_F(PlanCacheTest, ManyProcessesAtOnceLoseNothing) {
  constexpr int kProcesses = 6, kShapes = 5;
  for (int process = 0; process < kProcesses; ++process) {
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child != 0) continue;
    bool kept = true;
    for (int shape = 0; shape < kShapes; ++shape) {
      PlanCache cache = open();
      cache.add(fmt::format("shape {} of {}", shape, process), ways());
      kept = kept && cache.save().ok();
    }
    _exit(kept ? 0 : 1);
  }
  for (int process = 0; process < kProcesses; ++process) {
    int status = -1;
    ASSERT_GT(wait(&status), 0);
    EXPECT_EQ(status, 0);
  }
  EXPECT_EQ(open().all().size(), static_cast<std::size_t>(kProcesses * kShapes));
}

TEST_F(PlanCacheTest, IgnoresADamagedFileWithOneLineAndReplacesIt) {
  {
    PlanCache cache = open();
    cache.add("shape", ways());
    cache.save().value();
  }
  const std::string whole = content();
  std::vector<std::string> damaged{"", "\n", "troupe plans 1 crc32c 00000000\n", whole + "x",
                                   std::string(5U << 20, 'a')};
  for (std::size_t end = 0; end < whole.size(); ++end) damaged.push_back(whole.substr(0, end));
  for (std::size_t at = 0; at < whole.size(); ++at) {
    damaged.push_back(whole);
    damaged.back()[at] = static_cast<char>(damaged.back()[at] ^ 4);
  }
  for (const std::string& text : damaged) {
    write(text);
    testing::internal::CaptureStderr();
    const PlanCache cache = open();
    const std::string said = testing::internal::GetCapturedStderr();
    ASSERT_TRUE(cache.all().empty()) << text.substr(0, 200);
    ASSERT_EQ(std::ranges::count(said, '\n'), 1) << said;
    ASSERT_THAT(said, testing::HasSubstr(cache.path()));
  }
  PlanCache cache = open();
  cache.add("another", ways());
  cache.save().value();
  EXPECT_NE(open().find("another"), nullptr);
}

TEST_F(PlanCacheTest, FollowsNoLinkAndSaysWhatIsInTheWay) {
  PlanCache cache = open();
  cache.add("shape", ways());
  fs::create_directories(folder);
  fs::create_symlink("/etc/passwd", cache.path() + ".lock");
  const Status saved = cache.save();
  ASSERT_FALSE(saved.ok());
  EXPECT_THAT(saved.error().message, testing::HasSubstr(cache.path() + ".lock"));
  fs::remove(cache.path() + ".lock");
  fs::create_directory(cache.path());
  EXPECT_FALSE(cache.save().ok());
  fs::remove(cache.path());
  EXPECT_TRUE(cache.save().ok()) << "what could not be saved is tried again";
}

TEST_F(PlanCacheTest, WaitsASecondForTheLockAndNoLonger) {
  PlanCache cache = open();
  cache.add("shape", ways());
  fs::create_directories(folder);
  const int held = ::open((cache.path() + ".lock").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  ASSERT_EQ(flock(held, LOCK_EX), 0);
  const Status saved = cache.save();
  ASSERT_FALSE(saved.ok());
  EXPECT_EQ(saved.error().code, Code::kDeadlineExceeded);
  close(held);
  EXPECT_TRUE(cache.save().ok());
}

TEST_F(PlanCacheTest, HasABound) {
  PlanCache cache = open();
  for (int shape = 0; shape < 5000; ++shape) cache.add(fmt::format("shape {}", shape), ways());
  EXPECT_EQ(cache.all().size(), 4096U);
  cache.save().value();
  EXPECT_EQ(open().all().size(), 4096U);
}

TEST_F(PlanCacheTest, WithoutAFolderItKeepsAllInMemory) {
  PlanCache nowhere("", "a processor");
  nowhere.add("shape", ways());
  EXPECT_TRUE(nowhere.save().ok());
  EXPECT_NE(nowhere.find("shape"), nullptr);
}

}  // namespace
}  // namespace troupe::learner
