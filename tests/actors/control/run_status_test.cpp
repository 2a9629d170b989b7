// What `troupe status` says about whom waits for what.
#include <troupe/actors/control/run_status.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace troupe::actors {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

/// actor x 3 -> replay -> learner-0, learner-1; the learners' parameters go back to the actors.
Topology reporting_topology() {
  RoleSpec actor;
  actor.name = "actor";
  actor.count = 3;
  actor.inlets = {{"parameters", "Parameters", ChannelKind::kLatest}};
  actor.outlets = {{"trajectories", "Trajectory"}};
  RoleSpec replay;
  replay.name = "replay";
  replay.inlets = {{"inserts", "Trajectory", ChannelKind::kStream, true}};
  replay.outlets = {{"batches", "Batch"}};
  RoleSpec learner;
  learner.name = "learner";
  learner.count = 2;
  learner.inlets = {{"batches", "Batch"}};
  learner.outlets = {{"parameters", "Parameters", ChannelKind::kLatest}};
  learner.completes_run = true;
  Topology topology;
  topology.roles = {actor, replay, learner};
  topology.channels = {{"actor", "trajectories", "replay", "inserts", 4},
                       {"replay", "batches", "learner", "batches", 2},
                       {"learner", "parameters", "actor", "parameters", 1}};
  return topology;
}

RunStatus::Instance up(const std::string& name, const std::string& role) {
  RunStatus::Instance instance;
  instance.name = name;
  instance.role = role;
  instance.node = "chief";
  instance.state = "up";
  instance.restart_limit = 5;
  instance.own.emplace();
  instance.own->instance = name;
  return instance;
}

/// Everybody is at work.
RunStatus at_work() {
  RunStatus status;
  status.run = "r";
  status.term = 2;
  for (const char* name : {"actor-0", "actor-1", "actor-2"}) status.instances.push_back(up(name, "actor"));
  status.instances.push_back(up("replay", "replay"));
  for (const char* name : {"learner-0", "learner-1"}) status.instances.push_back(up(name, "learner"));
  return status;
}

void idle(RunStatus::Instance& instance, double for_s, const std::string& on, const std::string& why = "") {
  instance.own->idle_s = for_s;
  instance.own->waits_for = on;
  instance.own->why = why;
}

TEST(RunStatus, WhoeverIsAtWorkOrHasOnlyJustStoppedDoesNotWait) {
  RunStatus status = at_work();
  idle(status.instances[4], 0.4, "batches");
  EXPECT_THAT(waits(reporting_topology(), status), IsEmpty());
}

TEST(RunStatus, TheLineNamesPortTimeAndThoseWhoHoldItUpThroughTheChannels) {
  RunStatus status = at_work();
  idle(status.instances[4], 3.1, "batches");
  idle(status.instances[3], 0.2, "", "limiter needs 812 more inserts");
  status.instances[2].state = "restarting";
  status.instances[2].restarts = 2;
  status.instances[2].own.reset();
  EXPECT_THAT(waits(reporting_topology(), status),
              ElementsAre("learner-0 waits 3.1 s on batches: replay's limiter needs 812 more inserts; "
                          "actor-2 is restarting (2 of 5)"));
}

TEST(RunStatus, AProducerWithoutRoomIsHeldUpByItsConsumers) {
  RunStatus status = at_work();
  idle(status.instances[0], 2.0, "trajectories");
  idle(status.instances[3], 0.2, "batches");
  status.instances[4].state = "waiting for its node";
  status.instances[4].restarts = 1;
  status.instances[5].state = "quarantined";
  EXPECT_THAT(waits(reporting_topology(), status),
              ElementsAre("actor-0 waits 2.0 s on trajectories: learner-0 is waiting for its node (1 of 5); "
                          "learner-1 is quarantined"));
}

TEST(RunStatus, AnInstanceMayBeHeldUpByItself) {
  RunStatus status = at_work();
  idle(status.instances[1], 12.34, "", "policy needs parameters newer than version 7");
  EXPECT_THAT(waits(reporting_topology(), status),
              ElementsAre("actor-1 waits 12.3 s: its policy needs parameters newer than version 7"));
}

TEST(RunStatus, WithoutAReasonTheLineStillSaysOnWhat) {
  RunStatus status = at_work();
  idle(status.instances[5], 1.0, "batches");
  EXPECT_THAT(waits(reporting_topology(), status), ElementsAre("learner-1 waits 1.0 s on batches"));
}

TEST(RunStatus, WhoeverIsIdleAndContentDoesNotWait) {
  RunStatus status = at_work();
  idle(status.instances[0], 100, "");
  EXPECT_THAT(waits(reporting_topology(), status), IsEmpty());
}

TEST(RunStatus, TwoWhoWaitForEachOtherAreEachNamedOnce) {
  RunStatus status = at_work();
  idle(status.instances[3], 5, "batches", "limiter needs 8 more samples");
  idle(status.instances[4], 5, "batches");
  EXPECT_THAT(waits(reporting_topology(), status),
              ElementsAre("replay waits 5.0 s on batches: its limiter needs 8 more samples",
                          "learner-0 waits 5.0 s on batches: replay's limiter needs 8 more "
                          "samples"));
}

TEST(RunStatus, ALineHasABound) {
  Topology many = reporting_topology();
  many.roles[0].count = 200;
  RunStatus status = at_work();
  status.instances.erase(status.instances.begin(), status.instances.begin() + 3);
  for (int i = 0; i < 200; ++i) {
    status.instances.push_back(up("actor-" + std::to_string(i), "actor"));
    status.instances.back().state = "starting";
  }
  idle(status.instances[0], 4, "", "limiter needs 1 more inserts");
  idle(status.instances[1], 4, "batches");
  const auto lines = waits(many, status);
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_EQ(lines[1],
            "learner-0 waits 4.0 s on batches: replay's limiter needs 1 more inserts; actor-0 is starting; actor-1 is "
            "starting; actor-2 is starting; actor-3 is starting; actor-4 is starting; actor-5 is starting; actor-6 is "
            "starting; and 193 more");
}

/// A member of a group in the middle of a step.
RunStatus::Instance member(const std::string& name, const std::string& what, std::chrono::milliseconds since) {
  RunStatus::Instance instance = up(name, "learner");
  set_activity(*instance.own, {.step = 412, .what = what, .since = since});
  return instance;
}

TEST(RunStatus, AGroupHasItsEpochItsMembersAndWhoIsMissing) {
  RunStatus status = at_work();
  status.instances[5].state = "restarting";
  status.instances[5].own.reset();
  status.groups = {
      {.role = "learner", .epoch = "2.7", .members = {"learner-0"}, .broke = "epoch 2.6: rank 1 has left"}};
  const auto group = nlohmann::json::parse(to_json(reporting_topology(), status))["groups"][0];
  EXPECT_EQ(group["name"], "learner");
  EXPECT_EQ(group["epoch"], "2.7");
  EXPECT_EQ(group["seats"], 2);
  EXPECT_EQ(group["members"], (nlohmann::json{"learner-0"}));
  EXPECT_EQ(group["missing"], (nlohmann::json{{{"name", "learner-1"}, {"state", "restarting"}}}));
  EXPECT_EQ(group["hang"], "");
  EXPECT_EQ(group["broke"], "epoch 2.6: rank 1 has left");
  // Who has done its part is not missed.
  status.instances[5].state = "done";
  EXPECT_EQ(nlohmann::json::parse(to_json(reporting_topology(), status))["groups"][0]["missing"],
            nlohmann::json::array());
}

TEST(RunStatus, AHangInAGroupNamesWhoWaitsAndForWhat) {
  RunStatus status;
  status.groups = {{.role = "learner", .members = {"learner-0", "learner-1", "learner-2", "learner-3"}}};
  status.instances = {member("learner-0", "all_reduce(critic)", std::chrono::milliseconds(7100)),
                      member("learner-1", "input_fn", std::chrono::milliseconds(7150)),
                      member("learner-2", "all_reduce(critic)", std::chrono::milliseconds(300)),
                      up("learner-3", "learner"), member("other-0", "input_fn", std::chrono::milliseconds(9000))};
  status.instances[3].own.reset();
  EXPECT_EQ(hang(status, status.groups[0]),
            "learner-0 waits 7.1 s for all_reduce(critic) of step 412; learner-1 is in input_fn of step 412 for 7.2 s; "
            "learner-3 does not say what it does");
  EXPECT_THAT(waits(reporting_topology(), status),
              ElementsAre("learner-0 waits 7.1 s: its group in all_reduce(critic) of step 412"));
  // Nobody waits for long.
  status.instances[0] = member("learner-0", "all_reduce(critic)", std::chrono::milliseconds(900));
  EXPECT_EQ(hang(status, status.groups[0]), "");
}

TEST(RunStatus, ANodesAnswerSurvivesItsTravel) {
  InstanceStatus one;
  one.instance = "actor-1";
  one.paused = true;
  one.idle_s = 1.5;
  one.waits_for = "trajectories";
  one.why = "bytes that are no UTF-8: \xff";
  one.version = 42;
  one.ports = {{"trajectories", false, 3, 100, 6400, 0.25}, {"parameters", true, 1, 2, 3, 4}};
  InstanceStatus two;
  two.instance = "replay";
  two.done = true;
  const auto read = statuses_from_json(to_json({one, two})).value();
  ASSERT_EQ(read.size(), 2u);
  EXPECT_EQ(read[0].instance, "actor-1");
  EXPECT_TRUE(read[0].paused);
  EXPECT_EQ(read[0].idle_s, 1.5);
  EXPECT_EQ(read[0].waits_for, "trajectories");
  EXPECT_EQ(read[0].version, 42);
  ASSERT_EQ(read[0].ports.size(), 2u);
  EXPECT_EQ(read[0].ports[0].name, "trajectories");
  EXPECT_FALSE(read[0].ports[0].inlet);
  EXPECT_EQ(read[0].ports[0].bytes, 6400);
  EXPECT_TRUE(read[0].ports[1].inlet);
  EXPECT_EQ(read[0].ports[1].waited_s, 4);
  EXPECT_TRUE(read[1].done);
  EXPECT_EQ(read[1].idle_s, -1);
}

TEST(RunStatus, AnAnswerOfAnotherShapeIsCorrupt) {
  for (const char* text : {"", "{}", "[1]", "[{}]", R"([{"instance": 3}])", "[", "null"}) {
    EXPECT_EQ(statuses_from_json(text).error().code, Code::kCorrupt) << text;
  }
  std::string text = to_json({InstanceStatus{}});
  text.replace(text.find("false"), 5, "\"no\"");
  EXPECT_EQ(statuses_from_json(text).error().code, Code::kCorrupt);
}

TEST(RunStatus, NumbersThatAreNotWholeAreNoneOfItsCounts) {
  InstanceStatus status;
  status.ports = {{"batches", true, 7, 7, 7, 0.5}};
  const std::string good = to_json({status});
  for (const std::string from : {"\"version\":-1", "\"depth\":7", "\"frames\":7", "\"bytes\":7"}) {
    const std::size_t at = good.find(from);
    ASSERT_NE(at, std::string::npos) << from;
    const auto with = [&](const std::string& number) {
      return statuses_from_json(
          std::string(good).replace(at, from.size(), from.substr(0, from.find(':') + 1) + number));
    };
    EXPECT_TRUE(with("9223372036854775807").ok()) << from;
    for (const char* number : {"1e300", "-1e300", "0.5", "9223372036854775808", "18446744073709551615", "true"}) {
      EXPECT_FALSE(with(number).ok()) << from << " " << number;
    }
  }
}

TEST(RunStatus, TheWholeHasRatesVersionsAndStaleness) {
  RunStatus status = at_work();
  status.nodes.push_back({"chief", "up", 3, "10.0.0.1:7000", 0.05});
  status.between_s = 2;
  auto& replay = status.instances[3];
  replay.own->ports = {{"inserts", true, 3, 100, 6400, 0}};
  replay.before = *replay.own;
  replay.before->ports[0].frames = 60;
  replay.before->ports[0].bytes = 10000;  // it was restarted: no negative rates
  status.instances[0].own->version = 95;
  status.instances[4].own->version = 100;
  const auto json = nlohmann::json::parse(to_json(reporting_topology(), status));
  EXPECT_EQ(json["nodes"][0]["address"], "10.0.0.1:7000");
  EXPECT_EQ(json["instances"][3]["ports"][0]["frames_per_s"], 20.0);
  EXPECT_EQ(json["instances"][3]["ports"][0]["bytes_per_s"], 0.0);
  EXPECT_EQ(json["versions"], (nlohmann::json{{"actor-0", 95}, {"learner-0", 100}}));
  EXPECT_EQ(json["staleness"], (nlohmann::json{{"actor-0", 5}, {"learner-0", 0}}));
  EXPECT_EQ(json["waits"], nlohmann::json::array());
}

}  // namespace
}  // namespace troupe::actors
