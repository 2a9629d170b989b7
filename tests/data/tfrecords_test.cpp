// Shards as TensorFlow's scripts write them, and the same with bytes missing, flipped or promised in vain.
#include <troupe/data/tfrecords.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <troupe/data/tf_example.hpp>
#include <troupe/tests/data/write_tfrecords.hpp>

namespace troupe::data {
namespace {

using ::testing::HasSubstr;
using namespace testing;  // NOLINT: the writers

Bytes image(std::uint8_t id) { return Bytes(10 + id, id); }

/// Two shards of three records, with labels 1 .. 6; one shard to validate.
struct Shards {
  explicit Shards(const std::string& name) : folder(name) {
    for (std::uint8_t shard = 0; shard < 2; ++shard) {
      std::string bytes;
      for (std::uint8_t i = 0; i < 3; ++i) {
        const auto id = static_cast<std::uint8_t>(3 * shard + i);
        bytes += record(example(image(id), id + 1U));
      }
      write(path(shard), bytes);
    }
    write(folder.path / "validation-00000-of-00001", record(example(image(7), 2)));
  }
  std::filesystem::path path(int shard) const {
    return folder.path / ("train-0000" + std::to_string(shard) + "-of-00002");
  }
  std::string bytes(int shard) const {
    std::ifstream file(path(shard), std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  Result<std::shared_ptr<const TfRecords>> open(const TfRecordOptions& options = {}) const {
    return TfRecords::open(folder.path, Split::kTrain, options);
  }
  std::string error(const TfRecordOptions& options = {}) const {
    const auto set = open(options);
    return set.ok() ? "it was opened" : set.error().message;
  }
  Folder folder;
};

std::string error_of(const Dataset& set, std::int64_t index) {
  Sample sample;
  const Status read = set.read(index, sample);
  if (read.ok()) return "it was read";
  EXPECT_EQ(read.error().code, Code::kCorrupt);
  return read.error().message;
}

TEST(TfRecords, AreReadAtRandomFromAllShards) {
  const Shards shards("records-good");
  write(shards.folder.path / "README", std::string("nothing of ours"));
  const auto set = shards.open().value();
  ASSERT_EQ(set->count(), 6);
  EXPECT_EQ(set->classes(), 1000);
  Sample sample;
  for (const std::int64_t index : {5, 0, 3, 1, 4, 2}) {
    set->read(index, sample).value();
    EXPECT_EQ(sample.label, index);
    EXPECT_EQ(Bytes(sample.bytes.begin(), sample.bytes.end()), image(static_cast<std::uint8_t>(index)));
  }
  EXPECT_EQ(set->name(4), shards.path(1).string() + ": record 1");
  const auto validation = TfRecords::open(shards.folder.path, Split::kTest, {}).value();
  EXPECT_EQ(validation->count(), 1);
}

TEST(TfRecords, NameTheShardThatIsMissing) {
  const Shards shards("records-missing");
  std::filesystem::remove(shards.path(0));
  EXPECT_EQ(shards.error(), shards.path(0).string() + ": missing");
  std::filesystem::create_directory(shards.path(0));
  EXPECT_EQ(shards.error(), shards.path(0).string() + ": a directory, expected a file");
  std::filesystem::remove(shards.path(0));
  std::filesystem::remove(shards.path(1));
  EXPECT_EQ(shards.error(), shards.folder.path.string() + ": no TFRecords, expected files train-00000-of-NNNNN ...");
  write(shards.folder.path / "train-00000-of-00001", std::string());
  EXPECT_EQ(shards.error(), (shards.folder.path / "train-00000-of-00001").string() + ": no records");
  write(shards.folder.path / "train-00000-of-00003", std::string());
  EXPECT_THAT(shards.error(), HasSubstr("shards of several sets, expected the shards of one set"));
  EXPECT_THAT(TfRecords::open("/nowhere", Split::kTrain, {}).error().message,
              HasSubstr("/nowhere: no folder of TFRecords"));
}

TEST(TfRecords, FindEveryCut) {
  const Shards shards("records-cut");
  const std::string whole = shards.bytes(1);
  const std::size_t first = record(example(image(3), 4)).size();
  const std::size_t second = first + record(example(image(4), 5)).size();
  for (std::size_t kept = 0; kept < whole.size(); ++kept) {
    write(shards.path(1), whole.substr(0, kept));
    if (kept == 0 || kept == first || kept == second) {
      EXPECT_EQ(shards.open().value()->count(), kept == 0 ? 3 : kept == first ? 4 : 5);  // a shorter shard, but whole
      continue;
    }
    const int at = kept < first ? 0 : kept < second ? 1 : 2;
    EXPECT_THAT(shards.error(), HasSubstr("00001-of-00002: record " + std::to_string(at) + ": ")) << kept;
    if (kept % 8 != 0) continue;
    const auto rest = shards.open({.skip_damaged = true});
    ASSERT_TRUE(rest.ok()) << rest.error().message;
    EXPECT_EQ((*rest)->count(), 3 + at);
    EXPECT_EQ((*rest)->damaged(), 1);
  }
}

TEST(TfRecords, FindEveryFlippedByte) {
  const Shards shards("records-flipped");
  const std::string whole = shards.bytes(0);
  for (std::size_t at = 0; at < whole.size(); ++at) {
    std::string flipped = whole;
    flipped[at] = static_cast<char>(flipped[at] ^ 0x10);
    write(shards.path(0), flipped);
    const auto set = shards.open();
    if (!set.ok()) {
      EXPECT_THAT(set.error().message, HasSubstr("the checksum of its length is wrong")) << at;
      continue;
    }
    int found = 0;
    Sample sample;
    for (std::int64_t i = 0; i < 6; ++i) found += !(*set)->read(i, sample).ok();
    EXPECT_EQ(found, 1) << at;
  }
}

TEST(TfRecords, AllocateNothingForPromises) {
  const Shards shards("records-large");
  for (const std::uint64_t promised : {1ULL << 60, ~0ULL, (1ULL << 26) + 1, 1ULL << 20}) {
    std::string length;
    for (int i = 0; i < 8; ++i) length += static_cast<char>(promised >> (8 * i));
    const std::uint32_t crc = masked_crc32c(crc32c(std::as_bytes(std::span(length))));
    for (int i = 0; i < 4; ++i) length += static_cast<char>(crc >> (8 * i));
    write(shards.path(0), length + std::string(100, 'x'));
    EXPECT_THAT(shards.error(),
                HasSubstr(promised > 1ULL << 26 ? "bytes, expected at most 67108864"
                                                : "1048576 bytes, but the file ends after 100 of them"));
  }
}

TEST(TfRecords, RefuseLabelsThatAreNoClass) {
  const Shards shards("records-label");
  const auto few = shards.open({.classes = 4}).value();
  EXPECT_EQ(error_of(*few, 3), "it was read");
  EXPECT_EQ(error_of(*few, 4), shards.path(1).string() + ": record 1: label 5, expected 1 .. 4");
  write(shards.path(0), record(example({}, 0)) + record(example({}, ~0ULL)));
  const auto set = shards.open().value();
  EXPECT_EQ(error_of(*set, 0), shards.path(0).string() + ": record 0: label 0, expected 1 .. 1000");
  EXPECT_EQ(error_of(*set, 1), shards.path(0).string() + ": record 1: label -1, expected 1 .. 1000");
}

Result<ImageExample> parsed(const std::string& bytes) {
  return parse_image_example({reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size()});
}

TEST(TfExample, TakesNumbersPackedOrOneByOne) {
  const std::string image = bytes_feature("image/encoded", "x");
  EXPECT_EQ(parsed(field(1, image + int64_feature("image/class/label", 300))).value().label, 300);
  const std::string unpacked = field(3, varint(1 << 3 | 0) + varint(300));
  EXPECT_EQ(parsed(field(1, image + feature("image/class/label", unpacked))).value().label, 300);
}

TEST(TfExample, SaysWhatIsMissing) {
  const std::string image = bytes_feature("image/encoded", "x"), label = int64_feature("image/class/label", 3);
  const auto error = [](const std::string& bytes) { return parsed(bytes).error().message; };
  EXPECT_EQ(error({}), "no tf.train.Example: no feature image/encoded");
  EXPECT_EQ(error(field(1, image)), "no tf.train.Example: no feature image/class/label");
  EXPECT_EQ(error(field(1, label + bytes_feature("image/class/label", "3"))),
            "no tf.train.Example: 0 values of image/class/label, expected one");
  const std::string two = feature("image/encoded", field(1, field(1, "x") + field(1, "y")));
  EXPECT_EQ(error(field(1, two + label)), "no tf.train.Example: 2 values of image/encoded, expected one");
  EXPECT_EQ(error("\x0b"), "no tf.train.Example: wire type 3");
  EXPECT_EQ(error(std::string("\x0a") + varint(1ULL << 60) + "x"),
            "no tf.train.Example: a field of 1152921504606846976 bytes, where 1 are left");
  EXPECT_EQ(error(std::string(11, '\xff')), "no tf.train.Example: a number of more than ten bytes");
}

TEST(TfExample, SurvivesCutsAndFlippedBytes) {
  const std::string whole = example(Bytes(40, 9), 7);
  int bad = 0;
  for (std::size_t at = 0; at < whole.size(); ++at) {
    bad += !parsed(whole.substr(0, at)).ok();
    for (int bit = 0; bit < 8; ++bit) {
      std::string flipped = whole;
      flipped[at] = static_cast<char>(flipped[at] ^ (1 << bit));
      const auto example = parsed(flipped);
      if (!example.ok()) continue;
      const auto* const begin = reinterpret_cast<const std::uint8_t*>(flipped.data());
      ASSERT_GE(example->encoded.data(), begin);
      ASSERT_LE(example->encoded.data() + example->encoded.size(), begin + flipped.size());
    }
  }
  EXPECT_EQ(bad, static_cast<int>(whole.size()));
}

}  // namespace
}  // namespace troupe::data
