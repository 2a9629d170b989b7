#include <troupe/core/crc32c.hpp>

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace troupe {
namespace {

std::vector<std::byte> repeated(int value, std::size_t count) {
  return std::vector<std::byte>(count, static_cast<std::byte>(value));
}

TEST(Crc32c, MatchesTheVectorsOfRfc3720) {
  EXPECT_EQ(crc32c(repeated(0x00, 32)), 0x8a9136aau);
  EXPECT_EQ(crc32c(repeated(0xff, 32)), 0x62a8ab43u);
  std::vector<std::byte> rising(32);
  for (std::size_t i = 0; i < rising.size(); ++i) rising[i] = static_cast<std::byte>(i);
  EXPECT_EQ(crc32c(rising), 0x46dd794eu);
  EXPECT_EQ(crc32c(std::as_bytes(std::span("123456789", 9))), 0xe3069283u);
  EXPECT_EQ(crc32c({}), 0u);
}

TEST(Crc32c, PiecesGiveTheSameAsTheWhole) {
  std::string text = "Trajectories, batches, parameters: all of them end up in a checksum.";
  const std::uint32_t whole = crc32c(std::as_bytes(std::span(text)));
  for (std::size_t cut = 0; cut <= text.size(); ++cut) {
    const auto bytes = std::as_bytes(std::span(text));
    EXPECT_EQ(crc32c(bytes.subspan(cut), crc32c(bytes.first(cut))), whole) << cut;
  }
}

TEST(Crc32c, MaskIsTensorFlows) {
  // tensorflow/core/lib/hash/crc32c.h: rotate right by 15 bits and add the constant.
  EXPECT_EQ(masked_crc32c(0), 0xa282ead8u);
  EXPECT_EQ(masked_crc32c(0x8000u), 0xa282ead9u);
}

}  // namespace
}  // namespace troupe
