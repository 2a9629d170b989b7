// The safetensors reader and writer: round trips, files of the Python package in both directions, hostile headers.
#include <troupe/messages/safetensors.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include <troupe/core/atomic_file.hpp>
#include <troupe/core/rng.hpp>
#include <troupe/tests/paths.hpp>

namespace troupe::messages {
namespace {

using ::testing::HasSubstr;

std::vector<std::byte> counting(std::size_t size) {
  std::vector<std::byte> bytes(size);
  for (std::size_t i = 0; i < size; ++i) bytes[i] = static_cast<std::byte>(i);
  return bytes;
}

const std::vector<std::byte> kTwoBytes = counting(64);

std::vector<TensorBytes> sample_tensors() {
  const std::span<const std::byte> all(kTwoBytes);
  return {{"policy/weights", DType::kF32, {2, 3}, all.first(24)},
          {"step", DType::kI64, {}, all.subspan(8, 8)},
          {"nothing", DType::kF64, {0, 4}, {}},
          {"half", DType::kBF16, {5}, all.subspan(1, 10)},
          {"../../etc/passwd", DType::kU8, {3}, all.first(3)},
          {"double", DType::kF64, {1, 1, 2}, all.first(16)},
          {"small", DType::kI32, {1}, all.subspan(4, 4)}};
}

std::vector<std::byte> file_of(const std::string& header, std::size_t data_bytes) {
  const std::uint64_t size = header.size();
  std::vector<std::byte> file(8 + header.size() + data_bytes);
  std::memcpy(file.data(), &size, 8);
  std::memcpy(file.data() + 8, header.data(), header.size());
  return file;
}

std::string refusal(const std::string& header, std::size_t data_bytes) {
  const auto result = parse_safetensors(file_of(header, data_bytes));
  return result.ok() ? "accepted" : result.error().message;
}

TEST(Safetensors, RoundTripKeepsEverythingAndAlignsElements) {
  const std::vector<std::byte> file = encode_safetensors(sample_tensors(), {{"run_id", "r1"}}).value();
  const SafetensorsFile parsed = parse_safetensors(file).value();
  EXPECT_EQ(parsed.metadata, (SafetensorsMetadata{{"run_id", "r1"}}));
  ASSERT_EQ(parsed.tensors.size(), sample_tensors().size());
  for (const TensorBytes& expected : sample_tensors()) {
    const auto got = std::ranges::find(parsed.tensors, expected.name, &TensorBytes::name);
    ASSERT_NE(got, parsed.tensors.end()) << expected.name;
    EXPECT_EQ(got->dtype, expected.dtype);
    EXPECT_EQ(got->shape, expected.shape);
    EXPECT_TRUE(std::ranges::equal(got->bytes, expected.bytes));
    EXPECT_EQ((got->bytes.data() - file.data()) % static_cast<std::ptrdiff_t>(dtype_bytes(got->dtype)), 0);
  }
}

TEST(Safetensors, EqualInputInAnyOrderGivesEqualFiles) {
  std::vector<TensorBytes> tensors = sample_tensors();
  const auto file = encode_safetensors(tensors, {}).value();
  std::ranges::reverse(tensors);
  EXPECT_EQ(encode_safetensors(tensors, {}).value(), file);
}

TEST(Safetensors, WriterRefusesWhatReadersWould) {
  const std::vector<TensorBytes> twice = {{"a", DType::kU8, {1}, std::span(kTwoBytes).first(1)},
                                          {"a", DType::kU8, {1}, std::span(kTwoBytes).first(1)}};
  EXPECT_THAT(encode_safetensors(twice, {}).error().message, HasSubstr("comes twice"));
  const std::vector<TensorBytes> torn = {{"a", DType::kF32, {2}, std::span(kTwoBytes).first(7)}};
  EXPECT_THAT(encode_safetensors(torn, {}).error().message, HasSubstr("has 7 bytes, expected 8 for float32[2]"));
  const std::vector<TensorBytes> not_utf8 = {{"\xff\xfe", DType::kU8, {0}, {}}};
  EXPECT_EQ(encode_safetensors(not_utf8, {}).error().code, Code::kInvalidArgument);
}

TEST(Safetensors, HostileHeadersAreRefusedByName) {
  EXPECT_EQ(refusal(R"({"a":{"dtype":"U8","shape":[3],"data_offsets":[0,3]}})", 3), "accepted");
  const auto one = [](const std::string& dtype, const std::string& shape, const std::string& offsets,
                      std::size_t bytes) {
    return refusal(R"({"a":{"dtype":)" + dtype + R"(,"shape":)" + shape + R"(,"data_offsets":)" + offsets + "}}",
                   bytes);
  };
  EXPECT_THAT(one(R"("F32")", "[-1]", "[0,4]", 4), HasSubstr("whole numbers >= 0"));
  EXPECT_THAT(one(R"("F32")", "[1.5]", "[0,4]", 4), HasSubstr("whole numbers >= 0"));
  EXPECT_THAT(one(R"("F16")", "[2]", "[0,4]", 4), HasSubstr("got dtype \"F16\""));
  EXPECT_THAT(one(R"("F32")", "[4294967296,4294967296]", "[0,0]", 0), HasSubstr("shape is too large"));
  EXPECT_THAT(one(R"("F32")", "[18446744073709551615]", "[0,4]", 4), HasSubstr("shape is too large"));
  EXPECT_THAT(one(R"("F32")", "[281474976710656,0,281474976710656]", "[0,0]", 0), HasSubstr("shape is too large"));
  EXPECT_THAT(one(R"("F32")", "[1,1,1,1,1,1,1,1,1]", "[0,4]", 4), HasSubstr("got rank 9"));
  EXPECT_THAT(one(R"("F32")", "[1]", "[4,0]", 4), HasSubstr("not a begin and an end"));
  EXPECT_THAT(one(R"("F32")", "[1]", "[0,8]", 8), HasSubstr("span 8 bytes, expected 4"));
  EXPECT_THAT(one(R"("F32")", "[1]", "[0,4]", 3), HasSubstr("ends at byte 4 of 3"));
  EXPECT_THAT(one(R"("F32")", "[1]", "[0,4]", 5), HasSubstr("1 bytes follow"));
  EXPECT_THAT(one(R"("F32")", "[1]", "[4,8]", 8), HasSubstr("begins at byte 4, expected 0"));
  EXPECT_THAT(one(R"("F32")", "[1]", R"([0,4],"x":1)", 4), HasSubstr("expected exactly"));

  const std::string u8 = R"({"dtype":"U8","shape":[2],"data_offsets":[0,2]})";
  EXPECT_THAT(refusal(R"({"a":)" + u8 + R"(,"b":)" + u8 + "}", 2), HasSubstr("overlap"));
  EXPECT_THAT(refusal(R"({"a":)" + u8 + R"(,"a":)" + u8 + "}", 2), HasSubstr("comes twice"));
  EXPECT_THAT(refusal(R"({"":)" + u8 + "}", 2), HasSubstr("name"));
  EXPECT_THAT(refusal(R"({"a\n":)" + u8 + "}", 2), HasSubstr("name"));
  EXPECT_THAT(refusal(R"({"__metadata__":{"a":[]}})", 0), HasSubstr("not a string"));
  EXPECT_THAT(refusal("[]", 0), HasSubstr("not a JSON object"));
  EXPECT_THAT(refusal("{\"a\":\xff}", 0), HasSubstr("not a JSON object"));
  EXPECT_THAT(refusal("{\"a\":" + std::string(100000, '['), 0), HasSubstr("header"));
}

TEST(Safetensors, HeaderSizeIsCheckedBeforeTheHeaderIsRead) {
  std::vector<std::byte> file = file_of("{}", 0);
  for (std::uint64_t size : {~std::uint64_t{0}, std::uint64_t{1} << 32, std::uint64_t{kMaxSafetensorsHeader} + 1}) {
    std::memcpy(file.data(), &size, 8);
    EXPECT_THAT(parse_safetensors(file).error().message, HasSubstr("expected at most 16777216"));
  }
  const std::uint64_t size = 3;
  std::memcpy(file.data(), &size, 8);
  EXPECT_THAT(parse_safetensors(file).error().message, HasSubstr("header of 3 bytes in a file of 10"));
}

TEST(Safetensors, TruncationsAreRefusedAndMutationsComeToAnEnd) {
  const std::vector<std::byte> file = encode_safetensors(sample_tensors(), {{"k", "v"}}).value();
  for (std::size_t size = 0; size < file.size(); ++size) {
    ASSERT_EQ(parse_safetensors(std::span(file).first(size)).error().code, Code::kCorrupt) << size;
  }
  Rng rng(7);
  int refused = 0;
  for (int i = 0; i < 20000; ++i) {
    std::vector<std::byte> bytes = file;
    for (std::uint64_t flips = 1 + rng.below(3); flips > 0; --flips) {
      bytes[rng.below(bytes.size())] = static_cast<std::byte>(rng());
    }
    const auto result = parse_safetensors(bytes);
    if (!result.ok()) {
      ++refused;
      continue;
    }
    for (const TensorBytes& tensor : result->tensors) {
      ASSERT_LE(tensor.bytes.data() + tensor.bytes.size(), bytes.data() + bytes.size());
    }
  }
  EXPECT_GT(refused, 1000);
}

TEST(Safetensors, ThePythonPackageReadsOursAndWeReadIts) {
  const char* python = std::getenv("TROUPE_TEST_PYTHON");
  if (python == nullptr || *python == '\0') GTEST_SKIP() << "TROUPE_TEST_PYTHON is not set (tools/python_env.sh test)";
  namespace fs = std::filesystem;
  const fs::path directory = fs::path(::testing::TempDir()) / ("safetensors_test_" + std::to_string(getpid()));
  fs::create_directories(directory);
  const std::string ours = (directory / "ours").string(), theirs = (directory / "theirs").string();
  ASSERT_TRUE(write_file_atomic(ours, encode_safetensors(sample_tensors(), {{"run_id", "r1"}}).value()).ok());
  const std::string command =
      std::string(python) + " " + source_dir() + "/tests/messages/safetensors_peer.py " + ours + " " + theirs;
  EXPECT_EQ(std::system(command.c_str()), 0) << command;
  const std::vector<std::byte> file = read_file(theirs, 1 << 20).value();
  const SafetensorsFile parsed = parse_safetensors(file).value();
  ASSERT_EQ(parsed.tensors.size(), 2u);
  const auto ramp = std::ranges::find(parsed.tensors, "ramp", &TensorBytes::name);
  ASSERT_NE(ramp, parsed.tensors.end());
  EXPECT_EQ(ramp->shape, (Shape{2, 2}));
  const float expected[] = {0, 1, 2, 3};
  EXPECT_EQ(std::memcmp(ramp->bytes.data(), expected, sizeof(expected)), 0);
  EXPECT_EQ(parsed.metadata, (SafetensorsMetadata{{"made_by", "python"}}));
  fs::remove_all(directory);
}

}  // namespace
}  // namespace troupe::messages
