// What the ends of a stream make of peers that do not keep to its protocol, and of options that cannot work.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include <troupe/tests/transport/stream_fixture.hpp>
#include <troupe/transport/detail/stream_wire.hpp>

namespace troupe::transport {
namespace {

using namespace testing;  // NOLINT: the fixture
using ::testing::HasSubstr;
using namespace std::chrono_literals;

/// A sender made by hand, to say what StreamSender never says.
class RawSender : public StreamTest {
 protected:
  std::unique_ptr<Link> dial(std::uint64_t first) {
    auto link = connect({}).value();
    EXPECT_TRUE(link->send(FrameKind::kControl, encode(StreamHello{session_, first, "bulk"}), 5s).ok());
    return link;
  }
  Status say(Link& link, std::uint64_t number, std::uint64_t shown) {
    const StreamPrefix prefix{number, make_message(shown).head};
    return link.send(FrameKind::kData, std::as_bytes(std::span(&prefix, 1)), 5s);
  }

  StreamId session_{std::byte{1}};
};

TEST_F(RawSender, DuplicatesAreDroppedAndCounted) {
  make_receiver();
  const auto link = dial(1);
  EXPECT_EQ(decode_resume(link->receive(5s).value())->delivered, 0u);
  for (const std::uint64_t number : {1, 2, 2, 1, 3}) EXPECT_TRUE(say(*link, number, number).ok());
  EXPECT_TRUE(arrived(3)) << ledger_.wrong();
  EXPECT_EQ(receiver_->stats().duplicates, 2u);
  const auto again = dial(2);
  EXPECT_EQ(decode_resume(again->receive(5s).value())->delivered, 3u);
}

TEST_F(RawSender, GapsAndForeignFramesEndTheConnectionAndDeliverNothing) {
  make_receiver();
  const auto expect_end = [&](const std::unique_ptr<Link>& link, const char* reason) {
    EXPECT_TRUE(eventually([&] { return receiver_->stats().last_error.find(reason) != std::string::npos; }, kPatience))
        << reason;
    while (link->receive(5s).ok()) continue;
  };
  auto link = dial(1);
  EXPECT_TRUE(say(*link, 2, 2).ok());
  expect_end(link, "message 2, expected 1");
  link = dial(1);
  EXPECT_TRUE(link->send(FrameKind::kControl, encode_ack(1), 5s).ok());
  expect_end(link, "expected a message");
  link = dial(1);
  EXPECT_TRUE(link->send(FrameKind::kData, std::vector<std::byte>(71), 5s).ok());
  expect_end(link, "71 bytes, expected a message");
  link = dial(7);
  expect_end(link, "goes on with message 7, expected one up to 1");
  EXPECT_EQ(ledger_.last(), 0u);
  session_ = {std::byte{2}};
  link = dial(7);
  EXPECT_EQ(decode_resume(link->receive(5s).value())->delivered, 6u) << "a new session begins where its sender says";
  session_ = {std::byte{1}};
  link = dial(1);
  const auto refused = decode_resume(link->receive(5s).value());
  EXPECT_EQ(refused.error().code, Code::kCancelled);
  EXPECT_THAT(refused.error().message, HasSubstr("TRP-F111 another process has taken the place of this one"));
  expect_end(link, "TRP-F111");
}

TEST_F(RawSender, OnlyAHelloIsAHello) {
  const auto refusal = [](FrameKind kind, const std::vector<std::byte>& payload) {
    return decode_hello({kind, payload}).ok() ? "accepted" : decode_hello({kind, payload}).error().message;
  };
  const StreamHello hello{session_, 1, std::string(255, 'x'), 7};
  auto bytes = encode(hello);
  EXPECT_EQ(decode_hello({FrameKind::kControl, bytes})->name, hello.name);
  EXPECT_EQ(decode_hello({FrameKind::kControl, bytes})->to, 7u);
  EXPECT_EQ(refusal(FrameKind::kControl, bytes), "accepted");
  EXPECT_THAT(refusal(FrameKind::kData, bytes), HasSubstr("expected a control frame of type 1"));
  for (std::size_t size = 0; size < 33; ++size) {
    EXPECT_NE(refusal(FrameKind::kControl, {bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(size)}),
              "accepted");
  }
  bytes.push_back(std::byte{0});
  EXPECT_NE(refusal(FrameKind::kControl, bytes), "accepted");
  EXPECT_THAT(refusal(FrameKind::kControl, encode(StreamHello{session_, 0, ""})), HasSubstr("expected 1 or more"));
}

TEST_F(RawSender, ARefusalIsAnErrorAndNothingElse) {
  const auto said = [](const std::vector<std::byte>& payload, FrameKind kind = FrameKind::kControl) {
    return decode_resume({kind, payload}).error();
  };
  auto bytes = encode_refusal({Code::kUnavailable, "come back\nlater"});
  EXPECT_EQ(said(bytes).code, Code::kUnavailable);
  EXPECT_EQ(said(bytes).message, "come back\\nlater") << "what a peer says is printable";
  EXPECT_EQ(said(bytes, FrameKind::kData).code, Code::kCorrupt);
  bytes[1] = std::byte{200};
  EXPECT_EQ(said(bytes).code, Code::kCorrupt) << "no such code";
  bytes.resize(1);
  EXPECT_EQ(said(bytes).code, Code::kCorrupt);
  EXPECT_EQ(said(encode_refusal({Code::kIo, std::string(5000, 'x')})).code, Code::kIo);
  bytes.assign(3000, std::byte{4});
  EXPECT_EQ(said(bytes).code, Code::kCorrupt);
}

TEST_F(RawSender, WhoSaysNothingOrNonsenseIsClosedAndHoldsUpNobody) {
  make_receiver();
  greeter_ = StreamAcceptor::make(
                 {.on_hello = [this](auto link, auto hello) { attach(std::move(link), hello); }, .timeout = 300ms})
                 .value();
  const auto mute = connect({}).value();
  const auto foreign = connect({}).value();
  EXPECT_TRUE(foreign->send(FrameKind::kData, std::vector<std::byte>(30), 5s).ok());
  const auto start = std::chrono::steady_clock::now();
  const auto good = dial(1);
  EXPECT_TRUE(decode_resume(good->receive(5s).value()).ok());
  EXPECT_THAT(foreign->receive(5s).error().message, HasSubstr("closed"));
  EXPECT_THAT(mute->receive(5s).error().message, HasSubstr("closed"));
  EXPECT_GE(std::chrono::steady_clock::now() - start, 200ms);
  EXPECT_TRUE(say(*good, 1, 1).ok());
  EXPECT_TRUE(arrived(1));
}

TEST_F(RawSender, TheOldestOfTooManyThatSayNothingIsClosed) {
  make_receiver();
  const auto first = connect({}).value();
  std::vector<std::unique_ptr<Link>> others;
  for (std::size_t i = 0; i < StreamAcceptor::kWaitingMax; ++i) others.push_back(connect({}).value());
  EXPECT_THAT(first->receive(5s).error().message, HasSubstr("closed"));
  EXPECT_EQ(others.back()->receive(50ms).error().code, Code::kDeadlineExceeded) << "still welcome";
}

TEST_F(StreamTest, AReceiverThatAcknowledgesTooMuchIsNotBelieved) {
  std::vector<std::jthread> acceptors;
  const EndsFirst ends_first{this};
  auto options = sender_options();
  options.connect = [&](std::stop_token stop) {
    const Sockets sockets;
    acceptors.emplace_back([this, fd = sockets.fds[1]] {
      auto link = Link::open(fd, acceptor_, {.side = Side::kAccept, .admit = only(kSender)});
      if (!link.ok() || !receive_hello(**link, 5s).ok()) return;
      (void)(*link)->send(FrameKind::kControl, encode(StreamResume{{}, 1}), 5s);
      (void)(*link)->receive(5s);
    });
    return Link::open(sockets.fds[0], dialler_, {.admit = only(kReceiver), .stop = std::move(stop)});
  };
  make_sender(std::move(options));
  EXPECT_TRUE(sender_->send(make_message(1)).ok());
  EXPECT_TRUE(eventually(
      [&] {
        return sender_->stats().last_error == "stream bulk: the peer acknowledges message 1, expected one from 0 to 0";
      },
      kPatience));
  EXPECT_EQ(sender_->stats().messages, 1u) << "still kept";
}

TEST(StreamOptions, AreCheckedAtTheStart) {
  EXPECT_EQ(StreamSender::make({}).error().code, Code::kInvalidArgument);
  const auto connect = [](const std::stop_token&) -> Result<std::unique_ptr<Link>> { return Error{}; };
  EXPECT_EQ(StreamSender::make({.name = std::string(256, 'x'), .connect = connect}).error().code,
            Code::kInvalidArgument);
  EXPECT_EQ(StreamSender::make({.connect = connect, .max_bytes = 1}).error().code, Code::kInvalidArgument);
  EXPECT_EQ(StreamReceiver::make({}).error().code, Code::kInvalidArgument);
}

}  // namespace
}  // namespace troupe::transport
