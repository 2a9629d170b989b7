// Ways that keep the processor busy for known times in place of products, so that which one is fastest is certain.
#include <troupe/learner/engine/cpu/fastest.hpp>

#include <gtest/gtest.h>

#include <time.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

namespace troupe::learner {
namespace {

using namespace std::chrono_literals;

/// The tests of this program that measure write nothing into the user's cache.
class OwnCache : public testing::Environment {
  void SetUp() override {
    folder_ = std::filesystem::path(testing::TempDir()) / ("learner_test_cache_" + std::to_string(getpid()));
    std::filesystem::create_directories(folder_);
    setenv("XDG_CACHE_HOME", folder_.c_str(), 1);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  std::filesystem::path folder_;
};
const auto* const g_own_cache = testing::AddGlobalTestEnvironment(new OwnCache);

/// Of this thread on a processor.
std::chrono::nanoseconds processor_time() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return std::chrono::seconds(time.tv_sec) + std::chrono::nanoseconds(time.tv_nsec);
}
void work(std::chrono::nanoseconds time) {
  const auto end = processor_time() + time;
  while (processor_time() < end) {
  }
}

/// A way that takes this long; counts its runs.
Way worker(std::string_view name, std::chrono::microseconds time, int* runs) {
  return {name, [time, runs]() -> Result<std::function<void()>> {
            return std::function<void()>([time, runs] {
              ++*runs;
              work(time);
            });
          }};
}
Way missing(std::string_view name) {
  return {name, []() -> Result<std::function<void()>> { return Error{Code::kUnavailable, "not here"}; }};
}
PlanCache in_memory() { return {"", "a processor"}; }

TEST(Measurer, TakesTheFastestWayAndRemembersIt) {
  Measurer measurer(in_memory());
  int slow = 0, fast = 0;
  const std::vector<Way> ways{worker("slow", 5ms, &slow), worker("fast", 200us, &fast)};
  EXPECT_EQ(measurer.fastest("a shape", ways), 1U);
  const int runs = slow;
  EXPECT_GE(runs, 3);
  EXPECT_LE(runs, 14);
  EXPECT_EQ(measurer.fastest("a shape", ways), 1U);
  EXPECT_EQ(slow, runs) << "it was measured twice";
  const MeasuredWays known = measurer.measured().all().at("a shape");
  ASSERT_EQ(known.ways.size(), 2U);
  EXPECT_EQ(known.ways[0].name, "fast");
  EXPECT_GE(known.ways[0].micros, 200);
  EXPECT_GE(known.ways[1].micros, 5000);
}

TEST(Measurer, DoesNotCountWaitingForTheProcessor) {
  Measurer measurer(in_memory());
  int runs = 0;
  const Way waits{"waits", []() -> Result<std::function<void()>> {
                    return std::function<void()>([] {
                      std::this_thread::sleep_for(3ms);
                      work(100us);
                    });
                  }};
  EXPECT_EQ(measurer.fastest("a shape", std::vector<Way>{worker("works", 1ms, &runs), waits}), 1U);
}

TEST(Measurer, LeavesOutWaysThatDoNotExistHere) {
  Measurer measurer(in_memory());
  int runs = 0;
  EXPECT_EQ(measurer.fastest("first", std::vector<Way>{missing("gone"), worker("here", 100us, &runs)}), 1U);
  EXPECT_EQ(measurer.fastest("last", std::vector<Way>{worker("here", 100us, &runs), missing("gone")}), 0U);
  EXPECT_EQ(measurer.fastest("none", std::vector<Way>{missing("gone"), missing("gone too")}), 0U);
  EXPECT_EQ(measurer.fastest("one", std::vector<Way>{missing("gone")}), 0U);
}

TEST(Measurer, GoesByRuleWhenItsTimeIsUsedUpAndThenStays) {
  Measurer measurer(in_memory(), 0.01);
  int slow = 0, fast = 0;
  const std::vector<Way> ways{worker("slow", 5ms, &slow), worker("fast", 200us, &fast)};
  EXPECT_EQ(measurer.fastest("first", ways), 1U) << "the first shape is measured to its end";
  const int runs = slow + fast;
  for (int again = 0; again < 2; ++again) EXPECT_EQ(measurer.fastest("second", ways), 0U);
  EXPECT_EQ(slow + fast, runs) << "measured after its time";
  EXPECT_FALSE(measurer.measured().all().contains("second"));
}

TEST(Measurer, MeasuresAgainWhereTheWayThatWonIsNoMore) {
  PlanCache cache = in_memory();
  cache.add("a shape", {{{"of an older version", 1.0}, {"fast", 2.0}}});
  Measurer measurer(std::move(cache));
  int slow = 0, fast = 0;
  EXPECT_EQ(measurer.fastest("a shape", std::vector<Way>{worker("slow", 3ms, &slow), worker("fast", 100us, &fast)}),
            1U);
  EXPECT_GT(slow, 0);
}

TEST(Measurer, MayBeAskedForTheProductWithinAConvolution) {
  Measurer measurer(in_memory());
  int runs = 0;
  const Way outer{"outer", [&]() -> Result<std::function<void()>> {
                    measurer.fastest("inner", std::vector<Way>{worker("a", 100us, &runs), worker("b", 4ms, &runs)});
                    return std::function<void()>([] { work(100us); });
                  }};
  EXPECT_EQ(measurer.fastest("outer", std::vector<Way>{worker("slow", 5ms, &runs), outer}), 1U);
  EXPECT_EQ(measurer.measured().all().size(), 2U);
}

}  // namespace
}  // namespace troupe::learner
