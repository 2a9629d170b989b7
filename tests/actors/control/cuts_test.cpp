// Which cuts count, and what a run goes on from, with real chief and nodes on simulated hosts and disks: cuts that fail
// on one host, a chief that dies around a commit, hosts that stay away, parts that are damaged.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <optional>

#include <troupe/core/log.hpp>
#include <troupe/tests/actors/simulated_roles.hpp>
#include <troupe/tests/actors/simulation.hpp>

namespace troupe::actors {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::Contains;
using ::testing::IsEmpty;
using testing::Ledger;
using ::testing::Not;
using ::testing::Pair;
using testing::SimulatedDisk;
using testing::Simulation;
using testing::SimulationOptions;

/// The chief on a host of its own, sources on two, what must not forget on a fourth.
class Cuts : public ::testing::Test {
 protected:
  void SetUp() override {
    log::set_level(log::Level::kOff);
    Rng rng(1);
    topology = testing::make_topology(rng, ledger);
    for (RoleSpec& role : topology.roles) role.count = role.name == "source" || role.name == "member" ? 2 : 1;
    find("source").restart.quarantine = true;
    options.topology = &topology;
    options.placement = {{kChiefNode, {{"reports", {0}}, {"server", {0}}}},
                         {"a", {{"source", {0}}, {"member", {0}}}},
                         {"b", {{"source", {1}}, {"member", {1}}}},
                         {"keeper", {{"sink", {0}}, {"learner", {0}}}}};
  }
  void TearDown() override { log::set_level(log::Level::kInfo); }

  RoleSpec& find(const std::string& name) { return *std::ranges::find(topology.roles, name, &RoleSpec::name); }
  void start(SimulatedDisk disk = {}, bool resume = false) {
    simulation.emplace(options, std::move(disk));
    simulation->resume = resume;
    for (const PlacedNode& node : options.placement) simulation->start(node.name);
  }
  std::optional<CheckpointDone> checkpoint(Duration within) {
    std::optional<CheckpointDone> answer;
    simulation->checkpoint([&](const CheckpointDone& done) { answer = done; });
    simulation->run_until(simulation->now() + within);
    return answer;
  }
  std::vector<std::string> instances_of(const CommittedCut& cut) {
    std::vector<std::string> names;
    for (const CutPart& part : cut.parts) names.insert(names.end(), part.instances.begin(), part.instances.end());
    std::ranges::sort(names);
    return names;
  }

  std::shared_ptr<Ledger> ledger = std::make_shared<Ledger>();
  Topology topology;
  SimulationOptions options;
  std::optional<Simulation> simulation;
};

TEST_F(Cuts, ACommittedOneStaysHoweverManyLaterOnesFail) {
  start();
  simulation->run_until(milliseconds(2500));
  const std::uint64_t committed = simulation->disk().committed();
  ASSERT_GT(committed, 0U);
  simulation->fail_writes("a", true);
  simulation->run_until(milliseconds(8500));
  ASSERT_EQ(simulation->disk().committed(), committed);
  ASSERT_GT(simulation->disk().journal.cuts_begun, committed + 3) << "cuts were tried";
  for (const auto& [node, shards] : simulation->disk().shards) {
    EXPECT_TRUE(shards.contains(committed)) << node;
    EXPECT_LE(shards.size(), 3U) << node << " keeps parts of cuts that have failed";
  }
  simulation->kill("keeper", milliseconds(100));
  simulation->run_until(milliseconds(9500));
  EXPECT_THAT(simulation->loads(), Contains(Pair("learner", committed)));
  EXPECT_THAT(simulation->findings(), IsEmpty());
  simulation->fail_writes("a", false);
  simulation->run_until(milliseconds(12500));
  EXPECT_GT(simulation->disk().committed(), committed);
  for (const auto& [node, shards] : simulation->disk().shards) EXPECT_LE(shards.size(), 3U) << node;
}

TEST_F(Cuts, AChiefThatDiesBetweenACommitAndItsJournalHasCommittedIt) {
  start();
  simulation->run_until(milliseconds(2500));
  const std::uint64_t before = simulation->disk().committed();
  simulation->kill_chief_after_commit(milliseconds(300));
  simulation->run_until(milliseconds(3700));
  const std::uint64_t committed = simulation->disk().committed();
  ASSERT_GT(committed, before);
  // The learner, too: it goes on from that cut.
  simulation->kill("keeper", milliseconds(50));
  simulation->run_until(milliseconds(4500));
  EXPECT_THAT(simulation->loads(), Contains(Pair("learner", committed)));
  simulation->run_until(milliseconds(8000));
  EXPECT_GT(simulation->disk().committed(), committed) << "and numbers are not given twice";
  EXPECT_THAT(simulation->findings(), IsEmpty());
}

TEST_F(Cuts, AreTakenWithoutInstancesWhoseRoleLivesOnElsewhere) {
  start();
  simulation->run_until(milliseconds(2500));
  simulation->kill("b", Duration(-1));
  simulation->run_until(milliseconds(3500));
  const std::uint64_t before = simulation->disk().committed();
  const auto done = checkpoint(seconds(5));
  ASSERT_TRUE(done.has_value());
  EXPECT_FALSE(done->error.has_value()) << done->error->message;
  ASSERT_GT(simulation->disk().committed(), before);
  EXPECT_THAT(instances_of(simulation->disk().cuts.front()),
              ::testing::ElementsAre("learner", "member-0", "reports", "server", "sink", "source-0"));
  // All of them start when the run goes on from it, those that it lacks afresh.
  SimulatedDisk disk = simulation->disk();
  const std::uint64_t committed = disk.committed();
  simulation.reset();
  ledger->live.clear();
  start(std::move(disk), true);
  simulation->run_until(seconds(2));
  EXPECT_THAT(simulation->loads(), Contains(Pair("source-0", committed)));
  EXPECT_THAT(simulation->loads(), Not(Contains(Pair("source-1", committed))));
  EXPECT_TRUE(ledger->live.contains("source-1"));
  EXPECT_THAT(simulation->findings(), IsEmpty());
}

TEST_F(Cuts, AreNeverTakenWithoutWhatOnlyOneInstanceHas) {
  start();
  simulation->run_until(milliseconds(2500));
  simulation->kill("keeper", Duration(-1));
  simulation->run_until(milliseconds(3500));
  const std::uint64_t before = simulation->disk().committed();
  const auto done = checkpoint(seconds(6));
  ASSERT_TRUE(done.has_value());
  ASSERT_TRUE(done->error.has_value());
  EXPECT_EQ(done->error->code, Code::kUnavailable);
  EXPECT_EQ(simulation->disk().committed(), before);
}

/// A run that has ended, with two cuts, the parts of which are on the disks of four hosts.
class ResumedCuts : public Cuts {
 protected:
  void SetUp() override {
    Cuts::SetUp();
    start();
    simulation->run_until(milliseconds(4500));
    disk = simulation->disk();
    simulation.reset();
    ASSERT_EQ(disk.cuts.size(), 2U);
    newest = disk.cuts[0].number;
    earlier = disk.cuts[1].number;
    ledger->live.clear();
  }
  SimulatedDisk disk;
  std::uint64_t newest = 0, earlier = 0;
};

TEST_F(ResumedCuts, TheNewestIsUsedWhenAllHostsHaveTheirParts) {
  start(disk, true);
  simulation->run_until(seconds(3));
  EXPECT_THAT(simulation->loads(), Contains(Pair("learner", newest)));
  EXPECT_THAT(simulation->loads(), Contains(Pair("source-1", newest)));
  EXPECT_THAT(simulation->loads(), Not(Contains(Pair("learner", earlier))));
  EXPECT_THAT(simulation->findings(), IsEmpty());
}

TEST_F(ResumedCuts, TheOneBeforeIsUsedWhenAPartOnAnotherHostIsDamaged) {
  disk.damaged = {{"b", newest}};
  start(disk, true);
  simulation->run_until(seconds(3));
  for (const char* const instance : {"learner", "source-0", "source-1", "sink", "member-0"}) {
    EXPECT_THAT(simulation->loads(), Contains(Pair(instance, earlier))) << "all of the same cut";
    EXPECT_THAT(simulation->loads(), Not(Contains(Pair(instance, newest))));
  }
  simulation->run_until(seconds(6));
  EXPECT_GT(simulation->disk().committed(), newest) << "its number is not given twice";
  EXPECT_THAT(simulation->findings(), IsEmpty());
}

TEST_F(ResumedCuts, TheRunEndsWithOneErrorWhenNoneIsWhole) {
  disk.damaged = {{"b", newest}, {"keeper", earlier}};
  start(disk, true);
  simulation->run_until(seconds(3));
  ASSERT_TRUE(simulation->ended() && simulation->ended()->error);
  EXPECT_EQ(simulation->ended()->error->code, Code::kCorrupt);
  EXPECT_THAT(simulation->ended()->error->message, ::testing::HasSubstr("no checkpoint is whole"));
  EXPECT_THAT(simulation->ended()->error->message, ::testing::HasSubstr("part of node b"));
  EXPECT_THAT(simulation->ended()->error->message, ::testing::HasSubstr("part of node keeper"));
  EXPECT_THAT(simulation->loads(), IsEmpty());
}

TEST_F(ResumedCuts, AHostThatDoesNotComeIsNotWaitedForWithoutEnd) {
  start(disk, true);
  simulation->kill("b", Duration(-1));
  simulation->run_until(seconds(20));
  EXPECT_THAT(simulation->loads(), IsEmpty());
  simulation->run_until(seconds(34));
  EXPECT_THAT(simulation->loads(), Contains(Pair("learner", newest)));
}

TEST_F(ResumedCuts, AStateThatIsDamagedWhenItIsNeededEndsTheRunAtOnce) {
  start(disk);
  simulation->run_until(milliseconds(2500));
  // Every part that it could start from.
  SimulatedDisk now = simulation->disk();
  EXPECT_GT(now.committed(), 0U);
  for (const CommittedCut& cut : now.cuts) simulation->damage("keeper", cut.number);
  simulation->fail_writes("a", true);
  simulation->kill("keeper", milliseconds(100));
  simulation->run_until(milliseconds(4500));
  ASSERT_TRUE(simulation->ended() && simulation->ended()->error);
  EXPECT_THAT(simulation->ended()->error->message, ::testing::HasSubstr("no state"));
}

}  // namespace
}  // namespace troupe::actors
