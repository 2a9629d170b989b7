#include <troupe/transport/frame_header.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include <troupe/core/crc32c.hpp>

namespace troupe::transport {
namespace {

using ::testing::HasSubstr;

const FrameLimits kLimits{.data_bytes = 1000, .control_bytes = 100};

/// A header with a right checksum over whatever `bytes` says.
FrameHeaderBytes sealed(FrameHeaderBytes bytes) {
  const std::uint32_t crc = crc32c(std::span(bytes).first(12));
  std::memcpy(bytes.data() + 12, &crc, 4);
  return bytes;
}

std::string refusal(const FrameHeaderBytes& bytes, std::uint32_t sequence = 7) {
  const auto result = decode_header(bytes, kLimits, sequence);
  return result.ok() ? "accepted" : result.error().message;
}

TEST(FrameHeader, RoundTrip) {
  for (FrameKind kind : {FrameKind::kData, FrameKind::kControl, FrameKind::kWelcome, FrameKind::kRefusal}) {
    const auto bytes = encode_header({kind, 99, 0xffffffffu}, kLimits).value();
    const FrameHeader header = decode_header(bytes, kLimits, 0xffffffffu).value();
    EXPECT_EQ(header.kind, kind);
    EXPECT_EQ(header.length, 99u);
  }
}

TEST(FrameHeader, EveryFlippedBitIsFound) {
  const auto good = encode_header({FrameKind::kData, 1000, 7}, kLimits).value();
  for (std::size_t bit = 0; bit < 8 * good.size(); ++bit) {
    auto bytes = good;
    bytes[bit / 8] ^= static_cast<std::byte>(1u << (bit % 8));
    EXPECT_NE(refusal(bytes), "accepted") << bit;
  }
}

TEST(FrameHeader, LengthsAboveTheLimitOfTheKindAreRefusedOnBothSides) {
  EXPECT_EQ(encode_header({FrameKind::kControl, 101, 0}, kLimits).error().message,
            "link: frame of 101 bytes exceeds limit 100");
  auto bytes = encode_header({FrameKind::kControl, 100, 7}, kLimits).value();
  const std::uint32_t claim = 0xffffffffu;
  std::memcpy(bytes.data() + 4, &claim, 4);
  EXPECT_EQ(refusal(sealed(bytes)), "TRP-S703 frame of 4294967295 bytes exceeds limit 100");
}

TEST(FrameHeader, SaysWhatIsWrong) {
  FrameHeaderBytes http;
  std::memcpy(http.data(), "GET / HTTP/1.1\r\n", http.size());
  EXPECT_EQ(refusal(http), "link: not a Troupe frame (first bytes 47 45 54 20)");
  const auto good = encode_header({FrameKind::kData, 1, 7}, kLimits).value();
  EXPECT_EQ(refusal(good, 8), "link: frame number 7, expected 8");
  auto bytes = good;
  bytes[2] = std::byte{4};
  EXPECT_EQ(refusal(sealed(bytes)), "TRP-E160 peer speaks frame format 4, this node 1: upgrade one of them");
  bytes = good;
  bytes[3] = std::byte{9};
  EXPECT_EQ(refusal(sealed(bytes)), "link: unknown frame kind 9");
  EXPECT_THAT(refusal(bytes), HasSubstr("checksum"));
}

}  // namespace
}  // namespace troupe::transport
