// Bytes from an enemy: every reader must answer any input with a value or an error, in bounded time and memory. In the
// asan preset every access outside of a buffer is a failure too.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <limits>

#include <troupe/core/rng.hpp>

#include <troupe/tests/messages/samples.hpp>

namespace troupe::messages {
namespace {

using ::testing::HasSubstr;
using testing::read_all;

constexpr std::array kKinds = {Kind::kTrajectory,       Kind::kBatch,           Kind::kParameters,
                               Kind::kPriorities,       Kind::kEpisode,         Kind::kMetrics,
                               Kind::kControl,          Kind::kParametersUse,   Kind::kParametersVersion,
                               Kind::kInferenceRequest, Kind::kInferenceAnswer, Kind::kGradient,
                               Kind::kGradientAnswer,   Kind::kParametersPull,  Kind::kStepsRequest,
                               Kind::kStepsGrant,       Kind::kSampleRequest,   Kind::kParameters,
                               Kind::kEvaluation,       Kind::kSteps,           Kind::kBatch};

std::vector<std::byte> bytes_of(const Frame& frame) { return {frame.bytes().begin(), frame.bytes().end()}; }

/// A message from 64-bit words behind a right segment table.
Frame from_words(FramePool& pool, const std::vector<std::uint64_t>& words) {
  std::vector<std::uint64_t> all{static_cast<std::uint64_t>(words.size()) << 32};
  all.insert(all.end(), words.begin(), words.end());
  return pool.copy(std::as_bytes(std::span(all))).value();
}

// Pointers of the encoding (capnproto.org/encoding.html); offsets in words from the end of the pointer.
constexpr std::uint64_t offset_bits(std::int64_t offset) {
  return static_cast<std::uint32_t>(static_cast<std::uint64_t>(offset) << 2);
}
constexpr std::uint64_t struct_pointer(std::int64_t offset, std::uint64_t data_words, std::uint64_t pointers) {
  return offset_bits(offset) | data_words << 32 | pointers << 48;
}
constexpr std::uint64_t list_pointer(std::int64_t offset, std::uint64_t size_code, std::uint64_t count) {
  return offset_bits(offset) | 1 | size_code << 32 | count << 35;
}
constexpr std::uint64_t kVoids = 0, kBytes = 2, kWords = 5, kComposite = 7;
constexpr std::uint64_t kMaxCount = (1u << 29) - 1;

TEST(Hostile, TruncationAtEveryByteIsRefused) {
  FramePool pool;
  for (const Frame& good : testing::samples(pool)) {
    const std::vector<std::byte> bytes = bytes_of(good);
    for (std::size_t size = 0; size < bytes.size(); ++size) {
      const Frame frame = pool.copy(std::span(bytes).first(size)).value();
      for (Kind kind : kKinds) ASSERT_EQ(read_all(frame, kind).error().code, Code::kCorrupt) << size;
    }
  }
}

TEST(Hostile, OtherKindsAreRefusedByName) {
  FramePool pool;
  const std::vector<Frame> frames = testing::samples(pool);
  for (std::size_t i = 0; i < frames.size(); ++i) {
    for (std::size_t j = 0; j < kKinds.size(); ++j) {
      const Status status = read_all(pool.copy(frames[i].bytes()).value(), kKinds[j]);
      ASSERT_EQ(status.ok(), kKinds[i] == kKinds[j]) << i << " " << j;
      if (status.ok()) continue;
      EXPECT_EQ(status.error().code, Code::kInvalidArgument);
      EXPECT_THAT(status.error().message, HasSubstr(std::string(to_string(kKinds[i]))));
    }
  }
}

TEST(Hostile, HundredThousandMutationsGiveAValueOrAnError) {
  FramePool pool;
  Rng rng(20240601);
  const std::vector<Frame> frames = testing::samples(pool);
  int accepted = 0, refused = 0;
  for (int i = 0; i < 100000; ++i) {
    const std::size_t which = rng.below(frames.size());
    std::vector<std::byte> bytes = bytes_of(frames[which]);
    for (std::uint64_t flips = 1 + rng.below(4); flips > 0; --flips) {
      // Mostly in the head, where the pointers are; sometimes a whole word of extremes.
      const std::size_t at = rng.below(rng.below(4) == 0 ? bytes.size() : std::min<std::size_t>(bytes.size(), 256));
      if (rng.below(8) == 0) {
        const std::uint64_t word = rng.below(2) == 0 ? ~std::uint64_t{0} : rng();
        std::memcpy(bytes.data() + at / 8 * 8, &word, sizeof(word));
      } else {
        bytes[at] = static_cast<std::byte>(rng());
      }
    }
    (read_all(pool.copy(bytes).value(), kKinds[which]).ok() ? accepted : refused) += 1;
  }
  // Flipped data bytes are other data; flipped pointers mostly are not. Both must occur, else this tests nothing.
  EXPECT_GT(accepted, 1000);
  EXPECT_GT(refused, 1000);
}

TEST(Hostile, SegmentTableIsCheckedBeforeCapnProtoSeesIt) {
  FramePool pool;
  std::vector<std::byte> bytes = bytes_of(testing::sample_trajectory(pool));
  const auto with_table = [&](std::uint32_t count_minus_one, std::uint32_t words) {
    std::memcpy(bytes.data(), &count_minus_one, 4);
    std::memcpy(bytes.data() + 4, &words, 4);
    return read_trajectory(pool.copy(bytes).value()).error().message;
  };
  EXPECT_EQ(with_table(0xffffffffu, 0), "frame: got 4294967296 segments, expected 1");
  EXPECT_EQ(with_table(600, 0), "frame: got 601 segments, expected 1");
  EXPECT_THAT(with_table(0, 0xffffffffu), HasSubstr("segment table says 4294967295 words"));
  const std::string_view http = "GET / HTTP/1.1\r\n";
  EXPECT_EQ(read_control(pool.copy(std::as_bytes(std::span(http))).value()).error().code, Code::kCorrupt);
}

TEST(Hostile, PointersOutOfBoundsAreErrors) {
  FramePool pool;
  EXPECT_EQ(read_trajectory(from_words(pool, {struct_pointer(1 << 28, 1, 1), 0})).error().code, Code::kCorrupt);
  const auto kind = static_cast<std::uint64_t>(Kind::kParameters);
  const Frame data = from_words(
      pool, {struct_pointer(0, 1, 1), kind, struct_pointer(0, 4, 1), 0, 0, 0, 0, list_pointer(0, kBytes, kMaxCount)});
  EXPECT_THAT(read_parameters(data).error().message, HasSubstr("out-of-bounds"));
}

TEST(Hostile, CyclesComeToAnEnd) {
  FramePool pool;
  for (Kind kind : kKinds) {
    // The envelope's message is the envelope itself, or its own pointer word read as a struct.
    for (std::int64_t offset : {-2, -1}) {
      const Frame cycle =
          from_words(pool, {struct_pointer(0, 1, 1), static_cast<std::uint64_t>(kind), struct_pointer(offset, 1, 1)});
      const Status status = read_all(cycle, kind);  // a value made of defaults, or an error; but it returns
      EXPECT_TRUE(status.ok() || !status.error().message.empty());
    }
  }
}

TEST(Hostile, AmplificationCostsLittle) {
  FramePool pool;
  const auto start = std::chrono::steady_clock::now();
  // 200 columns whose data is one and the same block of 32 KiB: 6.4 MB of claims in 38 KB.
  constexpr std::uint64_t kColumns = 200, kBlockWords = 4096;
  std::vector<std::uint64_t> words = {struct_pointer(0, 1, 1),
                                      static_cast<std::uint64_t>(Kind::kTrajectory),
                                      struct_pointer(0, 5, 2),
                                      0,
                                      0,
                                      0,
                                      0,
                                      /*rows=*/1,
                                      list_pointer(1, kComposite, 2 * kColumns),
                                      /*priorities=*/0,
                                      kColumns << 2 | std::uint64_t{2} << 48};
  for (std::uint64_t i = 0; i < kColumns; ++i) {
    words.push_back(0);  // an empty spec
    words.push_back(list_pointer(static_cast<std::int64_t>(2 * (kColumns - i) - 2), kBytes, kBlockWords * 8));
  }
  words.resize(words.size() + kBlockWords);
  EXPECT_FALSE(read_trajectory(from_words(pool, words)).ok());

  // Lists of void elements claim 2^29 entries in no bytes at all.
  const auto kind = static_cast<std::uint64_t>(Kind::kPriorities);
  EXPECT_FALSE(
      read_priorities(from_words(pool, {struct_pointer(0, 1, 1), kind, struct_pointer(0, 0, 2),
                                        list_pointer(1, kVoids, kMaxCount), list_pointer(0, kVoids, kMaxCount), 0}))
          .ok());
  // The same as a list of structs without content: scalars of a metric row.
  const auto metrics = static_cast<std::uint64_t>(Kind::kMetrics);
  EXPECT_FALSE(read_metrics(from_words(pool, {struct_pointer(0, 1, 1), metrics, struct_pointer(0, 3, 1), 0, 0, 0,
                                              list_pointer(0, kComposite, 0), (kMaxCount << 2)}))
                   .ok());
  // Generous for a sanitizer build on a busy machine; without limits these take minutes or gigabytes.
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::milliseconds(500));
}

TEST(Hostile, UnterminatedAndMistypedTextsAreErrors) {
  FramePool pool;
  const auto control = [&](std::uint64_t text_pointer, std::uint64_t text) {
    return read_control(from_words(pool, {struct_pointer(0, 1, 1), static_cast<std::uint64_t>(Kind::kControl),
                                          struct_pointer(0, 1, 2), 0, text_pointer, 0, text}));
  };
  EXPECT_EQ(control(list_pointer(1, kBytes, 3), 0x006261).value().node, "ab");
  EXPECT_EQ(control(list_pointer(1, kBytes, 3), 0x636261).error().code, Code::kCorrupt);
  EXPECT_EQ(control(list_pointer(1, kWords, 1), 0).error().code, Code::kCorrupt);
}

/// Overwrites the first aligned place in the message that holds `from` by `to`.
template <typename T>
Frame patched(FramePool& pool, const Frame& frame, T from, T to) {
  std::vector<std::byte> bytes = bytes_of(frame);
  for (std::size_t at = 8; at + sizeof(T) <= bytes.size(); at += sizeof(T)) {
    if (std::memcmp(bytes.data() + at, &from, sizeof(T)) == 0) {
      std::memcpy(bytes.data() + at, &to, sizeof(T));
      return pool.copy(bytes).value();
    }
  }
  ADD_FAILURE() << "nothing to patch";
  return pool.copy(bytes).value();
}

template <typename T>
std::string refusal(const Result<T>& result) {
  return result.ok() ? "accepted" : result.error().message;
}

TEST(Hostile, WellFormedTrajectoriesWithBadContentAreRefusedByName) {
  FramePool pool;
  const auto signature = std::make_shared<const Signature>(Signature{{"x", DType::kF64, {11}}});
  auto builder = TrajectoryBuilder::make(pool, {.signature = signature, .max_rows = 13, .priorities = true}).value();
  std::ranges::fill(builder.rows().as<double>(0), 1.25);
  std::ranges::fill(builder.priorities(), 0.75);
  const Frame good = std::move(builder).finish({.sequence = 81}, 13);
  ASSERT_EQ(refusal(read_trajectory(patched(pool, good, 1.25, 1.5))), "accepted");

  const auto refused = [&](auto from, auto to) { return refusal(read_trajectory(patched(pool, good, from, to))); };
  const double nan = std::numeric_limits<double>::quiet_NaN();
  EXPECT_EQ(refused(1.25, nan), "trajectory 81 of producer 0: column x: float64[11] holds a NaN or an infinity");
  EXPECT_EQ(refused(0.75, -1.0), "trajectory 81 of producer 0: priorities[0]: got -1, expected a finite value >= 0");
  EXPECT_THAT(refused(0.75, nan), HasSubstr("expected a finite value >= 0"));
  const std::int64_t dim = 11, rows = 13;
  EXPECT_EQ(refused(dim, std::int64_t{-1}),
            "trajectory 81 of producer 0: column 0: dimension 0 is -1, expected at least 1");
  EXPECT_THAT(refused(dim, std::int64_t{0}), HasSubstr("dimension 0 is 0"));
  EXPECT_THAT(refused(dim, std::numeric_limits<std::int64_t>::max()), HasSubstr("more than 536870911 bytes"));
  // 2^61 elements of 8 bytes: the product is 0 in 64 bits.
  EXPECT_THAT(refused(dim, std::int64_t{1} << 61), HasSubstr("more than 536870911 bytes"));
  EXPECT_EQ(refused(dim, std::int64_t{12}),
            "trajectory 81 of producer 0: column x: float64[12] has 1144 bytes, expected 1248 for 13 rows");
  EXPECT_THAT(refused(rows, std::int64_t{-13}), HasSubstr("got -13 rows"));
  EXPECT_THAT(refused(rows, std::int64_t{1} << 60), HasSubstr("rows, expected 0.."));
}

TEST(Hostile, StacksWithoutTheirPlanesAreRefusedByName) {
  FramePool pool;
  const auto signature =
      std::make_shared<const Signature>(Signature{{"depth", DType::kF32, {5, 12}, {4}}, {"other", DType::kI32, {4}}});
  auto builder = TrajectoryBuilder::make(pool, {.signature = signature, .max_rows = 3}).value();
  for (std::size_t i = 0; i < 180; ++i) builder.rows().as<float>(0)[i] = 100 + static_cast<float>(i);
  std::ranges::fill(builder.rows().as<std::int32_t>(1), 77);
  const Frame good = std::move(builder).finish({.sequence = 83}, 3);
  ASSERT_EQ(refusal(read_trajectory(pool.copy(good.bytes()).value())), "accepted");
  const auto refused = [&](auto from, auto to) { return refusal(read_trajectory(patched(pool, good, from, to))); };
  const std::string where = "trajectory 83 of producer 0: ";
  // The last row names planes 8..11.
  EXPECT_EQ(refused(std::uint64_t{10} | std::uint64_t{11} << 32, std::uint64_t{10} | std::uint64_t{12} << 32),
            where + "row 2 of column \"depth\" names plane 12, expected 0..11");
  EXPECT_EQ(refused(std::uint64_t{10} | std::uint64_t{11} << 32, std::uint64_t{10} | std::uint64_t{0xffffffff} << 32),
            where + "row 2 of column \"depth\" names plane -1, expected 0..11");
  EXPECT_EQ(refused(100.0F, std::numeric_limits<float>::quiet_NaN()),
            where + "column depth: float32[5, 12] holds a NaN or an infinity");
  EXPECT_THAT(refused(std::int64_t{12}, std::int64_t{13}), HasSubstr("is a stack of 4 planes along dimension -1"));
  EXPECT_THAT(refused(std::int64_t{12}, std::int64_t{28}), HasSubstr("720 bytes of planes, expected at most"));
  EXPECT_THAT(refused(std::int64_t{12}, std::int64_t{1} << 60), HasSubstr("more than 536870911 bytes"));
  EXPECT_THAT(refused(std::int64_t{5}, std::int64_t{0}), HasSubstr("dimension 0 is 0"));
  Rng rng(7);
  const std::vector<std::byte> bytes = bytes_of(testing::sample_stacks(pool));
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    const Frame frame = pool.copy(std::span(bytes).first(size)).value();
    ASSERT_EQ(read_all(frame, Kind::kTrajectory).error().code, Code::kCorrupt) << size;
  }
  int accepted = 0, others = 0;
  for (int i = 0; i < 20000; ++i) {
    std::vector<std::byte> mutated = bytes;
    const std::size_t most = rng.below(3) == 0 ? mutated.size() : std::size_t{400};
    for (std::uint64_t flips = 1 + rng.below(3); flips > 0; --flips) {
      mutated[rng.below(most)] = static_cast<std::byte>(rng());
    }
    (read_all(pool.copy(mutated).value(), Kind::kTrajectory).ok() ? accepted : others) += 1;
  }
  EXPECT_GT(accepted, 300);
  EXPECT_GT(others, 300);
}

TEST(Hostile, ProbabilitiesThatWeightsCannotDivideByAreRefused) {
  FramePool pool;
  const Frame batch = testing::sample_batch(pool);
  EXPECT_THAT(refusal(read_batch(patched(pool, batch, 0.25, 0.0))), HasSubstr("got probability 0"));
  EXPECT_THAT(refusal(read_batch(patched(pool, batch, 0.25, std::numeric_limits<double>::quiet_NaN()))),
              HasSubstr("got probability nan"));
}

TEST(Hostile, PiecesOfParametersThatDoNotFitAreRefusedByName) {
  FramePool pool;
  const auto refused = [&](std::int64_t from, std::int64_t to) {
    return refusal(read_parameters(patched(pool, testing::sample_parameters_piece(pool), from, to)));
  };
  // Ranges of 4 elements at 0 and 6 at 32, of 40.
  EXPECT_EQ(refused(40, 41), "accepted");
  EXPECT_EQ(refused(40, 37), "parameters of version 7: got a range of 6 elements at 32, expected it in 4..37");
  EXPECT_EQ(refused(32, 3), "parameters of version 7: got a range of 6 elements at 3, expected it in 4..40");
  EXPECT_THAT(refused(32, -1), HasSubstr("at -1, expected it in 4..40"));
  EXPECT_THAT(refused(6, std::numeric_limits<std::int64_t>::max()), HasSubstr("expected it in 4..40"));
  EXPECT_THAT(refused(6, 0), HasSubstr("got a range of 0 elements"));
  EXPECT_EQ(refused(6, 5), "parameters of version 7: got 10 elements, expected the 9 of its ranges");
  EXPECT_THAT(refused(40, -40), HasSubstr("got -40 elements, expected >= 0"));
  const std::uint32_t three = 3;
  EXPECT_EQ(
      refusal(read_parameters(patched(pool, testing::sample_parameters_piece(pool), three, kMaxParametersPieces + 1))),
      "parameters of version 7: got piece 1 of 1025, expected one of at most 1024");
}

TEST(Hostile, UnknownEnumerantsAreRefused) {
  FramePool pool;
  const auto parameters = static_cast<std::uint64_t>(Kind::kParameters);
  EXPECT_EQ(refusal(read_parameters(from_words(
                pool, {struct_pointer(0, 1, 1), parameters, struct_pointer(0, 4, 1), 7, 0, 0, /*dtype=*/77, 0}))),
            "parameters of version 7: got unknown dtype 77");
  const auto control = static_cast<std::uint64_t>(Kind::kControl);
  EXPECT_EQ(refusal(read_control(from_words(
                pool, {struct_pointer(0, 1, 1), control, struct_pointer(0, 1, 2), /*kind=*/kControlKinds, 0, 0}))),
            "control: got unknown kind " + std::to_string(kControlKinds));
  EXPECT_THAT(refusal(read_trajectory(from_words(pool, {struct_pointer(0, 1, 1), 999, 0}))), HasSubstr("kind 999"));
}

}  // namespace
}  // namespace troupe::messages
