// The two ends of a channel, without actors: what one sends is put into the other by hand, so that every order of
// events can be tried.
#include <troupe/actors/runtime/ports.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include <troupe/tests/actors/test_roles.hpp>

namespace troupe::actors {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using testing::number_of;

/// An instance as its ports see it: what they send is kept here.
struct Instance {
  explicit Instance(std::uint32_t incarnation = 0) {
    sender.incarnation = incarnation;
    sender.frame = [this](const Address&, FrameMessage message) { frames.push_back(std::move(message)); };
    sender.credit = [this](const Address&, CreditMessage message) { credits.push_back(message); };
    sender.call = [this](const Address&, CallMessage message) { calls.push_back(std::move(message)); };
    sender.answer = [this](const Address&, AnswerMessage message) { answers.push_back(std::move(message)); };
    sender.now = [this] { return now; };
    sender.expire_at = [this](Duration at) { expires = at; };
  }
  Frame frame(std::int64_t number) { return testing::number_frame(pool, number); }

  messages::FramePool pool;
  PortSender sender;
  std::vector<FrameMessage> frames;
  std::vector<CreditMessage> credits;
  std::vector<CallMessage> calls;
  std::vector<AnswerMessage> answers;
  Duration now{};
  Duration expires{};
};

constexpr EdgeId kEdge{0, 0, 0};

Peer consumer(std::uint32_t incarnation, EdgeId edge = kEdge) { return {edge, false, incarnation, {}}; }
Peer producer(std::uint32_t incarnation, EdgeId edge = kEdge) { return {edge, true, incarnation, {}}; }

template <typename T>
std::vector<T> taken_out(std::vector<T>& from) {
  return std::exchange(from, {});
}

std::vector<std::int64_t> numbers(std::vector<FrameMessage>& from) {
  std::vector<std::int64_t> numbers;
  for (const FrameMessage& message : taken_out(from)) numbers.push_back(number_of(message.frame));
  return numbers;
}

/// A channel of one producer and one consumer, each of which may be replaced by its next incarnation.
class Channel {
 public:
  explicit Channel(ChannelKind kind = ChannelKind::kStream, std::int64_t capacity = 3)
      : spec_{"numbers", "Number", kind}, capacity_(capacity) {
    new_producer();
    new_consumer();
    meet();
  }

  void new_producer() {
    from = std::make_unique<Instance>(producers_++);
    out = std::make_unique<OutletPort>(spec_, from->sender);
    out->expect(kEdge);
  }
  void new_consumer() {
    to = std::make_unique<Instance>(consumers_++);
    in = std::make_unique<InletPort>(spec_, to->sender);
  }
  void wire_consumer() { in->wire(producer(from->sender.incarnation), capacity_); }
  void wire_producer() { out->wire(consumer(to->sender.incarnation)); }
  void meet() {
    wire_consumer();
    wire_producer();
    settle();
  }
  /// Carries everything to the other end until nothing more is sent.
  void settle() {
    while (!from->frames.empty() || !to->credits.empty()) {
      for (FrameMessage& message : taken_out(from->frames)) in->receive(std::move(message));
      for (const CreditMessage& message : taken_out(to->credits)) out->credit(message);
    }
  }
  void send(std::int64_t number) { out->send(from->frame(number)); }
  std::int64_t take() { return number_of(in->take()); }
  std::vector<std::int64_t> take_all() {
    std::vector<std::int64_t> all;
    for (settle(); !in->empty(); settle()) all.push_back(take());
    return all;
  }

  std::unique_ptr<Instance> from, to;
  std::unique_ptr<OutletPort> out;
  std::unique_ptr<InletPort> in;

 private:
  Port spec_;
  std::int64_t capacity_;
  std::uint32_t producers_ = 0, consumers_ = 0;
};

// ---- credits ----

TEST(Ports, AProducerHasRoomForAsManyFramesAsTheCapacity) {
  Channel channel;
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(channel.out->ready());
    channel.send(i);
  }
  EXPECT_FALSE(channel.out->ready());
  channel.settle();
  EXPECT_FALSE(channel.out->ready()) << "nothing was taken";
  EXPECT_EQ(channel.take(), 0);
  channel.settle();
  EXPECT_TRUE(channel.out->ready());
  channel.send(3);
  EXPECT_FALSE(channel.out->ready());
  EXPECT_THAT(channel.take_all(), ElementsAre(1, 2, 3));
}

TEST(Ports, TheFirstGrantMayComeBeforeTheProducerKnowsTheConsumer) {
  Channel channel;
  channel.new_producer();
  channel.wire_consumer();
  channel.settle();
  EXPECT_FALSE(channel.out->ready());
  channel.wire_producer();
  channel.send(0);
  channel.send(1);
  channel.send(2);
  EXPECT_FALSE(channel.out->ready());
  EXPECT_THAT(channel.take_all(), ElementsAre(0, 1, 2));
}

TEST(Ports, AGrantOfAConsumerThatNeverCameToBeWiredMeansNothing) {
  Channel channel;
  for (int i = 0; i < 50; ++i) {
    channel.new_consumer();
    channel.wire_consumer();
    channel.settle();  // its grant arrives, but it dies before the producer hears of it
  }
  channel.new_consumer();
  channel.meet();
  for (int i = 0; i < 3; ++i) channel.send(i);
  EXPECT_FALSE(channel.out->ready());
  EXPECT_THAT(channel.take_all(), ElementsAre(0, 1, 2));
}

TEST(Ports, AnOrderThatIsRepeatedChangesNothing) {
  Channel channel;
  channel.send(0);
  for (int i = 0; i < 3; ++i) channel.meet();
  channel.send(1);
  channel.send(2);
  EXPECT_FALSE(channel.out->ready()) << "a second grant";
  EXPECT_THAT(channel.take_all(), ElementsAre(0, 1, 2));
}

TEST(Ports, AnOrderOfThePastChangesNothing) {
  Channel channel;
  channel.new_consumer();
  channel.meet();
  channel.out->wire(consumer(0));
  channel.out->unwire(kEdge, 0);
  channel.in->unwire(kEdge, 0);
  channel.new_producer();
  channel.meet();
  channel.in->unwire(kEdge, 0);
  channel.send(0);
  EXPECT_THAT(channel.take_all(), ElementsAre(0));
}

TEST(Ports, AStreamServesConsumersInTurnAndSkipsThoseThatAreFullOrGone) {
  Instance from;
  OutletPort out({"numbers", "Number"}, from.sender);
  for (std::uint32_t c = 0; c < 3; ++c) {
    const EdgeId edge{0, 0, c};
    out.expect(edge);
    out.wire(consumer(5, edge));
    out.credit({{edge, 0, 5}, 2, 0});
  }
  out.unwire({0, 0, 1}, 5);
  std::vector<std::uint32_t> receivers;
  while (out.ready()) {
    out.send(from.frame(0));
    receivers.push_back(from.frames.back().route.edge.consumer);
  }
  EXPECT_THAT(receivers, ElementsAre(0, 2, 0, 2));
}

// ---- incarnations ----

TEST(Ports, ANewConsumerGetsWhatTheOneBeforeHadNotTakenFirstAndInOrder) {
  Channel channel;
  for (int i = 0; i < 3; ++i) channel.send(i);
  channel.settle();
  EXPECT_EQ(channel.take(), 0);
  channel.settle();
  channel.send(3);  // under way when the consumer dies
  channel.new_consumer();
  channel.out->unwire(kEdge, 0);
  EXPECT_FALSE(channel.out->ready());
  channel.meet();
  EXPECT_FALSE(channel.out->ready()) << "the kept frames take up its credits";
  EXPECT_THAT(channel.take_all(), ElementsAre(1, 2, 3));
  channel.send(4);
  EXPECT_THAT(channel.take_all(), ElementsAre(4));
}

TEST(Ports, WhatAConsumerHeldComesAgainAndWhatItReleasedDoesNot) {
  Channel channel;
  for (int i = 0; i < 3; ++i) channel.send(i);
  channel.settle();
  EXPECT_EQ(number_of(channel.in->take_held()), 0);
  channel.in->release_held(1);
  EXPECT_EQ(number_of(channel.in->take_held()), 1);
  channel.settle();
  channel.new_consumer();
  channel.meet();
  EXPECT_THAT(channel.take_all(), ElementsAre(1, 2));
}

TEST(Ports, HeldFramesTakeUpRoomUntilTheyAreReleased) {
  Channel channel;
  for (int i = 0; i < 3; ++i) channel.send(i);
  channel.settle();
  for (int i = 0; i < 3; ++i) EXPECT_EQ(number_of(channel.in->take_held()), i);
  channel.settle();
  EXPECT_FALSE(channel.out->ready());
  channel.in->release_held(2);
  channel.settle();
  EXPECT_TRUE(channel.out->ready());
  channel.in->release_held(1);
  channel.settle();
  EXPECT_TRUE(channel.out->ready());
}

TEST(Ports, AConsumerThatDiesTwiceStillGetsEverythingOnce) {
  Channel channel;
  for (int i = 0; i < 3; ++i) channel.send(i);
  taken_out(channel.from->frames);  // they are lost with the first one
  for (int death = 0; death < 2; ++death) {
    channel.new_consumer();
    channel.wire_consumer();
    channel.wire_producer();
    // Its grant reaches the producer, the frames do not reach it any more.
    for (const CreditMessage& message : taken_out(channel.to->credits)) channel.out->credit(message);
    EXPECT_THAT(numbers(channel.from->frames), ElementsAre(0, 1, 2));
  }
  channel.new_consumer();
  channel.meet();
  EXPECT_THAT(channel.take_all(), ElementsAre(0, 1, 2));
}

TEST(Ports, CreditsOfADeadConsumerDoNotCount) {
  Channel channel;
  for (int i = 0; i < 3; ++i) channel.send(i);
  channel.settle();
  channel.take();
  const auto late = taken_out(channel.to->credits);
  channel.new_consumer();
  channel.meet();
  for (const CreditMessage& message : late) channel.out->credit(message);
  EXPECT_THAT(channel.take_all(), ElementsAre(0, 1, 2)) << "frame 0 is sent again: nobody knew that it was taken";
}

TEST(Ports, FramesForAnEarlierConsumerAreNotTakenByTheNext) {
  Channel channel;
  channel.send(0);
  FrameMessage stray = channel.from->frames.front();
  channel.new_consumer();
  channel.meet();
  EXPECT_FALSE(channel.in->receive(std::move(stray)));
  EXPECT_THAT(channel.take_all(), ElementsAre(0));
}

TEST(Ports, OnlyTheNewestProducerIsHeard) {
  Channel channel;
  channel.send(0);
  channel.settle();
  channel.send(1);
  FrameMessage zombie = taken_out(channel.from->frames).front();
  channel.new_producer();
  channel.meet();
  channel.send(10);
  channel.settle();
  EXPECT_FALSE(channel.in->receive(std::move(zombie)));
  EXPECT_THAT(channel.take_all(), ElementsAre(0, 10));
}

TEST(Ports, NobodyIsHeardOnceUnwired) {
  Channel channel;
  channel.send(0);
  channel.settle();
  channel.send(1);
  channel.in->unwire(kEdge, 0);
  EXPECT_FALSE(channel.in->receive(taken_out(channel.from->frames).front()));
  EXPECT_EQ(channel.take(), 0) << "what has come stays";
  EXPECT_THAT(channel.to->credits, IsEmpty());
}

TEST(Ports, AConsumerNeverHoldsMoreThanTheCapacityHoweverOftenItsProducerIsRestarted) {
  Channel channel;
  std::int64_t sent = 0, most = 0;
  for (int restarts = 0; restarts < 10; ++restarts) {
    while (channel.out->ready()) channel.send(sent++);
    channel.settle();
    most = std::max(most, channel.in->depth());
    channel.new_producer();
    channel.meet();
  }
  EXPECT_EQ(most, 3);
  EXPECT_THAT(channel.take_all(), ElementsAre(0, 1, 2));
  while (channel.out->ready()) channel.send(sent++);
  EXPECT_EQ(channel.take_all().size(), 3u) << "and the last one has all of its credits";
}

TEST(Ports, HeldFramesOfAnEarlierProducerTakeUpRoomToo) {
  Channel channel;
  for (int i = 0; i < 3; ++i) channel.send(i);
  channel.settle();
  channel.in->take_held();
  channel.in->take_held();
  channel.new_producer();
  channel.meet();
  EXPECT_FALSE(channel.out->ready());
  channel.in->release_held(2);
  channel.settle();
  channel.send(10);
  channel.send(11);
  EXPECT_FALSE(channel.out->ready());
  EXPECT_THAT(channel.take_all(), ElementsAre(2, 10, 11));
}

// ---- checkpoints ----

TEST(Ports, RestoredFramesTakeUpRoomAndAreTakenFirst) {
  Channel channel;
  channel.new_producer();
  channel.new_consumer();
  channel.in->restore(kEdge, channel.to->frame(100));
  channel.in->restore(kEdge, channel.to->frame(101));
  channel.meet();
  channel.send(0);
  EXPECT_FALSE(channel.out->ready());
  EXPECT_THAT(channel.take_all(), ElementsAre(100, 101, 0));
  for (int i = 1; i <= 3; ++i) channel.send(i);
  EXPECT_FALSE(channel.out->ready());
  EXPECT_THAT(channel.take_all(), ElementsAre(1, 2, 3));
}

TEST(Ports, TakingARestoredFrameDoesNotMakeTheProducerForgetOneOfItsOwn) {
  Channel channel;
  channel.new_producer();
  channel.new_consumer();
  channel.in->restore(kEdge, channel.to->frame(100));
  channel.meet();
  channel.send(0);
  channel.settle();
  EXPECT_EQ(channel.take(), 100);
  channel.settle();
  channel.new_consumer();
  channel.meet();
  EXPECT_THAT(channel.take_all(), ElementsAre(0));
}

TEST(Ports, MoreRestoredFramesThanFitNowDoNotWidenTheChannel) {
  Channel channel(ChannelKind::kStream, 2);
  channel.new_producer();
  channel.new_consumer();
  for (int i = 0; i < 5; ++i) channel.in->restore(kEdge, channel.to->frame(100 + i));
  channel.meet();
  EXPECT_FALSE(channel.out->ready());
  EXPECT_EQ(channel.take_all().size(), 5u);
  channel.send(0);
  channel.send(1);
  EXPECT_FALSE(channel.out->ready());
}

TEST(Ports, AnOutletIsSettledOnceAllThatWasKeptForAConsumerIsUnderWay) {
  Channel channel;
  EXPECT_TRUE(channel.out->settled());
  for (int i = 0; i < 3; ++i) channel.send(i);
  EXPECT_TRUE(channel.out->settled());
  channel.out->unwire(kEdge, 0);
  EXPECT_TRUE(channel.out->settled()) << "nobody is there to be sent to";
  channel.new_consumer();
  channel.wire_consumer();
  channel.wire_producer();
  EXPECT_FALSE(channel.out->settled());
  channel.settle();
  EXPECT_TRUE(channel.out->settled());
}

// ---- latest ----

TEST(Ports, OnALatestChannelOneFrameIsUnderWayAndTheNewestFollows) {
  Channel channel(ChannelKind::kLatest);
  for (int i = 0; i < 5; ++i) {
    EXPECT_TRUE(channel.out->ready());
    channel.send(i);
  }
  EXPECT_EQ(channel.from->frames.size(), 1u);
  EXPECT_THAT(channel.take_all(), ElementsAre(0, 4));
}

TEST(Ports, ANewConsumerOfALatestChannelGetsTheNewestFrameAgain) {
  Channel channel(ChannelKind::kLatest);
  channel.send(0);
  EXPECT_THAT(channel.take_all(), ElementsAre(0));
  channel.new_consumer();
  channel.meet();
  EXPECT_THAT(channel.take_all(), ElementsAre(0));
  channel.out->unwire(kEdge, 1);
  channel.send(1);
  channel.send(2);
  EXPECT_THAT(channel.from->frames, IsEmpty());
  channel.new_consumer();
  channel.meet();
  EXPECT_THAT(channel.take_all(), ElementsAre(2));
}

TEST(Ports, ALatestChannelKeepsOneFrameForAConsumerThatIsGoneForGood) {
  Channel channel(ChannelKind::kLatest);
  channel.out->unwire(kEdge, 0);
  for (int i = 0; i < 1000; ++i) channel.send(i);
  EXPECT_EQ(channel.out->under_way(), 0);
  EXPECT_THAT(channel.from->frames, IsEmpty());
}

TEST(Ports, AConsumerThatNobodyExpectedGetsTheNewestFrame) {
  Channel channel(ChannelKind::kLatest);
  channel.send(7);
  channel.settle();
  const EdgeId edge{0, 0, 9};
  channel.out->wire(consumer(0, edge));
  channel.out->credit({{edge, 0, 0}, 1, 0});
  EXPECT_THAT(numbers(channel.from->frames), ElementsAre(7));
}

// ---- calls ----

class Calls : public ::testing::Test {
 protected:
  Calls() {
    caller_.wire(consumer(0), 2);
    server_.wire(producer(0), 2);
  }
  void call(std::int64_t number) {
    caller_.call(from_.frame(number), std::chrono::seconds(1), [this](Result<Frame> answer) {
      replies_.push_back(answer.ok() ? std::to_string(number_of(*answer))
                                     : std::string(to_string(answer.error().code)));
    });
  }
  void carry() {
    for (CallMessage& message : taken_out(from_.calls)) server_.receive(std::move(message));
  }
  void serve() {
    while (!server_.empty()) {
      auto [frame, answer] = server_.take();
      answer(to_.frame(2 * number_of(frame)));
    }
    for (AnswerMessage& message : taken_out(to_.answers)) caller_.answer(std::move(message));
  }

  Instance from_, to_;
  CallerPort caller_{{"ask", "Number", ChannelKind::kRequest}, from_.sender};
  ServerPort server_{{"answer", "Number", ChannelKind::kRequest}, to_.sender};
  std::vector<std::string> replies_;
};

TEST_F(Calls, AreBoundedByTheCapacity) {
  call(1);
  call(2);
  EXPECT_FALSE(caller_.ready());
  carry();
  serve();
  EXPECT_TRUE(caller_.ready());
  EXPECT_THAT(replies_, ElementsAre("2", "4"));
}

TEST_F(Calls, EndAtTheirDeadlineAndLateAnswersAreDropped) {
  call(1);
  EXPECT_EQ(from_.expires, std::chrono::seconds(1));
  from_.now = std::chrono::milliseconds(999);
  EXPECT_FALSE(caller_.expire());
  from_.now = std::chrono::seconds(1);
  EXPECT_TRUE(caller_.expire());
  carry();
  serve();
  EXPECT_THAT(replies_, ElementsAre("deadline_exceeded"));
}

TEST_F(Calls, ThatComeBeforeTheirCallerIsKnownWaitForIt) {
  ServerPort fresh({"answer", "Number", ChannelKind::kRequest}, to_.sender);
  call(1);
  EXPECT_FALSE(fresh.receive(taken_out(from_.calls).front()));
  EXPECT_TRUE(fresh.empty());
  fresh.wire(producer(0), 2);
  EXPECT_FALSE(fresh.empty());
}

TEST_F(Calls, OfCallersThatNobodyEverWiresAreBounded) {
  ServerPort fresh({"answer", "Number", ChannelKind::kRequest}, to_.sender);
  for (int i = 0; i < 1000; ++i) {
    fresh.receive({{kEdge, 0, 0}, static_cast<std::uint64_t>(i), from_.frame(i)});
  }
  fresh.wire(producer(0), 1000);
  EXPECT_EQ(fresh.depth(), 256);
  EXPECT_EQ(number_of(fresh.take().first), 1000 - 256) << "the oldest went first";
}

TEST_F(Calls, BeyondTheServersQueueAreRefusedAtOnce) {
  for (int i = 0; i < 3; ++i) server_.receive({{kEdge, 0, 0}, static_cast<std::uint64_t>(i), from_.frame(i)});
  ASSERT_EQ(to_.answers.size(), 1u);
  EXPECT_EQ(to_.answers[0].ticket, 2u);
  EXPECT_EQ(to_.answers[0].error->code, Code::kUnavailable);
}

TEST_F(Calls, OfAnEarlierCallerAreNotServedAnyMore) {
  server_.wire(producer(1), 2);
  call(1);
  EXPECT_FALSE(server_.receive(taken_out(from_.calls).front()));
}

TEST_F(Calls, ForAnEarlierServerAreNotServedByTheNext) {
  call(1);
  to_.sender.incarnation = 1;
  EXPECT_FALSE(server_.receive(taken_out(from_.calls).front()));
}

TEST_F(Calls, AnswersOfAServerThatIsGoneAreDropped) {
  call(1);
  carry();
  caller_.wire(consumer(1), 2);
  serve();
  EXPECT_THAT(replies_, IsEmpty());
  from_.now = std::chrono::seconds(1);
  caller_.expire();
  EXPECT_THAT(replies_, ElementsAre("deadline_exceeded"));
  caller_.unwire(kEdge, 1);
  EXPECT_FALSE(caller_.ready());
}

TEST_F(Calls, GoToTheServersInTurn) {
  for (std::uint32_t s = 1; s < 3; ++s) caller_.wire(consumer(0, {0, 0, s}), 10);
  for (int i = 0; i < 6; ++i) call(i);
  std::vector<std::uint32_t> servers;
  for (const CallMessage& message : from_.calls) servers.push_back(message.route.edge.consumer);
  EXPECT_THAT(servers, ElementsAre(0, 1, 2, 0, 1, 2));
}

TEST_F(Calls, CanNameTheServerThatTheyAreFor) {
  caller_.wire(consumer(0, {0, 0, 3}), 2);
  EXPECT_FALSE(caller_.ready(1));
  ASSERT_TRUE(caller_.ready(3));
  caller_.call_to(3, from_.frame(1), std::chrono::seconds(1), [](Result<Frame>) {});
  ASSERT_TRUE(caller_.ready(0));
  caller_.call_to(0, from_.frame(2), std::chrono::seconds(1), [](Result<Frame>) {});
  EXPECT_EQ(from_.calls[0].route.edge.consumer, 3u);
  EXPECT_EQ(from_.calls[1].route.edge.consumer, 0u);
  EXPECT_FALSE(caller_.ready(3)) << "the capacity is of all calls";
}

TEST_F(Calls, EndWhenTheirServerGoes) {
  call(1);
  caller_.wire(consumer(0, {0, 0, 1}), 2);
  call(2);
  caller_.unwire(kEdge, 0);
  EXPECT_THAT(replies_, ElementsAre("unavailable"));
  EXPECT_TRUE(caller_.ready(1)) << "the other one is still there, and its call is under way";
}

TEST_F(Calls, ThatTheServerDropsAreCancelled) {
  call(1);
  carry();
  server_.take();
  ASSERT_EQ(to_.answers.size(), 1u);
  EXPECT_EQ(to_.answers[0].error->code, Code::kCancelled);
}

}  // namespace
}  // namespace troupe::actors
