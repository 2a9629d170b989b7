// The 64 bytes beside a frame that say what it is: there and back, and from an enemy.
#include <troupe/actors/network/detail/wire_head.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include <troupe/core/rng.hpp>
#include <troupe/messages/reports.hpp>

namespace troupe::actors {
namespace {

using messages::Control;
using messages::ControlKind;
using ::testing::HasSubstr;
using transport::StreamHead;
using transport::StreamMessage;

constexpr Route kRoute{{1, 2, 3}, 4, 5};
constexpr std::size_t kFlagsByte = 1, kCodeByte = 2;

bool same(const Route& a, const Route& b) {
  return a.edge == b.edge && a.producer_incarnation == b.producer_incarnation &&
         a.consumer_incarnation == b.consumer_incarnation;
}

class WireHead : public ::testing::Test {
 protected:
  messages::Frame frame() { return messages::make_parameters_use(pool, {0, 9, 1}).value(); }

  /// One of each kind.
  std::vector<RemoteMessage> samples() {
    Control control;
    control.kind = ControlKind::kNodes;
    control.nodes = {{"replay", 2, "10.0.0.2", 7000}};
    return {FrameMessage{kRoute, frame()},
            CreditMessage{kRoute, 0xfffffffe, 0xffffffff},
            CallMessage{kRoute, ~std::uint64_t{0}, frame()},
            AnswerMessage{kRoute, 7, std::nullopt, frame()},
            AnswerMessage{kRoute, 7, Error{Code::kInternal, "why not"}, {}},
            MarkerMessage{1ull << 40},
            control,
            GroupMessage{3, 1, 2, frame()}};
  }

  /// As the network sends it.
  StreamMessage pack(const RemoteMessage& message) {
    StreamMessage out;
    messages::Frame body;
    std::string text;
    out.head = pack_head(message, body, text);
    if (const auto* control = std::get_if<Control>(&message)) body = messages::make_control(pool, *control).value();
    if (!text.empty()) {
      auto aligned = std::make_shared<std::vector<char>>(text.begin(), text.end());
      out.body = std::as_bytes(std::span(*aligned));
      out.owner = aligned;
    } else if (body) {
      auto owner = std::make_shared<messages::Frame>(std::move(body));
      out.body = owner->bytes();
      out.owner = owner;
    }
    return out;
  }

  std::string refusal(const StreamMessage& message) {
    const auto unpacked = unpack_message(message);
    return unpacked.ok() ? "accepted" : unpacked.error().message;
  }

  messages::FramePool pool;
};

TEST_F(WireHead, EveryMessageComesBackAsItWas) {
  const auto all = samples();
  const auto back = [&](std::size_t i) { return unpack_message(pack(all[i])).value(); };
  const auto data = std::get<FrameMessage>(back(0));
  EXPECT_TRUE(same(data.route, kRoute));
  EXPECT_EQ(messages::read_parameters_use(data.frame)->version, 9);
  const auto credit = std::get<CreditMessage>(back(1));
  EXPECT_TRUE(same(credit.route, kRoute));
  EXPECT_EQ(credit.credits, 0xfffffffe);
  EXPECT_EQ(credit.taken, 0xffffffff);
  const auto call = std::get<CallMessage>(back(2));
  EXPECT_TRUE(same(call.route, kRoute));
  EXPECT_EQ(call.ticket, ~std::uint64_t{0});
  EXPECT_EQ(messages::read_parameters_use(call.frame)->version, 9);
  const auto answer = std::get<AnswerMessage>(back(3));
  EXPECT_TRUE(same(answer.route, kRoute));
  EXPECT_EQ(answer.ticket, 7u);
  EXPECT_FALSE(answer.error.has_value());
  EXPECT_EQ(messages::read_parameters_use(answer.frame)->version, 9);
  const auto failed = std::get<AnswerMessage>(back(4));
  EXPECT_EQ(failed.error->code, Code::kInternal);
  EXPECT_EQ(failed.error->message, "why not");
  EXPECT_EQ(std::get<MarkerMessage>(back(5)).cut, 1ull << 40);
  EXPECT_EQ(std::get<Control>(back(6)), std::get<Control>(all[6]));
  const auto group = std::get<GroupMessage>(back(7));
  EXPECT_EQ(std::tuple(group.role, group.from, group.to), std::tuple(3u, 1u, 2u));
  EXPECT_EQ(messages::read_parameters_use(group.frame)->version, 9);
}

TEST_F(WireHead, AnErrorsTextIsBoundedAndNeverEmpty) {
  const auto back = [&](std::string text) {
    return std::get<AnswerMessage>(unpack_message(pack(AnswerMessage{kRoute, 1, Error{Code::kIo, text}, {}})).value())
        .error->message;
  };
  EXPECT_EQ(back(std::string(5000, 'x')), std::string(4096, 'x'));
  EXPECT_EQ(back(""), "failed");
}

TEST_F(WireHead, AReferenceStandsBesideTheRest) {
  StreamMessage message = pack(samples()[0]);
  EXPECT_FALSE(has_reference(message.head));
  const transport::SharedReference reference{1, 2, 3, 4};
  set_reference(message.head, reference);
  EXPECT_TRUE(has_reference(message.head));
  EXPECT_EQ(std::memcmp(&reference, message.head.data() + 32, sizeof(reference)), 0);
  EXPECT_EQ(reference_of(message.head).length, 4u);
  EXPECT_TRUE(same(std::get<FrameMessage>(unpack_message(message).value()).route, kRoute));
}

TEST_F(WireHead, ABodyIsThereExactlyWhereItBelongs) {
  for (const RemoteMessage& sample : samples()) {
    StreamMessage message = pack(sample);
    EXPECT_EQ(refusal(message), "accepted");
    if (message.body.empty()) {
      message.body = frame().bytes().first(8);
    } else {
      message.body = {};
    }
    EXPECT_THAT(refusal(message), HasSubstr("makes no sense")) << sample.index();
  }
}

TEST_F(WireHead, TypesFlagsAndCodesThatNobodySendsAreRefused) {
  for (const RemoteMessage& sample : samples()) {
    const StreamMessage good = pack(sample);
    const auto with = [&](std::size_t at, int value) {
      StreamMessage bad = good;
      bad.head[at] = static_cast<std::byte>(value);
      return refusal(bad);
    };
    for (const int type : {0, 7, 9, 255}) EXPECT_NE(with(0, type), "accepted") << type;  // 7 is an offer
    for (int flags = 4; flags < 256; ++flags) EXPECT_NE(with(kFlagsByte, flags), "accepted") << flags;
    EXPECT_NE(with(kFlagsByte, 3), "accepted") << "an error is not in shared memory";
    const bool failed = good.head[kFlagsByte] != std::byte{0};
    const bool data = sample.index() == 0 || sample.index() == 2 || sample.index() == 3;
    EXPECT_EQ(with(kFlagsByte, 1) == "accepted", data && !failed) << "only frames are in shared memory";
    EXPECT_EQ(with(kCodeByte, static_cast<int>(kLastCode)) == "accepted", failed);
    EXPECT_NE(with(kCodeByte, static_cast<int>(kLastCode) + 1), "accepted");
    EXPECT_NE(with(kCodeByte + 1, 1), "accepted");
  }
}

TEST_F(WireHead, HundredThousandMutationsGiveAValueOrAnError) {
  Rng rng(20261121);
  std::vector<StreamMessage> good;
  for (const RemoteMessage& sample : samples()) good.push_back(pack(sample));
  int accepted = 0, refused = 0;
  for (int i = 0; i < 100'000; ++i) {
    StreamMessage message = good[rng.below(good.size())];
    for (std::uint64_t flips = 1 + rng.below(4); flips > 0; --flips) {
      // Half of them where type, flags and code are.
      const std::size_t at = rng.below(rng.below(2) == 0 ? 4 : message.head.size());
      message.head[at] = static_cast<std::byte>(rng());
    }
    if (rng.below(8) == 0) message.body = message.body.first(rng.below(message.body.size() + 1));
    const auto unpacked = unpack_message(message);
    (void)reference_of(message.head);
    (void)has_reference(message.head);
    EXPECT_TRUE(unpacked.ok() || !unpacked.error().message.empty());
    (unpacked.ok() ? accepted : refused) += 1;
  }
  EXPECT_GT(accepted, 1000);
  EXPECT_GT(refused, 1000);
}

TEST_F(WireHead, OffersComeBackAndHostileOnesDoNot) {
  const transport::SharedOffer offer{"host\n1", "/tmp/a b", std::string("\0\n12", 4)};
  const std::string text = pack_offer(offer);
  const auto unpack = [](std::string_view bytes) { return unpack_offer(std::as_bytes(std::span(bytes))); };
  const auto back = unpack(text).value();
  EXPECT_EQ(back.host, offer.host);
  EXPECT_EQ(back.path, offer.path);
  EXPECT_EQ(back.secret, offer.secret);
  EXPECT_TRUE(is_offer(offer_head()));
  for (std::size_t size = 0; size < text.size(); ++size) EXPECT_FALSE(unpack(text.substr(0, size)).ok()) << size;
  for (const char* bad :
       {"", "\n", "1 1\nab", "-1 1 1\na", "99999999 0 0\n", "4294967295 1 1\nabc", "a b c\n", "1 1 1"}) {
    EXPECT_EQ(unpack(bad).error().code, Code::kCorrupt) << bad;
  }
  Rng rng(7);
  for (int i = 0; i < 100'000; ++i) {
    std::string bytes = text;
    for (std::uint64_t flips = 1 + rng.below(3); flips > 0; --flips) {
      bytes[rng.below(bytes.size())] = static_cast<char>(rng());
    }
    if (const auto any = unpack(bytes); any.ok()) {
      EXPECT_LT(any->host.size() + any->path.size() + any->secret.size(), bytes.size());
    }
  }
}

}  // namespace
}  // namespace troupe::actors
