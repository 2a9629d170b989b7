// Nodes in step over a wire that delivers in any order it likes: what they get, and when, is the same each time.
#include <troupe/actors/control/lockstep.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fmt/format.h>

#include <deque>
#include <functional>
#include <iterator>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include <troupe/core/rng.hpp>

namespace troupe::actors {
namespace {

using messages::Control;
using messages::ControlKind;
using ::testing::HasSubstr;

/// Between all nodes of a test; keeps the order of each kind of message from one node to another, and no other.
class Wire {
 public:
  explicit Wire(std::uint64_t seed) : random_(seed) {}

  void send(const std::string& from, const std::string& to, RemoteMessage message) {
    const std::size_t kind = message.index();
    push(from, to, kind, [this, from, to, message = std::move(message)]() mutable {
      if (events_[to].received) events_[to].received(from, std::move(message));
    });
    if (from == kChiefNode) find(from, to);
  }
  void start(const std::string& node, NetworkEvents events) {
    events_[node] = std::move(events);
    if (node != kChiefNode) find(node, kChiefNode);
  }
  void lose(const std::string& node, const std::string& lost) { events_[node].lost(lost, 0); }

  /// Delivers one thing. False: there is nothing.
  bool step() {
    if (queues_.empty()) return false;
    auto queue = std::next(queues_.begin(), static_cast<std::ptrdiff_t>(random_.below(queues_.size())));
    const std::function<void()> deliver = std::move(queue->second.front());
    queue->second.pop_front();
    if (queue->second.empty()) queues_.erase(queue);
    deliver();
    return true;
  }
  bool chance() { return random_.below(3) != 0; }

 private:
  void push(const std::string& from, const std::string& to, std::size_t kind, std::function<void()> deliver) {
    queues_[{from, to, kind}].push_back(std::move(deliver));
  }
  /// `node` finds out that `other` can be reached.
  void find(const std::string& node, const std::string& other) {
    if (!found_.insert({node, other}).second) return;
    push(other, node, 99, [this, node, other] { events_[node].found(other, 1); });
  }

  Rng random_;
  std::map<std::string, NetworkEvents> events_;
  std::set<std::pair<std::string, std::string>> found_;
  std::map<std::tuple<std::string, std::string, std::size_t>, std::deque<std::function<void()>>> queues_;
};

class WireEnd final : public Network {
 public:
  WireEnd(Wire& wire, std::string node) : wire_(wire), node_(std::move(node)) {}
  void start(std::uint64_t, NetworkEvents events) override { wire_.start(node_, std::move(events)); }
  void send(const std::string& node, RemoteMessage message) override { wire_.send(node_, node, std::move(message)); }
  void know(const std::vector<messages::ControlNode>&) override {}
  void know_more(const std::vector<messages::ControlNode>&, const std::vector<std::string>&) override {}
  void stop() override {}

 private:
  Wire& wire_;
  const std::string node_;
};

struct TestNode {
  TestNode(Wire& wire, const std::string& name_in, const std::set<std::string>& all)
      : name(name_in),
        end(wire, name),
        step({.network = &end,
              .node = name,
              .all = name == kChiefNode ? all : std::set<std::string>(),
              .address = {.name = name}}) {
    step.start(1, {.received =
                       [this](const std::string& from, RemoteMessage message) {
                         if (const auto* control = std::get_if<Control>(&message)) {
                           log.push_back(fmt::format("{}: {} says {}", rounds, from, control->number));
                         } else {
                           log.push_back(
                               fmt::format("{}: {} gives {}", rounds, from, std::get<CreditMessage>(message).credits));
                         }
                       },
                   .found = [this](const std::string& node,
                                   std::uint64_t) { log.push_back(fmt::format("{}: found {}", rounds, node)); },
                   .lost = nullptr});
  }

  std::string name;
  WireEnd end;
  Lockstep step;
  std::uint64_t rounds = 0;
  std::vector<std::string> log;
};

class Nodes {
 public:
  explicit Nodes(std::uint64_t seed, const std::set<std::string>& plan = {kChiefNode, "a", "b"},
                 const std::string& missing = {})
      : wire(seed) {
    for (const std::string& name : plan) {
      if (name != missing) nodes.push_back(std::make_unique<TestNode>(wire, name, plan));
    }
  }

  /// In each round every node says something to each other one, on two lanes.
  static void speak(TestNode& from, const std::vector<std::unique_ptr<TestNode>>& all) {
    for (const auto& to : all) {
      if (to->name == from.name || from.rounds == 0) continue;
      for (std::uint64_t i = 0; i < 2; ++i) {
        Control control;
        control.number = 100 * from.rounds + i;
        from.step.send(to->name, control);
        from.step.send(to->name, CreditMessage{.credits = static_cast<std::uint32_t>(100 * from.rounds + i)});
      }
    }
  }

  void run(std::uint64_t rounds) {
    for (int i = 0; i < 100000; ++i) {
      bool behind = false;
      for (const auto& node : nodes) {
        if (node->rounds == rounds) continue;
        behind = true;
        if (!wire.chance()) continue;
        const auto begun = node->step.next_round(Duration::zero());
        ASSERT_TRUE(begun.ok()) << begun.error().message;
        if (!*begun) continue;
        ++node->rounds;
        speak(*node, nodes);
      }
      if (!behind) return;
      if (wire.chance()) wire.step();
    }
    FAIL() << "the nodes do not get on";
  }

  Wire wire;
  std::vector<std::unique_ptr<TestNode>> nodes;
};

TEST(Lockstep, WhatComesIsTheSameHoweverTheWireIsInAHurry) {
  Nodes first(1);
  first.run(20);
  const std::vector<std::string>& log = first.nodes[0]->log;  // of a
  ASSERT_GT(log.size(), 100U);
  EXPECT_EQ(log[0], "0: found chief");
  // Of the first round between it and the second, by name, the lanes in one order.
  const std::vector<std::string> after_first(log.begin() + 1, log.begin() + 9);
  EXPECT_THAT(after_first, ::testing::ElementsAre("1: b says 100", "1: b says 101", "1: b gives 100", "1: b gives 101",
                                                  "1: chief says 100", "1: chief says 101", "1: chief gives 100",
                                                  "1: chief gives 101"));
  for (std::uint64_t seed = 2; seed < 12; ++seed) {
    Nodes other(seed);
    other.run(20);
    for (std::size_t i = 0; i < other.nodes.size(); ++i) EXPECT_EQ(other.nodes[i]->log, first.nodes[i]->log) << seed;
  }
}

TEST(Lockstep, NothingBeginsBeforeAllAreThere) {
  Nodes all(3, {kChiefNode, "a", "b"}, "b");
  Lockstep& chief = all.nodes[1]->step;
  for (int i = 0; i < 100; ++i) {
    (void)all.wire.step();
    EXPECT_FALSE(chief.next_round(Duration::zero()).value());
    EXPECT_TRUE(all.nodes[0]->step.next_round(Duration::zero()).ok());
  }
}

TEST(Lockstep, ALostNodeEndsTheRun) {
  Nodes all(4);
  all.run(3);
  all.wire.lose(kChiefNode, "b");
  const auto begun = all.nodes[2]->step.next_round(Duration::zero());
  ASSERT_FALSE(begun.ok());
  EXPECT_THAT(begun.error().message, HasSubstr("TRP-E125 node b is lost in round 3: a deterministic run ends with it"));
}

TEST(Lockstep, NobodyElseMayCome) {
  Nodes all(5, {kChiefNode, "a"});
  TestNode stranger(all.wire, "z", {});
  all.run(5);
  while (all.wire.step()) {
  }
  const auto begun = stranger.step.next_round(Duration::zero());
  ASSERT_FALSE(begun.ok());
  EXPECT_THAT(begun.error().message, HasSubstr("TRP-E163 node z is not part of this run"));
}

TEST(Lockstep, OnceReleasedNothingWaits) {
  Nodes all(6);
  all.run(2);
  all.nodes[2]->step.release();
  while (all.wire.step()) {
  }
  for (const auto& node : all.nodes) {
    EXPECT_TRUE(node->step.released());
    EXPECT_FALSE(node->step.next_round(Duration::zero()).value());
    const std::size_t before = node->log.size();
    node->step.drain();  // what was said in the second round, and not what was given
    EXPECT_EQ(node->log.size(), before + 4);
  }
  all.wire.lose(kChiefNode, "b");
  EXPECT_TRUE(all.nodes[2]->step.next_round(Duration::zero()).ok());
}

}  // namespace
}  // namespace troupe::actors
