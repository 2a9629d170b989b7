// Compiled programs that are kept, on the processor's plug-in where it was fetched.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <span>
#include <string>
#include <vector>

#include <fmt/format.h>

#include <troupe/learner/engine/pjrt/pjrt_clients.hpp>
#include <troupe/learner/engine/pjrt/program_cache.hpp>
#include <troupe/tests/learner/engine/pjrt/cpu_plugin.hpp>

namespace troupe::learner {
namespace {

namespace fs = std::filesystem;

/// y = x + x + ... of `terms` eights of numbers.
std::string sum_of(int terms) {
  std::string body;
  for (int i = 1; i < terms; ++i) {
    body += fmt::format("    %{} = \"stablehlo.add\"(%{}, %x) : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>\n", i,
                        i == 1 ? "x" : std::to_string(i - 1));
  }
  return fmt::format(R"(module @sum {{
  "func.func"() <{{function_type = (tensor<8xf32>) -> tensor<8xf32>, sym_name = "main"}}> ({{
  ^bb0(%x: tensor<8xf32>):
{}    "func.return"(%{}) : (tensor<8xf32>) -> ()
  }}) : () -> ()
}}
)",
                     body, terms - 1);
}

class ProgramCacheTest : public testing::Test {
 protected:
  void SetUp() override {
    need_cpu_plugin();
    if (IsSkipped()) return;
    client_ = pjrt_client("pjrt:cpu", 6).value();
  }
  void TearDown() override { fs::remove_all(folder_); }

  std::vector<fs::path> files() const {
    std::vector<fs::path> found;
    if (!fs::exists(folder_)) return found;
    for (const auto& each : fs::directory_iterator(folder_)) found.push_back(each.path());
    return found;
  }
  /// What the program of so many terms makes of ones, from the cache or not.
  float run(const ProgramCache& cache, int terms, std::int64_t device = 0) const {
    auto program = cache.program(*client_, sum_of(terms), {.devices = {device}});
    EXPECT_TRUE(program.ok()) << program.error().message;
    if (!program.ok()) return 0;
    const std::vector<float> ones(8, 1);
    const auto x = client_->copy_from_host({ones.data(), DType::kF32, {8}}, static_cast<std::size_t>(device)).value();
    auto made = program->execute(std::vector<std::vector<const pjrt::Buffer*>>{{&x}});
    EXPECT_TRUE(made.ok()) << made.error().message;
    if (!made.ok()) return 0;
    std::vector<float> out(8);
    (*made)[0][0].copy_to(std::span<float>(out)).value();
    return out[7];
  }

  const fs::path folder_ = fs::path(testing::TempDir()) / "programs";
  std::shared_ptr<const pjrt::Client> client_;
};

TEST_F(ProgramCacheTest, KeepsEachProgramOnceAndGivesItAgain) {
  const ProgramCache cache(folder_);
  EXPECT_EQ(run(cache, 3), 3);
  ASSERT_EQ(files().size(), 1U);
  const fs::path first = files()[0];
  const auto made = fs::last_write_time(first);
  const auto long_ago = made - std::chrono::hours(1);
  fs::last_write_time(first, long_ago);
  EXPECT_EQ(run(ProgramCache(folder_), 3), 3);
  EXPECT_EQ(files().size(), 1U);
  EXPECT_GT(fs::last_write_time(first), long_ago);  // it was used
  EXPECT_EQ(run(cache, 4), 4);
  EXPECT_EQ(run(cache, 3, 5), 3);  // on another device it is another program
  EXPECT_EQ(files().size(), 3U);
  EXPECT_EQ(run(cache, 3, 5), 3);
  EXPECT_EQ(files().size(), 3U);
}

TEST_F(ProgramCacheTest, WhatIsDamagedIsMadeAnew) {
  const ProgramCache cache(folder_);
  EXPECT_EQ(run(cache, 3), 3);
  const fs::path file = files().at(0);
  const auto size = static_cast<double>(fs::file_size(file));
  const auto damage = [&](auto how) {
    how();
    EXPECT_EQ(run(cache, 3), 3);
    EXPECT_EQ(files().size(), 1U);
    EXPECT_NEAR(static_cast<double>(fs::file_size(file)), size, 100);  // names in it may differ
  };
  damage([&] { fs::resize_file(file, fs::file_size(file) / 2); });
  damage([&] { fs::resize_file(file, 0); });
  damage([&] { std::ofstream(file, std::ios::in | std::ios::out).seekp(1000) << "oh"; });
  damage([&] { std::ofstream(file) << "something else"; });
}

TEST_F(ProgramCacheTest, WhatTheUserCannotKeepIsCompiledAllTheSame) {
  EXPECT_EQ(run(ProgramCache(""), 3), 3);
  std::ofstream(folder_) << "no folder";
  EXPECT_EQ(run(ProgramCache(folder_ / "inside"), 3), 3);
  fs::remove(folder_);
  EXPECT_EQ(run(ProgramCache(folder_, 100), 3), 3);  // larger than all that may be
  EXPECT_TRUE(files().empty());
}

TEST_F(ProgramCacheTest, TheOnesUnusedForLongestMakeRoom) {
  const ProgramCache cache(folder_);
  run(cache, 3), run(cache, 4);
  ASSERT_EQ(files().size(), 2U);
  const fs::path older = files()[0], newer = files()[1];
  fs::last_write_time(older, fs::last_write_time(newer) - std::chrono::hours(2));
  fs::last_write_time(newer, fs::last_write_time(newer) - std::chrono::hours(1));
  run(ProgramCache(folder_, 2 * fs::file_size(newer) + fs::file_size(older) / 2), 5);
  EXPECT_FALSE(fs::exists(older));
  EXPECT_TRUE(fs::exists(newer));
  EXPECT_EQ(files().size(), 2U);
}

TEST_F(ProgramCacheTest, AProgramThatDoesNotCompileLeavesNothing) {
  const auto made = ProgramCache(folder_).program(*client_, "module @oops", {});
  EXPECT_FALSE(made.ok());
  EXPECT_TRUE(files().empty());
}

}  // namespace
}  // namespace troupe::learner
