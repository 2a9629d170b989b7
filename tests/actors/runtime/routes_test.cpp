// Data from other nodes reaches only the instance at the end of its edge, and only from the node at the other end.
#include <troupe/actors/runtime/routes.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <troupe/tests/actors/test_roles.hpp>

namespace troupe::actors {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

/// Two workers send numbers to a sink and call a server; everybody reports to the sink.
Topology routed_topology() {
  RoleSpec worker;
  worker.name = "worker";
  worker.count = 2;
  worker.outlets = {{"numbers", "Number"}, {"ask", "Number", ChannelKind::kRequest}};
  RoleSpec sink;
  sink.name = "sink";
  sink.inlets = {{"numbers", "Number"}, {"reports", "Metrics"}};
  RoleSpec server;
  server.name = "server";
  server.inlets = {{"answer", "Number", ChannelKind::kRequest}};
  Topology topology;
  topology.roles = {worker, sink, server};
  topology.channels = {{"worker", "numbers", "sink", "numbers", 4}, {"worker", "ask", "server", "answer", 4}};
  topology.reports = {"sink", "reports"};
  return topology;
}

constexpr std::uint32_t kNumbers = 0, kAsk = 1;

class RoutesTest : public ::testing::Test {
 protected:
  RoutesTest() : self_(system_) {}

  Route route(std::uint32_t channel, std::uint32_t from = 1) { return {{channel, from, 0}, 0, 0}; }
  FrameMessage frame(std::uint32_t channel, std::uint32_t from = 1) { return {route(channel, from), number(from)}; }
  CreditMessage credit(std::uint32_t channel, std::uint32_t from = 1) { return {route(channel, from), 1, 0}; }
  CallMessage call(std::uint64_t ticket = 1) { return {route(kAsk), ticket, number(1)}; }
  AnswerMessage answer() { return {route(kAsk), 1, std::nullopt, number(1)}; }
  Frame number(std::int64_t value) { return testing::number_frame(pool_, value); }
  /// The instance here; all are the same actor, this test.
  void host(const std::string& role, std::uint32_t index, std::uint32_t number) {
    routes_.add(role, index, number, caf::actor_cast<caf::actor>(self_));
  }
  /// What has been delivered since the last time, by its kind; a call with its ticket.
  std::vector<std::string> delivered() {
    std::vector<std::string> kinds;
    while (self_->has_next_message()) {
      self_->receive([&](frame_atom, const FrameMessage&) { kinds.push_back("frame"); },
                     [&](credit_atom, const CreditMessage&) { kinds.push_back("credit"); },
                     [&](call_atom, const CallMessage& c) { kinds.push_back("call " + std::to_string(c.ticket)); },
                     [&](answer_atom, const AnswerMessage&) { kinds.push_back("answer"); });
    }
    return kinds;
  }

  caf::actor_system_config config_;
  caf::actor_system system_{config_};
  caf::scoped_actor self_;
  messages::FramePool pool_;
  const Topology topology_ = routed_topology();
  Routes routes_{topology_};
};

TEST_F(RoutesTest, EachKindGoesToItsEndOfTheEdge) {
  host("sink", 0, 2);
  host("server", 0, 3);
  routes_.expect({kNumbers, 1, 0}, true, "b");
  routes_.expect({kAsk, 1, 0}, true, "b");
  EXPECT_TRUE(routes_.deliver("b", frame(kNumbers)));
  EXPECT_TRUE(routes_.deliver("b", call()));
  host("worker", 1, 1);
  routes_.expect({kNumbers, 1, 0}, false, "c");
  routes_.expect({kAsk, 1, 0}, false, "c");
  EXPECT_TRUE(routes_.deliver("c", credit(kNumbers)));
  EXPECT_TRUE(routes_.deliver("c", answer()));
  EXPECT_THAT(delivered(), ElementsAre("frame", "call 1", "credit", "answer"));
  EXPECT_EQ(routes_.refused(), 0u);
}

TEST_F(RoutesTest, NobodyElseSpeaksForANode) {
  host("sink", 0, 2);
  host("worker", 1, 1);
  routes_.expect({kNumbers, 1, 0}, true, "b");
  EXPECT_FALSE(routes_.deliver("evil", frame(kNumbers)));
  EXPECT_FALSE(routes_.deliver("b", frame(kNumbers, 0))) << "another edge of its role";
  EXPECT_FALSE(routes_.deliver("b", credit(kNumbers))) << "the other end of the edge";
  EXPECT_THAT(delivered(), IsEmpty());
}

TEST_F(RoutesTest, AnEdgeThatMovesToAnotherNodeIsHeardFromThereOnly) {
  host("sink", 0, 2);
  routes_.expect({kNumbers, 1, 0}, true, "b");
  routes_.expect({kNumbers, 1, 0}, true, "c");
  EXPECT_FALSE(routes_.deliver("b", frame(kNumbers)));
  EXPECT_TRUE(routes_.deliver("c", frame(kNumbers)));
}

TEST_F(RoutesTest, AChannelCarriesOnlyMessagesOfItsKind) {
  host("sink", 0, 2);
  host("server", 0, 3);
  host("worker", 1, 1);
  for (const std::uint32_t channel : {kNumbers, kAsk}) {
    routes_.expect({channel, 1, 0}, true, "b");
    routes_.expect({channel, 1, 0}, false, "b");
  }
  EXPECT_FALSE(routes_.deliver("b", frame(kAsk)));
  EXPECT_FALSE(routes_.deliver("b", credit(kAsk)));
  EXPECT_FALSE(routes_.deliver("b", CallMessage{route(kNumbers), 1, number(1)}));
  EXPECT_FALSE(routes_.deliver("b", AnswerMessage{route(kNumbers), 1, std::nullopt, number(1)}));
  EXPECT_FALSE(routes_.deliver("b", MarkerMessage{1}));
  EXPECT_FALSE(routes_.deliver("b", messages::Control{}));
  EXPECT_EQ(routes_.refused(), 6u);
  EXPECT_THAT(delivered(), IsEmpty());
}

TEST_F(RoutesTest, WhatIsForNoInstanceHereIsRefused) {
  routes_.expect({kNumbers, 1, 0}, true, "b");
  EXPECT_FALSE(routes_.deliver("b", frame(kNumbers)));
  host("sink", 0, 2);
  EXPECT_TRUE(routes_.deliver("b", frame(kNumbers)));
  routes_.remove("sink", 0);
  EXPECT_FALSE(routes_.deliver("b", frame(kNumbers)));
  routes_.expect({77, 1, 0}, true, "b");
  EXPECT_FALSE(routes_.deliver("b", frame(77))) << "there is no such channel";
  EXPECT_EQ(delivered().size(), 1u);
  EXPECT_EQ(routes_.refused(), 3u);
}

TEST_F(RoutesTest, ReportsGoToTheirRoleAndTheirCreditsToTheInstanceOfThatNumber) {
  host("sink", 0, 2);
  host("worker", 1, 1);
  routes_.expect({kReportChannel, 7, 0}, true, "b");
  routes_.expect({kReportChannel, 1, 0}, false, "b");
  routes_.expect({kReportChannel, 8, 0}, false, "b");
  EXPECT_TRUE(routes_.deliver("b", frame(kReportChannel, 7)));
  EXPECT_TRUE(routes_.deliver("b", credit(kReportChannel, 1)));
  EXPECT_FALSE(routes_.deliver("b", credit(kReportChannel, 8))) << "no instance of this number is here";
  EXPECT_FALSE(routes_.deliver("b", CallMessage{route(kReportChannel, 7), 1, number(1)}));
  EXPECT_THAT(delivered(), ElementsAre("frame", "credit"));
}

TEST_F(RoutesTest, AGrantOrCallThatIsFasterThanTheChiefsWordWaitsForIt) {
  host("worker", 1, 1);
  host("server", 0, 3);
  EXPECT_FALSE(routes_.deliver("b", credit(kNumbers)));
  EXPECT_FALSE(routes_.deliver("b", call(1)));
  EXPECT_FALSE(routes_.deliver("b", call(2)));
  EXPECT_THAT(delivered(), IsEmpty());
  routes_.expect({kNumbers, 1, 0}, false, "b");
  EXPECT_THAT(delivered(), ElementsAre("credit"));
  routes_.expect({kAsk, 1, 0}, true, "b");
  EXPECT_THAT(delivered(), ElementsAre("call 1", "call 2"));
  routes_.expect({kAsk, 1, 0}, true, "b");
  EXPECT_THAT(delivered(), IsEmpty());
  EXPECT_EQ(routes_.refused(), 0u);
}

TEST_F(RoutesTest, WhatCameTooEarlyFromAnotherNodeIsNotDelivered) {
  host("worker", 1, 1);
  EXPECT_FALSE(routes_.deliver("evil", credit(kNumbers)));
  routes_.expect({kNumbers, 1, 0}, false, "b");
  EXPECT_THAT(delivered(), IsEmpty());
}

TEST_F(RoutesTest, WhatIsTooEarlyIsBoundedForEachNode) {
  host("worker", 1, 1);
  host("server", 0, 3);
  EXPECT_FALSE(routes_.deliver("b", credit(kNumbers)));
  for (std::uint64_t i = 0; i < 2 * Routes::kEarlyMax; ++i) EXPECT_FALSE(routes_.deliver("evil", call(i)));
  routes_.expect({kNumbers, 1, 0}, false, "b");
  EXPECT_THAT(delivered(), ElementsAre("credit")) << "one node cannot push out what another said";
  routes_.expect({kAsk, 1, 0}, true, "evil");
  const auto calls = delivered();
  ASSERT_EQ(calls.size(), Routes::kEarlyMax);
  EXPECT_EQ(calls.back(), "call " + std::to_string(2 * Routes::kEarlyMax - 1));
}

}  // namespace
}  // namespace troupe::actors
