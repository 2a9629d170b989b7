// Good files are read whole; every kind of damage gives one error that names the file and what is wrong.
#include <gtest/gtest.h>

#include <troupe/data/idx.hpp>

#include <troupe/tests/data/write_idx.hpp>

namespace troupe::data {
namespace {

using testing::Bytes;
using testing::Folder;
using testing::gzip;
using testing::idx;

Result<IdxArray> read(const Folder& folder, const Bytes& bytes) {
  const auto file = folder.path / "file.gz";
  testing::write(file, bytes);
  return read_idx(file);
}

/// The message without the file's name, which every message must begin with.
std::string message(const Folder& folder, const Bytes& bytes) {
  const auto array = read(folder, bytes);
  if (array.ok()) return "it was read";
  EXPECT_EQ(array.error().code, Code::kCorrupt);
  const std::string name = (folder.path / "file.gz").string() + ": ";
  EXPECT_TRUE(array.error().message.starts_with(name)) << array.error().message;
  return array.error().message.substr(std::min(name.size(), array.error().message.size()));
}

TEST(Idx, ReadsAFileWhole) {
  const Folder folder("idx-good");
  const auto array = read(folder, gzip(idx({2, 3}, {1, 2, 3, 4, 5, 6})));
  ASSERT_TRUE(array.ok()) << array.error().message;
  EXPECT_EQ(array->shape, (Shape{2, 3}));
  EXPECT_EQ(array->values, (Bytes{1, 2, 3, 4, 5, 6}));
}

TEST(Idx, RefusesWhatIsNoGzip) {
  const Folder folder("idx-plain");
  EXPECT_EQ(message(folder, {'h', 'e', 'l', 'l', 'o'}), "no good gzip stream: incorrect header check");
  EXPECT_EQ(message(folder, idx({1}, {7})), "no good gzip stream: incorrect header check");
  EXPECT_EQ(message(folder, {}), "the gzip stream is cut off");
}

TEST(Idx, RefusesAStreamCutOffAtAnyByte) {
  const Folder folder("idx-cut");
  const Bytes whole = gzip(idx({4, 4}, Bytes(16, 9)));
  for (std::size_t length = 0; length < whole.size(); ++length) {
    const Bytes cut(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(length));
    EXPECT_NE(message(folder, cut), "it was read") << length;
  }
}

TEST(Idx, RefusesAFlippedBitInTheElements) {
  const Folder folder("idx-flip");
  Bytes values(4096);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<std::uint8_t>(i * i % 251);
  const Bytes whole = gzip(idx({4096}, values));
  for (std::size_t at = 10; at < whole.size(); at += 37) {  // the ten bytes of gzip's header hold a time stamp
    Bytes flipped = whole;
    flipped[at] ^= 0x10;
    EXPECT_NE(message(folder, flipped), "it was read") << at;
  }
}

TEST(Idx, RefusesAHeaderThatIsNone) {
  const Folder folder("idx-header");
  Bytes other = idx({1}, {7});
  other[2] = 0x0D;  // floats
  EXPECT_EQ(message(folder, gzip(other)), "not IDX: begins with 00 00 0d 01, expected 00 00 08 and a rank of 1 .. 4");
  EXPECT_EQ(message(folder, gzip({0, 0, 8, 200})),
            "not IDX: begins with 00 00 08 c8, expected 00 00 08 and a rank of 1 .. 4");
  EXPECT_EQ(message(folder, gzip({0, 0, 8})),
            "not IDX: begins with 00 00 08 00, expected 00 00 08 and a rank of 1 .. 4");
  EXPECT_EQ(message(folder, gzip({0, 0, 8, 3, 0, 0})), "ends within its header");
  EXPECT_EQ(message(folder, gzip(idx({2, 0}, {}))),
            "dimension 1 has size 0, expected at least 1 and at most 1073741824 elements in all");
}

TEST(Idx, TakesNoMemoryForWhatAHeaderOnlyPromises) {
  const Folder folder("idx-promise");
  EXPECT_EQ(message(folder, gzip(idx({0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff}, {}))),
            "dimension 0 has size 4294967295, expected at least 1 and at most 1073741824 elements in all");
  const Bytes small = gzip(idx({1 << 29}, {1, 2, 3}));
  EXPECT_EQ(message(folder, small),
            "promises 536870912 elements, which " + std::to_string(small.size()) + " compressed bytes cannot hold");
}

TEST(Idx, RefusesMoreOrFewerElementsThanTheShapeHas) {
  const Folder folder("idx-elements");
  EXPECT_EQ(message(folder, gzip(idx({2, 2}, {1, 2, 3}))), "3 elements of [2, 2], expected 4");
  EXPECT_EQ(message(folder, gzip(idx({2, 2}, {1, 2, 3, 4, 5}))), "more bytes than its shape [2, 2] has");
  Bytes two = gzip(idx({1}, {1}));
  const Bytes second = gzip(idx({1}, {2}));
  two.insert(two.end(), second.begin(), second.end());
  EXPECT_EQ(message(folder, two), "more bytes than its shape [1] has");
}

TEST(Idx, NamesAFileThatIsNotThere) {
  const auto array = read_idx("/nowhere/images.gz");
  ASSERT_FALSE(array.ok());
  EXPECT_EQ(array.error().code, Code::kNotFound);
  EXPECT_NE(array.error().message.find("/nowhere/images.gz"), std::string::npos);
}

}  // namespace
}  // namespace troupe::data
