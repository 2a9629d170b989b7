// What chief and nodes say to each other must grow with the nodes, and not with their square. With thousands of nodes:
// many_nodes_slow_test.cpp.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <troupe/tests/actors/many_nodes_costs.hpp>

namespace troupe::actors {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::ManyNodes;
using testing::Simulation;

TEST(ManyNodesTest, SayAsMuchEachAsFewDo) { testing::expect_the_same_of_each(24, 192); }

TEST(ManyNodesTest, AreKilledOneAfterTheOtherAndTheRestGoesOn) {
  ManyNodes run(96);
  ASSERT_GE(run.until_all_are_in(seconds(10)), Duration::zero());
  Simulation& simulation = run.simulation();
  const double quiet = run.said_in(seconds(10)).control;
  run.seen->longest_gap = Duration::zero();
  for (std::int64_t i = 0; i < 10; ++i) {
    simulation.at(simulation.now() + i * seconds(1),
                  [&simulation, i] { simulation.kill(ManyNodes::name(i * 7), milliseconds(100)); });
  }
  EXPECT_LT(run.said_in(seconds(10)).control, 1.5 * quiet) << "of ten deaths those hear who have to do with them";
  EXPECT_LT(run.seen->longest_gap, seconds(3)) << "also of those that were killed";
  const Duration cut = run.cut();
  EXPECT_GT(cut, Duration::zero());
  EXPECT_LT(cut, seconds(2));
  EXPECT_THAT(simulation.findings(), ::testing::IsEmpty());
}

}  // namespace
}  // namespace troupe::actors
