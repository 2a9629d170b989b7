// Runs of very many nodes, simulated and real, against the limits that docs/faults.md states.
// TROUPE_SIMULATED_NODES and TROUPE_REAL_NODES: that many instead.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>

#include <troupe/tests/actors/many_nodes_costs.hpp>
#include <troupe/tests/actors/real_nodes.hpp>

namespace troupe::actors {
namespace {

using std::chrono::seconds;
using testing::RealNodes;

int number_from(const char* variable, int otherwise) {
  const char* const text = std::getenv(variable);
  return text == nullptr ? otherwise : static_cast<int>(std::strtol(text, nullptr, 10));
}

TEST(VeryManyNodes, SaySimulatedAsMuchEachAsFewDo) {
  testing::expect_the_same_of_each(64, number_from("TROUPE_SIMULATED_NODES", 4096));
}

TEST(VeryManyNodes, AreLedWithLittle) {
  const int nodes = number_from("TROUPE_REAL_NODES", 256);
  RealNodes run(nodes, std::filesystem::path(::testing::TempDir()) / "real_nodes");
  const Duration in = run.until_all_are_in(seconds(60));
  ASSERT_GE(in, Duration::zero()) << run.board().heard_of << " of " << nodes << " are in after a minute";
  EXPECT_LT(in, seconds(15));
  run.wait(seconds(2));
  EXPECT_LT(run.chief_cpu(seconds(5)), 0.1) << "of a processor";
  const Duration cut = run.cut();
  ASSERT_GT(cut, Duration::zero());
  EXPECT_LT(cut, seconds(5));

  // Sooner after each other than 1 % of them a minute.
  const int kKilled = std::min(5, nodes);
  run.forget_gaps();
  for (int i = 0; i < kKilled; ++i) {
    run.kill(i);
    run.wait(seconds(2));
  }
  const auto all_back = [&] {
    for (int i = 0; i < kKilled; ++i) {
      if (run.births(i) < 2) return false;
    }
    return true;
  };
  EXPECT_TRUE(run.wait(seconds(10), all_back)) << "those that were killed";
  EXPECT_LT(run.longest_gap(), seconds(4)) << "of somebody that was not killed, who says a word a second";
  EXPECT_EQ(run.restarts(), kKilled) << "nobody else had to be replaced";
  EXPECT_GT(run.cut(), Duration::zero());
  EXPECT_TRUE(run.finish(seconds(10)));
}

}  // namespace
}  // namespace troupe::actors
