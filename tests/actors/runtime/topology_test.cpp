#include <troupe/actors/runtime/topology.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <troupe/tests/actors/test_roles.hpp>

namespace troupe::actors {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

Topology valid() { return testing::counting(2, 10, 4, std::make_shared<testing::Collected>()); }

std::string finding(const Topology& topology) {
  const Status status = check(topology);
  return status.ok() ? "" : status.error().message;
}

TEST(Topology, AValidOnePasses) { EXPECT_EQ(finding(valid()), ""); }

TEST(Topology, TypesThatDifferAreNamedWithRolesAndChannel) {
  Topology topology = valid();
  topology.roles[1].inlets[0].type = "Trajectory";
  EXPECT_EQ(finding(topology),
            "topology: channel counter.numbers -> collector.numbers: role \"counter\" sends Number, role \"collector\" "
            "takes Trajectory");
}

TEST(Topology, KindsThatDifferAreRefused) {
  Topology topology = valid();
  topology.roles[1].inlets[0].kind = ChannelKind::kLatest;
  EXPECT_THAT(finding(topology), HasSubstr("the outlet is of kind stream, the inlet of kind latest"));
}

TEST(Topology, EveryFindingIsReportedAtOnce) {
  Topology topology = valid();
  topology.roles[0].count = 0;
  topology.channels[0].capacity = 0;
  topology.channels[0].to_role = "colector";
  topology.roles[1].completes_run = false;
  EXPECT_THAT(finding(topology),
              AllOf(HasSubstr("role \"counter\": count is 0"), HasSubstr("capacity is 0"),
                    HasSubstr("there is no role \"colector\""), HasSubstr("inlet \"numbers\" has no channel"),
                    HasSubstr("no role completes the run")));
}

TEST(Topology, DanglingAndDoublyUsedEndsAreRefused) {
  Topology topology = valid();
  topology.channels.clear();
  EXPECT_THAT(finding(topology), AllOf(HasSubstr("role \"counter\": outlet \"numbers\" has no channel"),
                                       HasSubstr("role \"collector\": inlet \"numbers\" has no channel")));
  topology = valid();
  topology.channels.push_back(topology.channels[0]);
  EXPECT_THAT(finding(topology), HasSubstr("outlet \"numbers\" has 2 channels, expected 1"));
}

TEST(Topology, EachMistakeSaysWhatItIsAbout) {
  Topology topology = valid();
  topology.channels.push_back(topology.channels[0]);
  topology.channels[0].to_port = "numers";
  topology.roles[0].count = 0;
  const std::vector<TopologyMistake> all = mistakes(topology);
  ASSERT_EQ(all.size(), 3U);
  EXPECT_EQ(all[0].role, "counter");
  EXPECT_FALSE(all[0].channel);
  EXPECT_EQ(all[1].channel, 0U);
  EXPECT_THAT(all[1].what, HasSubstr("role \"collector\" has no inlet \"numers\" (did you mean \"numbers\"?)"));
  EXPECT_EQ(all[2].role, "counter");
  EXPECT_EQ(all[2].channel, 1U) << "the channel that is one too many";
}

TEST(Topology, AnswersThatDifferAreRefused) {
  Topology topology = valid();
  topology.roles[0].outlets[0] = {.name = "numbers", .type = "Number", .kind = ChannelKind::kRequest, .answer = "Sum"};
  topology.roles[1].inlets[0] = {.name = "numbers", .type = "Number", .kind = ChannelKind::kRequest};
  EXPECT_THAT(finding(topology),
              HasSubstr("role \"counter\" wants answers of type Sum, role \"collector\" gives Number"));
  topology.roles[1].inlets[0].answer = "Sum";
  EXPECT_EQ(finding(topology), "");
}

TEST(Topology, TypesThatTravelShipOrAreRegistered) {
  Topology topology = valid();
  EXPECT_EQ(check_message_types(topology).error().message,
            "topology: role \"counter\": port \"numbers\" carries \"Number\", which nobody has registered: no other "
            "node would let it in\ntopology: role \"collector\": port \"numbers\" carries \"Number\", which nobody has "
            "registered: no other node would let it in");
  topology.messages = {{.name = "Number"}};
  EXPECT_TRUE(check_message_types(topology).ok());
  topology.messages.clear();
  topology.roles[0].outlets[0].type = topology.roles[1].inlets[0].type = "Episode";
  EXPECT_TRUE(check_message_types(topology).ok());
  topology.roles[0].outlets[0].type = topology.roles[1].inlets[0].type = "Control";
  EXPECT_FALSE(check_message_types(topology).ok()) << "which is no channel's";
}

TEST(Topology, DuplicateNamesAreRefused) {
  Topology topology = valid();
  topology.roles.push_back(topology.roles[0]);
  EXPECT_THAT(finding(topology), HasSubstr("role \"counter\" is declared twice"));
}

TEST(Topology, ACycleOfLosslessChannelsIsRefusedUnlessAnInletIsAlwaysDrained) {
  Topology topology = valid();
  topology.roles[0].inlets = {{"back", "Number"}};
  topology.roles[1].outlets = {{"back", "Number"}};
  topology.channels.push_back({"collector", "back", "counter", "back", 1});
  EXPECT_THAT(finding(topology),
              AllOf(HasSubstr("cycle of lossless channels"), HasSubstr("counter.numbers -> collector.numbers"),
                    HasSubstr("collector.back -> counter.back")));
  topology.roles[0].inlets[0].always_drained = true;
  EXPECT_EQ(finding(topology), "");
}

TEST(Topology, ReportsNeedAStreamOfMetricsIntoOneInstance) {
  Topology topology = valid();
  topology.reports = PortName{"nobody", "reports"};
  EXPECT_THAT(finding(topology), HasSubstr("reports: there is no role \"nobody\""));
  topology.reports = PortName{"collector", "numbers"};
  EXPECT_THAT(finding(topology), HasSubstr("expected a stream of Metrics"));
}

}  // namespace
}  // namespace troupe::actors
