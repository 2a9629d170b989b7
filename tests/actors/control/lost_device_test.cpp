// Devices that are lost to their process for good (Code::kLost), on simulated hosts: the process of that node is
// replaced, its instances go on from the last cut, and nobody else is disturbed; and when that does not help the run
// ends with the one error. What CUDA says of a lost GPU is tested in tests/gpu and tests/apps.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <troupe/core/log.hpp>
#include <troupe/tests/actors/simulated_roles.hpp>
#include <troupe/tests/actors/simulation.hpp>

namespace troupe::actors {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::Ledger;
using testing::Simulation;
using testing::SimulationOptions;

constexpr const char* kLost = "learner: its GPU is gone";

class LostDevice : public ::testing::Test {
 protected:
  LostDevice() : ledger(std::make_shared<Ledger>()) {
    log::set_level(log::Level::kOff);
    Rng rng(1);
    topology = testing::make_topology(rng, ledger);
    for (RoleSpec& role : topology.roles) role.count = 1;
    find("member").count = 2;
    options.topology = &topology;
    options.seed = 1;
    options.placement = {{kChiefNode, {{"reports", {0}}}},
                         {"gpu", {{"learner", {0}}, {"member", {0}}}},
                         {"other", {{"source", {0}}, {"sink", {0}}, {"server", {0}}, {"member", {1}}}}};
  }

  RoleSpec& find(const std::string& name) { return *std::ranges::find(topology.roles, name, &RoleSpec::name); }
  void start() {
    simulation.emplace(options, testing::SimulatedDisk{});
    simulation->on_commit = [this](const auto& shards) { ledger->check_cut(shards); };
    for (const PlacedNode& node : options.placement) simulation->start(node.name);
  }
  void expect_undisturbed(const std::string& instance) { EXPECT_EQ(ledger->live[instance], 0U) << instance; }

  std::shared_ptr<Ledger> ledger;
  Topology topology;
  SimulationOptions options;
  std::optional<Simulation> simulation;
};

TEST_F(LostDevice, GivesItsNodeANewProcessAndLeavesTheOthersAlone) {
  start();
  simulation->run_until(milliseconds(2500));
  ASSERT_GT(simulation->disk().committed(), 0U);
  const std::uint64_t version = ledger->version;
  const std::int64_t sent = ledger->all_sent;
  ledger->lose["learner-0"] = 1;
  simulation->run_until(seconds(6));
  EXPECT_FALSE(simulation->ended());
  EXPECT_EQ(simulation->alive("gpu"), 1U);
  EXPECT_EQ(ledger->live["learner-0"], 1U) << "restarted once, and not in the process that had lost the device";
  EXPECT_EQ(ledger->live["member-0"], 1U) << "was in that process too";
  for (const char* const instance : {"source-0", "sink-0", "server-0", "member-1"}) expect_undisturbed(instance);
  EXPECT_GT(ledger->version, version);
  EXPECT_GT(ledger->all_sent, sent);
  EXPECT_EQ(ledger->scattered(2), "") << "the group is whole again";
  EXPECT_THAT(simulation->findings(), ::testing::IsEmpty());
  EXPECT_THAT(ledger->findings, ::testing::IsEmpty());
}

TEST_F(LostDevice, EndsTheRunWhenNewProcessesLoseItToo) {
  options.checkpoint_period = Duration::zero();
  ledger->lose["learner-0"] = 1000;
  start();
  simulation->run_until(seconds(10));
  ASSERT_TRUE(simulation->ended());
  ASSERT_TRUE(simulation->ended()->error);
  EXPECT_EQ(simulation->ended()->error->code, Code::kLost);
  EXPECT_EQ(simulation->ended()->error->message, std::string(kLost) + " (after 3 restarts)");
  EXPECT_EQ(ledger->live["learner-0"], 3U) << "a new process each time, and no more of them";
  for (const char* const instance : {"source-0", "sink-0", "server-0"}) expect_undisturbed(instance);
}

TEST_F(LostDevice, MayBeLostAnyNumberOfTimesWhileTheRunGetsOn) {
  start();
  for (int time = 1; time <= 6; ++time) {
    simulation->at(time * milliseconds(2500), [this] { ledger->lose["learner-0"] = 1; });
  }
  simulation->run_until(seconds(18));
  EXPECT_FALSE(simulation->ended());
  EXPECT_EQ(ledger->live["learner-0"], 6U);
  EXPECT_THAT(ledger->findings, ::testing::IsEmpty());
}

TEST_F(LostDevice, OfTheChiefsNodeEndsTheRunAtOnce) {
  options.placement[0].shares.push_back({"learner", {0}});
  options.placement[1].shares.erase(options.placement[1].shares.begin());
  start();
  simulation->run_until(milliseconds(2500));
  ledger->lose["learner-0"] = 1;
  simulation->run_until(seconds(5));
  ASSERT_TRUE(simulation->ended());
  ASSERT_TRUE(simulation->ended()->error);
  EXPECT_EQ(simulation->ended()->error->message, kLost);
  expect_undisturbed("learner-0");
}

TEST_F(LostDevice, OfTheChiefsNodeCostsOneInstanceWhereTheRoleHasOthers) {
  find("member").restart.quarantine = true;
  options.placement[0].shares.push_back({"member", {0}});
  options.placement[1].shares.pop_back();
  start();
  simulation->run_until(milliseconds(2500));
  const std::uint64_t version = ledger->version;
  ledger->lose["member-0"] = 1;
  simulation->run_until(seconds(5));
  EXPECT_FALSE(simulation->ended());
  EXPECT_GT(ledger->version, version);
  expect_undisturbed("member-0");
  EXPECT_THAT(simulation->findings(), ::testing::IsEmpty());
}

}  // namespace
}  // namespace troupe::actors
