// NodeNetworks over loopback without anything above them: who is let in, who is told what, and that no peer, slow,
// silent, stopped or hostile, is felt by another.
#include <troupe/actors/network/node_network.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <future>
#include <mutex>
#include <numeric>
#include <thread>

#include <troupe/actors/network/authorization.hpp>
#include <troupe/actors/network/detail/wire_head.hpp>
#include <troupe/messages/parameters.hpp>
#include <troupe/messages/reports.hpp>
#include <troupe/tests/transport/eventually.hpp>
#include <troupe/transport/authority.hpp>
#include <troupe/transport/dial.hpp>
#include <troupe/transport/join.hpp>
#include <troupe/transport/shared_memory.hpp>
#include <troupe/transport/stream.hpp>

namespace troupe::actors {
namespace {

using namespace std::chrono_literals;
using messages::Control;
using messages::ControlKind;
using ::testing::HasSubstr;
using transport::Address;
using transport::Identity;
using transport::Link;
using troupe::testing::eventually;

constexpr auto kPatience = 20s;  // of what must come
constexpr auto kPromptly = 2s;   // of what must not wait for somebody else; alone it takes milliseconds

Control order(ControlKind kind, std::uint64_t number = 0) {
  Control control;
  control.kind = kind;
  control.number = number;
  return control;
}

/// What a node has heard.
class Ears {
 public:
  NetworkEvents events() {
    NetworkEvents events;
    events.received = [this](const std::string& from, RemoteMessage message) {
      std::unique_lock lock(mutex_);
      const bool blocks = blocked_ && std::holds_alternative<FrameMessage>(message);
      messages_.emplace_back(from, std::move(message));
      changed_.notify_all();
      if (blocks) changed_.wait(lock, [&] { return !blocked_; });
    };
    events.found = [this](const std::string& node, std::uint64_t) { add(found_, node); };
    events.lost = [this](const std::string& node, std::uint64_t) { add(lost_, node); };
    return events;
  }
  ~Ears() { block(false); }

  /// As a process that is stopped: once a frame has come, its lane is not read any more.
  void block(bool blocked) {
    const std::lock_guard lock(mutex_);
    blocked_ = blocked;
    changed_.notify_all();
  }
  void forget() {
    const std::lock_guard lock(mutex_);
    messages_.clear();
  }
  std::size_t found(const std::string& node) const { return count(found_, node); }
  std::size_t lost(const std::string& node) const { return count(lost_, node); }
  template <typename T>
  std::vector<T> all(const std::string& from) const {
    const std::lock_guard lock(mutex_);
    std::vector<T> some;
    for (const auto& [who, message] : messages_) {
      if (const T* one = std::get_if<T>(&message); one != nullptr && who == from) some.push_back(*one);
    }
    return some;
  }
  /// Versions of the frames that came.
  std::vector<std::int64_t> versions(const std::string& from) const {
    std::vector<std::int64_t> versions;
    for (const auto& message : all<FrameMessage>(from)) {
      if (messages::type_name(message.frame) == "Parameters") {
        versions.push_back(messages::read_parameters(message.frame)->info().version);
      } else {
        versions.push_back(messages::read_parameters_use(message.frame)->version);
      }
    }
    return versions;
  }

 private:
  void add(std::vector<std::string>& list, const std::string& node) {
    const std::lock_guard lock(mutex_);
    list.push_back(node);
  }
  std::size_t count(const std::vector<std::string>& list, const std::string& node) const {
    const std::lock_guard lock(mutex_);
    return static_cast<std::size_t>(std::ranges::count(list, node));
  }
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  bool blocked_ = false;
  std::vector<std::pair<std::string, RemoteMessage>> messages_;
  std::vector<std::string> found_, lost_;
};

/// A node of the test: what it has heard outlives its network.
struct Node {
  Ears ears;
  std::unique_ptr<NodeNetwork> network;
  ~Node() {
    ears.block(false);
    network.reset();
  }
  messages::ControlNode as(const std::string& name, std::uint32_t incarnation) const {
    return {name, incarnation, network->address().host, network->address().port};
  }
};

class Lanes : public ::testing::Test {
 protected:
  Lanes() : authority(transport::Authority::create("test", std::chrono::system_clock::now()).value()) {
    RoleSpec actor, store;
    actor.name = "actor";
    actor.outlets = {{"use", "ParametersUse"}, {"large", "Parameters"}};
    store.name = "store";
    store.inlets = {{"use", "ParametersUse"}, {"large", "Parameters"}};
    plan.roles = {actor, store};
    plan.channels = {{"actor", "use", "store", "use", 8}, {"actor", "large", "store", "large", 8}};
  }

  transport::Credentials credentials(const Identity& identity) {
    return authority.issue(identity, std::chrono::system_clock::now(), std::chrono::hours(1)).value();
  }
  std::unique_ptr<Node> node(const std::string& name, const std::vector<std::string>& roles,
                             std::optional<Address> chief = {}, std::uint64_t birth = 0, std::uint16_t port = 0) {
    auto made = std::make_unique<Node>();
    const Identity identity{"test", roles, name};
    NodeNetworkOptions options;
    options.self = identity;
    options.credentials = credentials(identity);
    options.listen = {"127.0.0.1", port};
    options.chief = std::move(chief);
    options.topology = &plan;
    made->network = NodeNetwork::make(std::move(options)).value();
    made->network->start(birth, made->ears.events());
    return made;
  }
  std::unique_ptr<Node> chief() { return node("chief", {"chief", "store"}); }

  RemoteMessage use(std::int64_t number) {
    return FrameMessage{{{0, 0, 0}, 1, 1}, messages::make_parameters_use(pool, {0, number, 1}).value()};
  }
  RemoteMessage large(std::int64_t number) { return large(number, pool); }
  static RemoteMessage large(std::int64_t number, messages::FramePool& from) {
    auto builder = messages::ParametersBuilder::make(from, DType::kF32, 1 << 18).value();
    std::memset(builder.data().data(), static_cast<int>(number), builder.data().size());
    return FrameMessage{{{1, 0, 0}, 1, 1}, std::move(builder).finish({number, 1, 1, DType::kF32})};
  }

  /// A link of a hostile node, which does as it likes from here on.
  std::unique_ptr<Link> link(const Identity& who, const Address& where) {
    const int socket = transport::dial(where, 5s).value();
    transport::LinkOptions options;
    options.admit = [](const Identity&) -> Status { return {}; };
    return Link::open(socket, credentials(who), options).value();
  }
  /// A stream of a hostile node.
  std::unique_ptr<transport::StreamSender> stream(const Identity& who, const Address& where, const std::string& lane) {
    transport::StreamSenderOptions options;
    options.name = lane;
    options.connect = [this, who, where](std::stop_token token) -> Result<std::unique_ptr<Link>> {
      TROUPE_ASSIGN(const int socket, transport::dial(where, 5s, token));
      transport::LinkOptions link;
      link.admit = [](const Identity&) -> Status { return {}; };
      return Link::open(socket, credentials(who), link);
    };
    return transport::StreamSender::make(std::move(options)).value();
  }

  transport::Authority authority;
  Topology plan;
  messages::FramePool pool;
};

TEST_F(Lanes, PeersThatSayNothingDelayNobody) {
  const auto leader = chief();
  std::vector<std::unique_ptr<Link>> mute;
  for (int i = 0; i < 20; ++i) {
    mute.push_back(link({"test", {"actor"}, "mute-" + std::to_string(i)}, leader->network->address()));
  }
  const auto good = node("good", {"actor"}, leader->network->address());
  EXPECT_TRUE(eventually([&] { return good->ears.found("chief") == 1; }, kPromptly));
}

TEST_F(Lanes, FramesTakeSharedMemoryOnOneHostAndArriveInOrderWithTheOthers) {
  const auto leader = chief();
  const auto worker = node("worker", {"actor"}, leader->network->address());
  worker->network->know({leader->as("chief", 1)});
  std::vector<std::int64_t> expected;
  // The memory is offered on the first connection; until it has been taken up, frames go over the link.
  const bool shared = eventually(
      [&] {
        const auto number = static_cast<std::int64_t>(expected.size());
        worker->network->send("chief", number % 2 == 0 ? large(number) : use(number));
        expected.push_back(number);
        std::this_thread::sleep_for(5ms);
        return worker->network->shared() >= 10;
      },
      kPatience);
  EXPECT_TRUE(shared);
  EXPECT_TRUE(eventually([&] { return leader->ears.versions("worker").size() == expected.size(); }, kPatience));
  EXPECT_EQ(leader->ears.versions("worker"), expected);
  EXPECT_TRUE(leader->network->refused().empty());
}

TEST_F(Lanes, FallingBackFromSharedMemoryIsSaidOnceAndKeptForTheStatus) {
  const auto leader = chief();
  // Nodes of other containers of this machine, of another machine, and one whose socket is not to be seen.
  const std::string here = transport::host_identity().value();
  const auto offer_from = [&](const std::string& name, const std::string& host) {
    auto lane = stream({"test", {"actor"}, name}, leader->network->address(), "bulk");
    auto body = std::make_shared<std::string>(pack_offer({host, "/tmp/troupe-none/socket", std::string(64, 's')}));
    for (int i = 0; i < 3; ++i) {  // at each reconnection
      transport::StreamMessage message;
      message.head = offer_head();
      message.body = std::as_bytes(std::span(*body));
      message.owner = body;
      EXPECT_TRUE(lane->send(std::move(message)).ok());
    }
    EXPECT_TRUE(eventually([&] { return lane->stats().messages == 0; }, kPatience)) << name;
  };
  EXPECT_TRUE(leader->network->trouble().empty());
  offer_from("apart", here.substr(0, here.find("/pid")) + "/pid1/mnt1");
  offer_from("elsewhere", "another-boot/net1/pid1/mnt1");
  offer_from("unseen", here);
  const auto trouble = leader->network->trouble();
  ASSERT_EQ(trouble.size(), 2u) << "another machine is no fall-back";
  EXPECT_THAT(trouble[0],
              HasSubstr("TRP-W180 large frames of node apart go over TLS: shared memory: the peer is on this "
                        "machine, but in namespaces of its own"));
  EXPECT_THAT(trouble[1], HasSubstr("TRP-W180 large frames of node unseen go over TLS: shared memory: no folder"));
}

TEST_F(Lanes, FramesInItsMemoryStayAsLongAsOthersReadThemAndAreUsedAgainThen) {
  const auto leader = chief();
  const auto worker = node("worker", {"actor"}, leader->network->address());
  messages::FramePool own({.memory = worker->network->frame_memory()});
  worker->network->know({leader->as("chief", 1)});
  std::int64_t sent = 0;
  const auto send = [&] { worker->network->send("chief", large(sent++, own)); };
  const auto arrived = [&] { return std::ssize(leader->ears.versions("worker")) == sent; };
  ASSERT_TRUE(eventually(
      [&] {
        send();
        std::this_thread::sleep_for(5ms);
        return worker->network->shared() > 0;
      },
      kPatience));
  ASSERT_TRUE(eventually(arrived, kPatience));
  leader->ears.forget();
  sent = 0;
  EXPECT_TRUE(eventually([&] { return own.stats().in_use_bytes == 0; }, kPatience)) << "also when nothing follows";
  constexpr std::int64_t kFrames = 3;
  while (sent < kFrames) send();
  ASSERT_TRUE(eventually(arrived, kPatience));
  const std::size_t lent = own.stats().in_use_bytes;
  EXPECT_GE(lent, kFrames << 20);
  worker->network->know({});  // to those who are gone nothing is lent any more, but they may be reading
  worker->network->know({leader->as("chief", 2)});
  std::this_thread::sleep_for(200ms);
  EXPECT_EQ(own.stats().in_use_bytes, lent);
  { const RemoteMessage others[] = {large(7, own), large(8, own), large(9, own)}; }
  for (std::int64_t i = 0; const FrameMessage& message : leader->ears.all<FrameMessage>("worker")) {
    const auto parameters = messages::read_parameters(message.frame).value();
    EXPECT_TRUE(std::ranges::all_of(parameters.data(), [&](std::byte value) { return value == std::byte(i); })) << i;
    ++i;
  }
  leader->ears.forget();
  EXPECT_TRUE(eventually([&] { return own.stats().in_use_bytes == 0; }, kPatience));
}

TEST_F(Lanes, APeerThatStopsReadingHoldsUpNobodyElseAndMissesNothing) {
  const auto leader = chief();
  // The chief's store sends credits and orders; here it is the source of frames too, for which it has to be an actor.
  const auto source = node("source", {"actor"}, leader->network->address());
  const auto stuck = node("stuck", {"store"}, leader->network->address());
  const auto quick = node("quick", {"store"}, leader->network->address());
  source->network->know({stuck->as("stuck", 1), quick->as("quick", 1)});
  stuck->ears.block(true);
  constexpr std::int64_t kFrames = 150;  // of 1 MiB: more than all the buffers on the way
  for (std::int64_t i = 0; i < kFrames; ++i) source->network->send("stuck", large(i));
  ASSERT_TRUE(eventually([&] { return stuck->ears.versions("source").size() == 1; }, kPatience));
  for (std::int64_t i = 0; i < 20; ++i) {
    source->network->send("quick", use(i));
    const auto begin = std::chrono::steady_clock::now();
    ASSERT_TRUE(eventually([&] { return quick->ears.versions("source").size() == static_cast<std::size_t>(i) + 1; },
                           kPatience));
    EXPECT_LT(std::chrono::steady_clock::now() - begin, kPromptly);
  }
  source->network->send("stuck",
                        CreditMessage{{{0, 0, 0}, 1, 1}, 1, 0});  // an actor may not: but the lane must carry it
  EXPECT_TRUE(eventually([&] { return stuck->network->refused()["TRP-S711"] == 1; }, kPromptly))
      << "credits do not wait behind frames";
  EXPECT_EQ(stuck->ears.versions("source").size(), 1u) << "it was stopped all the time";
  stuck->ears.block(false);
  ASSERT_TRUE(eventually([&] { return stuck->ears.versions("source").size() == kFrames; }, kPatience));
  std::vector<std::int64_t> expected(kFrames);
  std::iota(expected.begin(), expected.end(), 0);
  EXPECT_EQ(stuck->ears.versions("source"), expected);
}

TEST_F(Lanes, ANodeThatComesBackOnAnotherPortGetsWhatIsForItAndNothingOlder) {
  const auto source = node("chief", {"chief", "actor"});
  auto worker = node("worker", {"store"}, source->network->address());
  source->network->know({worker->as("worker", 1)});
  source->network->send("worker", use(1));
  ASSERT_TRUE(eventually([&] { return worker->ears.versions("chief").size() == 1; }, kPatience));
  worker.reset();
  source->network->send("worker", use(2));  // for a process that is gone
  worker = node("worker", {"store"}, source->network->address());
  source->network->know({worker->as("worker", 2)});
  source->network->send("worker", use(3));
  ASSERT_TRUE(eventually([&] { return !worker->ears.versions("chief").empty(); }, kPatience));
  EXPECT_EQ(worker->ears.versions("chief"), std::vector<std::int64_t>{3});
  source->network->know({});
  source->network->send("worker", use(4));
  source->network->know({worker->as("worker", 3)});
  source->network->send("worker", use(5));
  ASSERT_TRUE(eventually([&] { return worker->ears.versions("chief").size() == 2; }, kPatience));
  EXPECT_EQ(worker->ears.versions("chief").back(), 5) << "to a node that is not in the list nothing is sent";
}

// A name may lead to two hosts while one of them is lost: the process that waits there must confirm nothing.
TEST_F(Lanes, FramesWaitForTheProcessThatTheyAreFor) {
  const auto source = node("chief", {"chief", "actor"});
  const Address chief = source->network->address();
  auto other = node("worker", {"store"}, chief, 2);
  const std::uint16_t port = other->network->address().port;
  source->network->know({{"worker", 1, "127.0.0.1", port, 1}});
  source->network->send("worker", use(1));
  std::this_thread::sleep_for(300ms);  // a lane confirms what has come after 20 ms
  EXPECT_TRUE(other->ears.versions("chief").empty());
  other.reset();
  const auto meant = node("worker", {"store"}, chief, 1, port);
  source->network->send("worker", use(2));
  ASSERT_TRUE(eventually([&] { return std::ranges::count(meant->ears.versions("chief"), 2) == 1; }, kPatience));
  EXPECT_EQ(meant->ears.versions("chief"), (std::vector<std::int64_t>{1, 2}));
}

TEST_F(Lanes, ANodeThatDiesIsLostAtOnceAndAnotherProcessOfItMayCome) {
  const auto leader = chief();
  auto worker = node("worker", {"actor"}, leader->network->address());
  Control join = order(ControlKind::kJoin);
  join.birth = 1;
  join.nodes = {worker->as("worker", 0)};
  worker->network->send("chief", join);
  ASSERT_TRUE(eventually([&] { return leader->ears.all<Control>("worker").size() == 1; }, kPatience));
  leader->network->send("worker", order(ControlKind::kWelcome));
  ASSERT_TRUE(eventually([&] { return leader->ears.found("worker") == 1; }, kPatience));
  worker.reset();
  EXPECT_TRUE(eventually([&] { return leader->ears.lost("worker") == 1; }, kPromptly));
  worker = node("worker", {"actor"}, leader->network->address());
  EXPECT_TRUE(eventually([&] { return worker->ears.found("chief") == 1; }, kPromptly)) << "nobody has the name";
}

TEST_F(Lanes, TheNameOfANodeThatLivesIsNobodyElses) {
  const auto leader = chief();
  auto first = node("worker", {"actor"}, leader->network->address());
  std::atomic<bool> silent = false;
  std::jthread heart([&](const std::stop_token& stop) {
    for (std::uint64_t beat = 1; !stop.stop_requested(); ++beat) {
      if (!silent) first->network->send("chief", order(ControlKind::kAlive, beat));
      std::this_thread::sleep_for(50ms);
    }
  });
  ASSERT_TRUE(eventually([&] { return leader->ears.all<Control>("worker").size() > 2; }, kPatience));
  leader->network->know({{"worker", 3, "10.0.0.2", 7000}});
  ::testing::internal::CaptureStderr();
  const auto second = node("worker", {"actor"}, leader->network->address());
  EXPECT_TRUE(eventually([&] { return second->ears.lost("chief") > 0; }, kPatience));
  EXPECT_TRUE(eventually([&] { return leader->network->refused()["TRP-E161"] >= 3; }, kPatience)) << "it asks again";
  EXPECT_EQ(second->ears.found("chief"), 0u);
  const std::size_t before = leader->ears.all<Control>("worker").size();
  EXPECT_TRUE(eventually([&] { return leader->ears.all<Control>("worker").size() > before + 5; }, kPatience))
      << "the first goes on";
  const auto beats = leader->ears.all<Control>("worker");
  for (std::size_t i = 1; i < beats.size(); ++i) EXPECT_EQ(beats[i].number, beats[i - 1].number + 1);
  EXPECT_THAT(::testing::internal::GetCapturedStderr(),
              HasSubstr("TRP-E161 node id worker is already in use by 10.0.0.2:7000 (incarnation 3)"));

  silent = true;  // a second of silence, and it is dead: its name is free
  EXPECT_TRUE(eventually([&] { return second->ears.found("chief") == 1; }, kPatience));
  EXPECT_TRUE(eventually(
      [&] {
        second->network->send("chief", order(ControlKind::kAlive));
        return !first->ears.all<Control>("chief").empty();
      },
      kPatience))
      << "the first is told to end while the second lives";
  EXPECT_EQ(second->ears.lost("chief"), 1u) << "only when it was refused";
  const Control fenced = first->ears.all<Control>("chief").front();
  EXPECT_EQ(fenced.kind, ControlKind::kRefuse);
  EXPECT_TRUE(fenced.fenced);
  EXPECT_EQ(fenced.code, Code::kCancelled);
  EXPECT_THAT(fenced.text, HasSubstr("TRP-F111"));
}

TEST_F(Lanes, WhoANodeIsComesFromItsCertificate) {
  const auto leader = chief();
  const auto worker = node("worker", {"actor"}, leader->network->address());
  Control join = order(ControlKind::kJoin);
  join.node = "chief";
  join.texts = {"store", "chief"};
  join.nodes = {{"learner", 9, "127.0.0.1", worker->network->address().port}};
  worker->network->send("chief", join);
  ASSERT_TRUE(eventually([&] { return leader->ears.all<Control>("worker").size() == 1; }, kPatience));
  const Control heard = leader->ears.all<Control>("worker").front();
  EXPECT_EQ(heard.node, "worker");
  EXPECT_EQ(heard.texts, std::vector<std::string>{"actor"});
  EXPECT_EQ(heard.nodes.front().name, "worker");
}

TEST_F(Lanes, WhatARoleMayNotSendIsDroppedAndCountedAndTheConnectionStays) {
  const auto leader = chief();
  const auto worker = node("worker", {"actor"}, leader->network->address());
  worker->network->know({leader->as("chief", 1)});
  worker->network->send("chief", use(1));
  worker->network->send("chief", FrameMessage{{{0, 0, 0}, 1, 1}, std::get<FrameMessage>(large(1)).frame});
  worker->network->send("chief", order(ControlKind::kSpawn));
  worker->network->send("chief", CreditMessage{{{0, 0, 0}, 1, 1}, 1, 0});
  worker->network->send("chief", AnswerMessage{{{0, 0, 0}, 1, 1}, 1, Error{Code::kIo, "x"}, {}});
  worker->network->send("chief", use(2));
  worker->network->send("chief", order(ControlKind::kAlive));
  ASSERT_TRUE(eventually(
      [&] {
        return leader->ears.versions("worker").size() == 2 && leader->ears.all<Control>("worker").size() == 1 &&
               leader->network->refused()["TRP-S711"] + leader->network->refused()["TRP-S705"] == 4;
      },
      kPatience));
  EXPECT_EQ(leader->ears.versions("worker"), (std::vector<std::int64_t>{1, 2}));
  EXPECT_EQ(leader->network->refused()["TRP-S705"], 1u) << "an order to spawn that names no instance";
  EXPECT_EQ(leader->ears.lost("worker") + worker->ears.lost("chief"), 0u);
}

TEST_F(Lanes, MessagesOfAGroupTravelWithWhatIsLentToThem) {
  plan.roles[0].group = true;
  const auto leader = chief();
  const auto one = node("one", {"actor"}, leader->network->address());
  const auto two = node("two", {"actor"}, leader->network->address());
  one->network->know({two->as("two", 1)});
  two->network->know({one->as("one", 1)});
  std::vector<std::byte> values(300'000);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<std::byte>(i % 251);
  auto head = pool.allocate(32).value();
  std::ranges::fill(head.bytes(), std::byte{7});
  const auto lent = std::make_shared<LentBytes>(values);
  one->network->send("two", GroupMessage{0, 0, 1, std::move(head).freeze(32), lent});
  ASSERT_TRUE(eventually([&] { return two->ears.all<GroupMessage>("one").size() == 1; }, kPatience));
  const GroupMessage message = two->ears.all<GroupMessage>("one").front();
  EXPECT_EQ(message.lent, nullptr);
  const std::span<const std::byte> bytes = message.frame.bytes();
  ASSERT_EQ(bytes.size(), 300'032u);
  EXPECT_TRUE(std::ranges::all_of(bytes.first(32), [](std::byte byte) { return byte == std::byte{7}; }));
  EXPECT_TRUE(std::ranges::equal(bytes.subspan(32), values));
}

TEST_F(Lanes, WhoSendsOnlyNonsenseIsShutOutAndNobodyElseNotices) {
  const auto leader = chief();
  const auto good = node("good", {"actor"}, leader->network->address());
  good->network->know({leader->as("chief", 1)});
  const auto bad = stream({"test", {"actor"}, "bad"}, leader->network->address(), "bulk");
  transport::StreamMessage nonsense;
  nonsense.head.fill(std::byte{99});
  nonsense.head[1] = std::byte{0};  // no reference
  for (int i = 0; i < 300; ++i) ASSERT_TRUE(bad->send(nonsense).ok());
  EXPECT_TRUE(eventually([&] { return leader->network->refused()["TRP-S715"] > 0; }, kPatience)) << "it came again";
  EXPECT_EQ(leader->network->refused()["TRP-S705"], 100u);
  EXPECT_TRUE(
      eventually([&] { return bad->stats().last_error.starts_with("TRP-S715 node bad is shut out"); }, kPatience));
  good->network->send("chief", use(1));
  EXPECT_TRUE(eventually([&] { return leader->ears.versions("good").size() == 1; }, kPromptly));
}

TEST_F(Lanes, MessagesOnTheWrongLaneAreRefused) {
  const auto leader = chief();
  const auto bad = stream({"test", {"actor"}, "bad"}, leader->network->address(), "urgent");
  transport::StreamMessage marker;
  marker.head[0] = std::byte{5};
  ASSERT_TRUE(bad->send(marker).ok());
  EXPECT_TRUE(eventually([&] { return leader->network->refused()["TRP-S705"] == 1; }, kPatience));
  const auto other = stream({"test", {"actor"}, "bad"}, leader->network->address(), "nonsense");
  EXPECT_TRUE(eventually([&] { return leader->network->refused()["TRP-S711"] > 0; }, kPatience));
}

TEST_F(Lanes, HostileBytesAfterTheHandshakeEndTheirLinkOnly) {
  const auto leader = chief();
  const auto good = node("good", {"actor"}, leader->network->address());
  good->network->know({leader->as("chief", 1)});
  const Identity bad{"test", {"actor"}, "bad"};
  std::vector<std::byte> bytes(32, std::byte{0x41});
  for (const auto kind : {transport::FrameKind::kData, transport::FrameKind::kControl}) {
    const auto first = link(bad, leader->network->address());  // instead of a hello
    ASSERT_TRUE(first->send(kind, bytes, 5s).ok());
    EXPECT_EQ(first->receive(5s).error().code, Code::kUnavailable);
    const auto second = link(bad, leader->network->address());  // behind it
    ASSERT_TRUE(transport::send_hello(*second, {{std::byte{1}}, 1, "bulk"}, 5s).ok());
    ASSERT_TRUE(second->receive(5s).ok());
    ASSERT_TRUE(second->send(kind, bytes, 5s).ok());
    EXPECT_EQ(second->receive(5s).error().code, Code::kUnavailable);
  }
  good->network->send("chief", use(1));
  EXPECT_TRUE(eventually([&] { return leader->ears.versions("good").size() == 1; }, kPromptly));
}

TEST_F(Lanes, StrangersToTheirPartAreTurnedAway) {
  const auto leader = chief();
  const auto worker = node("worker", {"actor"}, leader->network->address());
  const auto ask = [&](const Identity& who, const Address& where, ControlKind kind) {
    return ask_chief(where, who, credentials(who), order(kind), 5s).error().code;
  };
  const Identity asks{"test", {"operator"}, "operator"};
  const Address where = leader->network->address();
  EXPECT_EQ(ask({"test", {"actor"}, "env"}, where, ControlKind::kAskStatus), Code::kUnavailable) << "no operator";
  EXPECT_EQ(ask(asks, where, ControlKind::kSpawn), Code::kUnavailable) << "operators only ask";
  EXPECT_EQ(ask(asks, worker->network->address(), ControlKind::kAskStatus), Code::kInvalidArgument) << "not the chief";
  const auto lanes = stream(asks, where, "control");
  EXPECT_TRUE(eventually([&] { return leader->network->refused()["TRP-S711"] >= 2; }, kPatience))
      << "operators have no lanes";
  const auto bearer = link({"test", {"join"}, "new"}, worker->network->address());
  EXPECT_EQ(bearer->receive(5s).error().code, Code::kUnavailable) << "tokens are for the chief";
}

TEST_F(Lanes, EndingTakesAMomentWhateverIsUnderWay) {
  const auto leader = chief();
  const auto worker = node("worker", {"actor"}, leader->network->address());
  worker->network->know({leader->as("chief", 1), {"gone", 1, "127.0.0.1", 1}, {"mute", 1, "192.0.2.1", 7000}});
  std::jthread talk([&](const std::stop_token& stop) {
    for (std::int64_t i = 0; !stop.stop_requested() && i < 3000; ++i) {
      for (const char* to : {"chief", "gone", "mute"}) worker->network->send(to, use(i));
      std::this_thread::yield();
    }
  });
  ASSERT_TRUE(eventually([&] { return leader->ears.versions("worker").size() > 100; }, kPatience));
  const auto begin = std::chrono::steady_clock::now();
  worker->network->stop();
  EXPECT_LT(std::chrono::steady_clock::now() - begin, kPromptly);
  worker->network->send("chief", use(0));  // nothing, and no harm
  worker->network->know({leader->as("chief", 1)});
  worker->network->stop();
}

}  // namespace
}  // namespace troupe::actors
