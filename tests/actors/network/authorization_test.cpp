// Every kind of node x every message x both directions against a table that is written down here once more, by hand:
// what is not in it must be refused.
#include <troupe/actors/network/authorization.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <set>

#include <troupe/messages/parameters.hpp>
#include <troupe/messages/reports.hpp>

namespace troupe::actors {
namespace {

using messages::Control;
using messages::ControlKind;
using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr std::uint32_t kUses = 0, kPolicies = 1, kQuestions = 2;  // channels: stream, latest, request

Topology topology() {
  const auto role = [](const char* name, std::vector<Port> inlets, std::vector<Port> outlets) {
    RoleSpec spec;
    spec.name = name;
    spec.inlets = std::move(inlets);
    spec.outlets = std::move(outlets);
    return spec;
  };
  Topology made;
  made.roles = {role("actor", {{"policy", "Parameters", ChannelKind::kLatest}},
                     {{"use", "ParametersUse"}, {"ask", "ParametersUse", ChannelKind::kRequest}}),
                role("store", {{"use", "ParametersUse"}}, {{"policy", "Parameters", ChannelKind::kLatest}}),
                role("server", {{"ask", "ParametersUse", ChannelKind::kRequest}}, {}),
                role("metrics", {{"reports", "Metrics"}}, {})};
  made.roles[1].group = true;
  made.channels = {{"actor", "use", "store", "use", 8},
                   {"store", "policy", "actor", "policy", 1},
                   {"actor", "ask", "server", "ask", 4}};
  made.reports = PortName{"metrics", "reports"};
  return made;
}

Route route(std::uint32_t channel) { return {{channel, 0, 0}, 1, 1}; }

class Authorization : public ::testing::Test {
 protected:
  messages::Frame use() { return messages::make_parameters_use(pool, {0, 1, 1}).value(); }
  messages::Frame report() { return messages::make_metrics(pool, {}).value(); }
  messages::Frame policy() {
    auto builder = messages::ParametersBuilder::make(pool, DType::kF32, 2).value();
    std::ranges::fill(builder.data(), std::byte{0});
    return std::move(builder).finish({1, 1, 1, DType::kF32});
  }

  /// A message and the roles whose nodes may send it, by whether the receiver is the chief.
  struct Case {
    std::string name;
    RemoteMessage message;
    std::set<std::string> to_chief, to_node;
  };

  std::vector<Case> data_cases() {
    const std::set<std::string> nobody, everyone = {"actor", "store", "server", "metrics"};
    std::vector<Case> cases;
    const auto add = [&](std::string name, RemoteMessage message, const std::set<std::string>& who) {
      cases.push_back({std::move(name), std::move(message), who, who});
    };
    const std::map<std::string, messages::Frame> frames = {
        {"ParametersUse", use()}, {"Parameters", policy()}, {"Metrics", report()}, {"nothing", {}}};
    struct Channel {
      std::uint32_t number;
      std::string type, producer, consumer;
      bool request;
      std::uint32_t credits;
    };
    for (const Channel& channel : {Channel{kUses, "ParametersUse", "actor", "store", false, 8},
                                   Channel{kPolicies, "Parameters", "store", "actor", false, 1},
                                   Channel{kQuestions, "ParametersUse", "actor", "server", true, 0},
                                   Channel{3, "", "", "", false, 0}, Channel{kReportChannel - 1, "", "", "", false, 0},
                                   Channel{kReportChannel, "Metrics", "*", "metrics", false, 1}}) {
      const std::string on = " on " + std::to_string(channel.number);
      const auto some = [&](const std::string& role, bool may) {
        return !may || role.empty() ? nobody : role == "*" ? everyone : std::set{role};
      };
      for (const auto& [type, frame] : frames) {
        const bool fits = type == channel.type;
        add("frame " + type + on, FrameMessage{route(channel.number), frame},
            some(channel.producer, fits && !channel.request));
        add("call " + type + on, CallMessage{route(channel.number), 1, frame},
            some(channel.producer, fits && channel.request));
        add("answer " + type + on, AnswerMessage{route(channel.number), 1, std::nullopt, frame},
            some(channel.consumer, channel.request));
      }
      for (const std::uint32_t credits : {0u, 1u, 8u, 9u, 0xffffffffu}) {
        add(std::to_string(credits) + " credits" + on, CreditMessage{route(channel.number), credits, 0},
            some(channel.consumer, !channel.request && credits <= channel.credits));
      }
    }
    add("marker", MarkerMessage{1}, everyone);
    for (const std::uint32_t role : {0u, 1u, 2u, 3u, 4u, 0xffffffffu}) {
      add("to the group of role " + std::to_string(role), GroupMessage{role, 0, 1, use()},
          role == 1 ? std::set<std::string>{"store"} : nobody);
    }
    return cases;
  }

  static std::vector<Case> control_cases() {
    // Who says it to whom: n(ode to chief), c(hief to node), o(perator to chief).
    const std::map<ControlKind, std::string> speakers = {
        {ControlKind::kJoin, "n"},       {ControlKind::kAlive, "n"},  {ControlKind::kUp, "n"},
        {ControlKind::kDone, "n"},       {ControlKind::kFailed, "n"}, {ControlKind::kCaptured, "n"},
        {ControlKind::kWritten, "n"},    {ControlKind::kStatus, "n"}, {ControlKind::kLeave, "n"},
        {ControlKind::kWelcome, "c"},    {ControlKind::kRefuse, "c"}, {ControlKind::kHeard, "c"},
        {ControlKind::kNodes, "c"},      {ControlKind::kSpawn, "c"},  {ControlKind::kWire, "c"},
        {ControlKind::kUnwire, "c"},     {ControlKind::kStart, "c"},  {ControlKind::kCut, "c"},
        {ControlKind::kResume, "c"},     {ControlKind::kCommit, "c"}, {ControlKind::kLive, "c"},
        {ControlKind::kAskStatus, "co"}, {ControlKind::kEnd, "co"},   {ControlKind::kGroup, "c"},
        {ControlKind::kRegroup, "n"},    {ControlKind::kCheck, "c"},  {ControlKind::kChecked, "n"},
        {ControlKind::kRoundEnded, "n"}, {ControlKind::kRound, "c"},
    };
    EXPECT_EQ(speakers.size(), messages::kControlKinds);
    std::vector<Case> cases;
    for (std::uint16_t number = 0; number <= messages::kControlKinds; ++number) {  // the last one does not exist
      const auto kind = static_cast<ControlKind>(number);
      const auto found = speakers.find(kind);
      const std::string who = found == speakers.end() ? "" : found->second;
      Control control;
      control.kind = kind;
      Case one{std::string(messages::to_string(kind)), control, {}, {}};
      if (who.find('n') != std::string::npos) one.to_chief = {"actor", "store", "server", "metrics"};
      if (who.find('c') != std::string::npos) one.to_node = {"chief"};
      if (who.find('o') != std::string::npos) one.to_chief.insert("operator");
      cases.push_back(one);
      control.instances = {{"actor", 3, 1, 7, false}, {"store", 0, 1, 1, false}};
      one.name += " of an actor and a store";
      one.message = control;
      if (!one.to_chief.empty() && one.to_chief.contains("actor")) one.to_chief = {"actor+store"};
      cases.push_back(std::move(one));
    }
    return cases;
  }

  const Topology plan = topology();
  messages::FramePool pool;
};

TEST_F(Authorization, WhatIsNotInTheTableIsRefusedWhoeverSendsIt) {
  const std::vector<std::vector<std::string>> senders = {
      {"actor"}, {"store"},          {"server"},           {"metrics"},           {"actor", "store"},
      {"chief"}, {"chief", "store"}, {"operator"},         {"operator", "actor"}, {"operator", "chief"},
      {"join"},  {"observer"},       {"observer", "actor"}};
  std::vector<Case> cases = data_cases();
  for (Case& one : control_cases()) cases.push_back(std::move(one));
  int allowed = 0, refused = 0;
  for (const auto& roles : senders) {
    const transport::Identity sender{"run", roles, "node-1"};
    const bool asks = sender.has_role("operator");
    for (const Case& one : cases) {
      for (const bool to_chief : {false, true}) {
        bool expected = false;
        for (const std::string& entry : to_chief ? one.to_chief : one.to_node) {
          if (entry == "actor+store") {
            expected |= !asks && sender.has_role("actor") && sender.has_role("store");
          } else {
            expected |= sender.has_role(entry) && (entry == "operator" || !asks);
          }
        }
        const Status may = may_send(plan, sender, to_chief, one.message);
        const std::string where =
            one.name + " from " + ::testing::PrintToString(roles) + (to_chief ? " to the chief" : "");
        EXPECT_EQ(may.ok(), expected) << where << ": " << may.error().message;
        (may.ok() ? allowed : refused) += 1;
        if (may.ok()) continue;
        EXPECT_EQ(may.error().code, Code::kInvalidArgument) << where;
        EXPECT_THAT(may.error().message, StartsWith("TRP-S711 node node-1 (roles ")) << where;
      }
    }
  }
  EXPECT_GT(allowed, 200);
  EXPECT_GT(refused, 5 * allowed);
}

TEST_F(Authorization, ARefusalSaysWhoMayNotSendWhatWhere) {
  const auto said = [&](const std::vector<std::string>& roles, bool to_chief, const RemoteMessage& message) {
    return may_send(plan, {"run", roles, "env-3"}, to_chief, message).error().message;
  };
  EXPECT_EQ(said({"actor"}, false, FrameMessage{route(kPolicies), policy()}),
            "TRP-S711 node env-3 (roles actor) may not send frames on store.policy -> actor.policy");
  EXPECT_EQ(said({"actor"}, false, FrameMessage{route(kUses), policy()}),
            "TRP-S711 node env-3 (roles actor) may not send Parameters on actor.use -> store.use, which carries "
            "ParametersUse");
  EXPECT_EQ(said({"store"}, false, CreditMessage{route(kUses), 9, 0}),
            "TRP-S711 node env-3 (roles store) may not send 9 credits on actor.use -> store.use, which has 8");
  Control control;
  control.kind = ControlKind::kEnd;
  EXPECT_EQ(said({"actor"}, true, control), "TRP-S711 node env-3 (roles actor) may not send the order end");
  control.kind = ControlKind::kUp;
  control.instances = {{"store", 0, 1, 1, false}};
  EXPECT_EQ(said({"actor"}, true, control), "TRP-S711 node env-3 (roles actor) may not send up of the role store");
}

TEST_F(Authorization, TypesOfTheUsersOwnAreLetInWhereTheirChannelsCarryThem) {
  Topology own = topology();
  own.roles[0].outlets[0].type = own.roles[1].inlets[0].type = "Celsius";
  own.roles[0].outlets[1].answer = own.roles[2].inlets[0].answer = "Kelvin";
  own.messages = {{.name = "Celsius", .max_bytes = 8},
                  {.name = "Kelvin", .check = [](std::span<const std::byte> bytes) -> Status {
                     if (bytes.front() == std::byte{1}) return {};
                     return Error{Code::kInvalidArgument, "below absolute zero"};
                   }}};
  const auto bytes = [&](std::size_t size, int first = 0) {
    std::vector<std::byte> all(size);
    if (size > 0) all[0] = static_cast<std::byte>(first);
    return pool.copy(all).value();
  };
  const auto said = [&](const Topology& plan, const char* role, const RemoteMessage& message) {
    const Status may = may_send(plan, {"run", {role}, "n"}, false, message);
    return may.ok() ? "ok" : may.error().message;
  };
  EXPECT_EQ(said(own, "actor", FrameMessage{route(kUses), bytes(8)}), "ok");
  EXPECT_EQ(said(own, "actor", FrameMessage{route(kUses), use()}),
            "TRP-S706 from n: frames on actor.use -> store.use: Celsius: got " + std::to_string(use().size()) +
                " bytes, expected 1 .. 8");
  EXPECT_THAT(said(own, "actor", FrameMessage{route(kUses), {}}), StartsWith("TRP-S706 from n: "));
  EXPECT_THAT(said(own, "store", FrameMessage{route(kUses), bytes(8)}), StartsWith("TRP-S711 "));
  EXPECT_THAT(said(own, "actor", CallMessage{route(kUses), 1, bytes(8)}), StartsWith("TRP-S711 "));
  EXPECT_THAT(said(own, "store", FrameMessage{route(kPolicies), bytes(8)}), StartsWith("TRP-S711 "))
      << "which carries Parameters";
  // The answer to a call has a type of its own.
  EXPECT_EQ(said(own, "actor", CallMessage{route(kQuestions), 1, use()}), "ok");
  EXPECT_EQ(said(own, "server", AnswerMessage{route(kQuestions), 1, std::nullopt, bytes(3, 1)}), "ok");
  EXPECT_EQ(said(own, "server", AnswerMessage{route(kQuestions), 1, std::nullopt, bytes(3, 2)}),
            "TRP-S706 from n: answers on actor.ask -> server.ask: Kelvin: below absolute zero");
  EXPECT_EQ(said(own, "server", AnswerMessage{route(kQuestions), 1, Error{Code::kUnavailable, "no"}, {}}), "ok");
  // Deny by default: a type that nobody has registered is let in by nobody.
  own.messages.clear();
  EXPECT_EQ(said(own, "actor", FrameMessage{route(kUses), bytes(8)}),
            "TRP-S711 node n (roles actor) may not send unknown bytes on actor.use -> store.use, which carries Celsius "
            "that nobody "
            "has registered");
  EXPECT_THAT(said(own, "server", AnswerMessage{route(kQuestions), 1, std::nullopt, bytes(3, 1)}),
              HasSubstr("carries Kelvin that nobody has registered"));
}

TEST_F(Authorization, WithoutReportsNobodyReports) {
  Topology silent = topology();
  silent.reports.reset();
  const transport::Identity actor{"run", {"actor"}, "a"}, metrics{"run", {"metrics"}, "m"};
  EXPECT_THAT(may_send(silent, actor, false, FrameMessage{route(kReportChannel), report()}).error().message,
              HasSubstr("TRP-S711"));
  EXPECT_FALSE(may_send(silent, metrics, false, CreditMessage{route(kReportChannel), 1, 0}).ok());
}

}  // namespace
}  // namespace troupe::actors
