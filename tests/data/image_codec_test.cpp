// Pictures through PNG and JPEG and back, whole, in part and at reduced size; and files of which bytes are missing,
// wrong or too promising.
#include <troupe/data/image_codec.hpp>

#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <zlib.h>

#include <algorithm>
#include <array>
#include <cstdlib>

#include <troupe/tests/data/write_images.hpp>

namespace troupe::data {
namespace {

using testing::Bytes;
using ::testing::HasSubstr;
using testing::jpeg;
using testing::picture;
using testing::png;

Excerpt whole(std::int64_t height, std::int64_t width) {
  return {{0, 0, static_cast<double>(height), static_cast<double>(width)}, height, width};
}

Surface decoded(const Bytes& bytes, bool grey = false) {
  Surface out;
  const auto region = decode_image(bytes, grey, whole, out);
  EXPECT_TRUE(region.ok()) << region.error().message;
  return out;
}

std::string error_of(const Bytes& bytes) {
  Surface out;
  const auto region = decode_image(bytes, false, whole, out);
  if (region.ok()) return "it was decoded";
  EXPECT_EQ(region.error().code, Code::kCorrupt);
  return region.error().message;
}

int largest_difference(const Bytes& a, const Bytes& b) {
  EXPECT_EQ(a.size(), b.size());
  int largest = 0;
  for (std::size_t i = 0; i < std::min(a.size(), b.size()); ++i) largest = std::max(largest, std::abs(a[i] - b[i]));
  return largest;
}

TEST(ImageCodec, ReadsPngsAsTheyWereWritten) {
  for (const std::int64_t channels : {1, 3}) {
    const Surface made = picture(13, 17, channels), got = decoded(png(made));
    EXPECT_EQ(got.height, 13);
    EXPECT_EQ(got.width, 17);
    EXPECT_EQ(got.channels, channels);
    EXPECT_EQ(got.pixels, made.pixels);
  }
}

TEST(ImageCodec, PutsTransparencyOnBlack) {
  const Surface made{1, 2, 4, {200, 100, 50, 255, 200, 100, 50, 0}};
  EXPECT_EQ(decoded(png(made)).pixels, (Bytes{200, 100, 50, 0, 0, 0}));
}

TEST(ImageCodec, ReadsJpegsAsCloselyAsTheyAreKept) {
  for (const std::int64_t channels : {1, 3}) {
    for (const bool progressive : {false, true}) {
      const Surface made = picture(45, 70, channels), got = decoded(jpeg(made, 100, progressive));
      EXPECT_EQ(got.channels, channels);
      EXPECT_EQ(got.height, 45);
      // Quality 100 rounds to a level or two; chroma of half the size adds where colours change fast.
      EXPECT_LE(largest_difference(got.pixels, made.pixels), channels == 1 ? 2 : 40) << progressive;
    }
  }
}

TEST(ImageCodec, TurnsColourIntoGreyAndCmykIntoColour) {
  const Surface colour{8, 8, 3, Bytes(8 * 8 * 3, 120)};
  for (const Bytes& bytes : {png(colour), jpeg(colour)}) {
    const Surface grey = decoded(bytes, true);
    EXPECT_EQ(grey.channels, 1);
    EXPECT_LE(largest_difference(grey.pixels, Bytes(64, 120)), 1);
  }
  Surface cmyk{8, 8, 4, {}};
  for (int i = 0; i < 64; ++i) cmyk.pixels.insert(cmyk.pixels.end(), {255, 128, 0, 200});
  const Surface got = decoded(jpeg(cmyk, 100));
  ASSERT_EQ(got.channels, 3);
  EXPECT_LE(std::abs(got.pixels[0] - 200), 2);
  EXPECT_LE(std::abs(got.pixels[1] - 100), 2);
  EXPECT_LE(std::abs(got.pixels[2] - 0), 2);
}

TEST(ImageCodec, DecodesPartOfAJpegLikeTheWhole) {
  const Surface made = picture(120, 160, 3);
  const Bytes bytes = jpeg(made);
  const Surface all = decoded(bytes);
  const Region wanted = {37, 50, 41, 63};
  Surface part;
  const auto at = decode_image(
      bytes, false,
      [&](auto, auto) {
        return Excerpt{wanted, 41, 63};
      },
      part);
  ASSERT_TRUE(at.ok()) << at.error().message;
  EXPECT_EQ(part.height, 41) << "rows that are not wanted";
  EXPECT_LT(part.width, 160) << "columns that are not wanted";
  EXPECT_EQ(at->height, 41);
  EXPECT_EQ(at->width, 63);
  int largest = 0;
  for (std::int64_t y = 0; y < 41; ++y) {
    for (std::int64_t x = 0; x < 63 * 3; ++x) {
      const std::int64_t in_part =
          (y + static_cast<std::int64_t>(at->top)) * part.width * 3 + static_cast<std::int64_t>(at->left) * 3 + x;
      const int difference = std::abs(part.pixels[static_cast<std::size_t>(in_part)] -
                                      all.pixels[static_cast<std::size_t>((y + 37) * 160 * 3 + 50 * 3 + x)]);
      largest = std::max(largest, difference);
    }
  }
  // Chroma is interpolated from its neighbours, and at the left and right end of the part some are missing.
  EXPECT_LE(largest, 8);
}

TEST(ImageCodec, DecodesAJpegAtTheReducedSizeThatSuffices) {
  const Bytes bytes = jpeg(picture(128, 256, 1), 100);
  const Surface all = decoded(bytes);
  const auto size_for = [&](std::int64_t height, std::int64_t width) {
    Surface out;
    const auto region = decode_image(
        bytes, false,
        [&](auto h, auto w) {
          return Excerpt{whole(h, w).region, height, width};
        },
        out);
    EXPECT_DOUBLE_EQ(region.value().width, static_cast<double>(out.width));
    return std::pair(out.height, out.width);
  };
  EXPECT_EQ(size_for(128, 256), std::pair(std::int64_t{128}, std::int64_t{256}));
  EXPECT_EQ(size_for(64, 128), std::pair(std::int64_t{64}, std::int64_t{128}));
  EXPECT_EQ(size_for(65, 20), std::pair(std::int64_t{128}, std::int64_t{256})) << "half would be too few rows";
  EXPECT_EQ(size_for(20, 20), std::pair(std::int64_t{32}, std::int64_t{64}));
  EXPECT_EQ(size_for(1, 1), std::pair(std::int64_t{16}, std::int64_t{32}));
  Surface half;
  ASSERT_TRUE(decode_image(
      bytes, false,
      [&](auto h, auto w) {
        return Excerpt{whole(h, w).region, 64, 128};
      },
      half));
  for (std::size_t y = 0; y < 64; ++y) {
    for (std::size_t x = 0; x < 128; ++x) {
      const auto at = [&](std::size_t dy, std::size_t dx) { return all.pixels[(2 * y + dy) * 256 + 2 * x + dx]; };
      const double mean = (at(0, 0) + at(0, 1) + at(1, 0) + at(1, 1)) / 4.0;
      ASSERT_NEAR(half.pixels[y * 128 + x], mean, 4) << y << ' ' << x;  // a low-pass of its own kind
    }
  }
}

TEST(ImageCodec, RefusesWhatIsNoImage) {
  EXPECT_EQ(error_of({}), "an empty image");
  EXPECT_EQ(error_of({'G', 'I', 'F', '8', '9'}), "neither JPEG nor PNG: begins with 47 49 46 38");
  EXPECT_EQ(error_of({7}), "neither JPEG nor PNG: begins with 07");
  EXPECT_THAT(error_of({0xff, 0xd8, 0xff}), HasSubstr("damaged JPEG: "));
}

TEST(ImageCodec, RefusesSizesThatNobodyCanHave) {
  Bytes large = png(picture(2, 2, 1));
  for (const std::size_t at : {16U, 20U}) large[at] = 0x7f;  // IHDR: width and height
  EXPECT_THAT(error_of(large), ::testing::AnyOf(HasSubstr("damaged PNG"), HasSubstr("expected at least 1 x 1")));
  Bytes wide = jpeg(picture(8, 8, 1));
  for (std::size_t i = 0; i + 9 < wide.size(); ++i) {
    if (wide[i] != 0xff || wide[i + 1] != 0xc0) continue;  // SOF0: length, precision, height, width
    for (std::size_t byte = 5; byte < 9; ++byte) wide[i + byte] = 0xf0;
  }
  EXPECT_EQ(error_of(wide), "JPEG of 61680 x 61680 pixels, expected at least 1 x 1 and at most 67108864 in all");
}

/// libpng demands of the first chunk that its checksum, a CRC-32 of kind and content, is right.
void repair_header(Bytes& png) {
  const auto crc = crc32(0, &png[12], 17);
  for (std::size_t i = 0; i < 4; ++i) png[29 + i] = static_cast<std::uint8_t>(crc >> (24 - 8 * i));
}

TEST(ImageCodec, TakesNoMemoryForPixelsThatTheBytesCannotHold) {
  Bytes promising = png(picture(2, 2, 1));
  promising[18] = promising[22] = 0x1f;  // 7,938 pixels each way: 60 MiB of a file of a hundred bytes
  repair_header(promising);
  EXPECT_EQ(error_of(promising),
            fmt::format("PNG of 7938 x 7938 pixels in {} bytes, expected at least 61057", promising.size()));
  Bytes wide = jpeg(picture(8, 8, 1));
  for (std::size_t i = 0; i + 9 < wide.size(); ++i) {
    if (wide[i] == 0xff && wide[i + 1] == 0xc0) wide[i + 5] = wide[i + 7] = 0x1f;  // 7,944 each way
  }
  EXPECT_EQ(error_of(wide),
            fmt::format("JPEG of 7944 x 7944 pixels in {} bytes, expected at least 123256", wide.size()));
}

TEST(ImageCodec, ReadsImagesThatArePackedAsTightlyAsCanBe) {
  for (const std::int64_t channels : {1, 3}) {
    const Surface plain{1000, 2000, channels, Bytes(static_cast<std::size_t>(1000 * 2000 * channels), 0)};
    for (const Bytes& bytes : {png(plain), jpeg(plain, 50), jpeg(plain, 50, true)}) {
      EXPECT_EQ(decoded(bytes).pixels.size(), plain.pixels.size()) << bytes.size();
    }
  }
}

TEST(ImageCodec, RefusesMoreScansThanAnybodyWrites) {
  const Bytes two = jpeg(picture(16, 16, 1), 90, false, {{1, {0}, 0, 0, 0, 0}, {1, {0}, 1, 63, 0, 0}});
  const std::array<std::uint8_t, 2> scan = {0xff, 0xda}, finish = {0xff, 0xd9};
  const auto last = std::find_end(two.begin(), two.end(), scan.begin(), scan.end());
  const auto end = std::find_end(two.begin(), two.end(), finish.begin(), finish.end());
  const auto scans = [&](int count) {
    Bytes bytes(two.begin(), last);
    for (int i = 1; i < count; ++i) bytes.insert(bytes.end(), last, end);
    bytes.insert(bytes.end(), end, two.end());
    return bytes;
  };
  EXPECT_EQ(decoded(scans(100)).pixels, decoded(two).pixels);
  EXPECT_EQ(error_of(scans(101)), "damaged JPEG: more than 100 scans");
}

TEST(ImageCodec, FindsEveryCut) {
  const Surface made = picture(20, 24, 3);
  for (const Bytes& bytes : {png(made), jpeg(made), jpeg(made, 90, true)}) {
    const Bytes pixels = decoded(bytes).pixels;
    for (std::size_t kept = 0; kept < bytes.size(); ++kept) {
      Surface out;
      const Bytes cut(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(kept));
      const auto region = decode_image(cut, false, whole, out);
      // What ends with the last pixel lacks a marker that nobody needs.
      if (!region.ok()) continue;
      EXPECT_EQ(out.pixels, pixels) << kept << " of " << bytes.size();
      EXPECT_GE(kept + 16, bytes.size());
    }
  }
}

TEST(ImageCodec, SurvivesFlippedBytes) {
  const Surface made = picture(20, 24, 3);
  for (const Bytes& bytes : {png(made), jpeg(made), jpeg(made, 90, true)}) {
    std::size_t found = 0;
    const Bytes pixels = decoded(bytes).pixels;
    for (std::size_t at = 0; at < bytes.size(); ++at) {
      Bytes flipped = bytes;
      flipped[at] ^= 0xff;
      Surface out;
      const auto region = decode_image(flipped, false, whole, out);
      found += !region.ok();
      if (!region.ok()) continue;
      EXPECT_EQ(out.pixels.size(), static_cast<std::size_t>(out.height * out.width * out.channels));
      EXPECT_TRUE(bytes[0] != 0x89 || out.pixels == pixels) << at;  // PNG has checksums
    }
    EXPECT_GT(found, bytes.size() / 8);
  }
}

}  // namespace
}  // namespace troupe::data
