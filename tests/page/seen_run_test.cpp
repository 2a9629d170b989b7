#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <troupe/page/overview.hpp>
#include <troupe/page/seen_run.hpp>

namespace troupe::page {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr const char* kStatus = R"({"written_unix_s": 12.5, "run": "r", "term": 1, "seconds": 30.5, "last_cut": 2,
  "trouble": ["disk: slow"], "nodes": [{"name": "chief", "state": "up", "incarnation": 1, "address": "", "silent_s": 0}],
  "instances": [
    {"name": "actor-0", "role": "actor", "node": "chief", "state": "up", "incarnation": 1, "restarts": 1,
     "restart_limit": 5, "error": "", "idle_s": 3.5, "waits_for": "trajectories", "why": "", "version": 7, "ports": [
     {"name": "trajectories", "direction": "out", "depth": 4, "frames_per_s": 10, "bytes_per_s": 100, "waited_s": 9}]},
    {"name": "actor-1", "role": "actor", "node": "n", "state": "restarting", "incarnation": 2, "restarts": 2,
     "restart_limit": 5, "error": "it broke"},
    {"name": "replay-0", "role": "replay", "node": "chief", "state": "up", "incarnation": 1, "restarts": 0,
     "restart_limit": 5, "error": "", "idle_s": -1, "waits_for": "", "why": "", "version": -1, "ports": [
     {"name": "in", "direction": "in", "depth": 3, "frames_per_s": 9, "bytes_per_s": 90, "waited_s": 1}]}],
  "channels": [{"from": "actor", "from_port": "trajectories", "to": "replay", "to_port": "in", "kind": "stream",
                "capacity": 4}],
  "groups": [{"name": "gan", "epoch": "1.2", "seats": 2, "members": ["gan-0"],
              "missing": [{"name": "gan-1", "state": "restarting"}], "hang": "gan-0 waits", "broke": ""}],
  "messages": [], "waits": ["actor-0 waits 3.5 s"], "versions": {"actor-0": 7}, "staleness": {"actor-0": 2}})";

TEST(SeenRun, IsReadBackFromTheChiefsJson) {
  const SeenRun run = read_status(kStatus).value();
  ASSERT_EQ(run.instances.size(), 3U);
  EXPECT_EQ(run.instances[0].staleness, 2);
  EXPECT_EQ(run.instances[0].ports[0].depth, 4);
  EXPECT_FALSE(run.instances[1].told);
  EXPECT_EQ(index_of(run.instances[1]), 1);
  EXPECT_EQ(run.written_unix_s, 12.5);
  EXPECT_EQ(run.groups[0].missing[0].state, "restarting");
}

TEST(SeenRun, RefusesWhatIsNoStatus) {
  for (const char* text :
       {"", "[]", "{\"run\": 5}", "{\"instances\": [5]}", "{\"seconds\": \"x\"}", "{\"nodes\": 7}"}) {
    const auto run = read_status(text);
    ASSERT_FALSE(run.ok()) << text;
    EXPECT_EQ(run.error().code, Code::kCorrupt);
  }
  EXPECT_FALSE(read_status(std::string(100'000, '[')).ok());
}

TEST(SeenRun, TextsOfOthersAreMadePrintable) {
  EXPECT_EQ(read_status("{\"run\": \"a\\u001b[2J\"}").value().run, "a\\x1b[2J");
}

TEST(Overview, SumsUpRolesAndChannels) {
  const Overview overview = overview_of(read_status(kStatus).value());
  ASSERT_EQ(overview.roles.size(), 2U);
  const RoleView& actor = overview.roles[0];
  EXPECT_EQ(actor.instances, 2);
  EXPECT_EQ(actor.restarts, 3);
  EXPECT_EQ(actor.waiting, 1);
  EXPECT_EQ(actor.longest, "actor-0");
  EXPECT_EQ(actor.error, "it broke");
  EXPECT_EQ(actor.staleness, 2);
  ASSERT_EQ(overview.channels.size(), 1U);
  EXPECT_EQ(overview.channels[0].depth, 3);
  EXPECT_EQ(overview.channels[0].frames_per_s, 9);
  EXPECT_EQ(overview.channels[0].producers_waiting, 1);
  EXPECT_EQ(overview.channels[0].consumers_waiting, 0);
  EXPECT_EQ(overview.channels[0].longest_s, 3.5);
}

TEST(Overview, TrafficStandsInForInstancesThatHaveSaidNothing) {
  SeenRun run = read_status(kStatus).value();
  for (SeenInstance& instance : run.instances) instance.ports.clear();
  const std::vector<PortTraffic> traffic = {{"replay", "in", 5, 50, 0, 0, 2.0},
                                            {"actor", "trajectories", 5, 50, 0, 0, {}}};
  const Overview overview = overview_of(run, traffic);
  EXPECT_EQ(overview.channels[0].frames_per_s, 5);
  EXPECT_EQ(overview.channels[0].depth, 2);
}

TEST(Overview, AlarmsNameWhoIsDownAndWhichGroupHangs) {
  EXPECT_THAT(alarms_of(read_status(kStatus).value()),
              ElementsAre("disk: slow", "group gan: gan-0 waits", "actor-1 is restarting (restart 2 of 5): it broke"));
}

TEST(Overview, AThousandThatAreDownAreTwentyLines) {
  SeenRun run;
  for (int i = 0; i < 1000; ++i) {
    SeenInstance& instance = run.instances.emplace_back();
    instance.name = "actor-" + std::to_string(i);
    instance.state = "restarting";
  }
  const auto alarms = alarms_of(run);
  EXPECT_EQ(alarms.size(), 20U);
  EXPECT_THAT(alarms.back(), HasSubstr("1000 instances"));
}

}  // namespace
}  // namespace troupe::page
