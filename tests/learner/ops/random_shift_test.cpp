// Images of bytes in a graph, and their shifts: against plain loops, on one stripe and on several, also of short
// batches and in bfloat16. Against PyTorch: tests/algorithms/agents_golden_test.cpp; the gradient: gradient_test.cpp;
// on GPUs: engine/cuda/kernels_test.cpp.
#include <troupe/learner/ops/random_shift.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <vector>

#include <troupe/core/rng.hpp>
#include <troupe/learner/engine/program.hpp>
#include <troupe/learner/ops/image.hpp>
#include <troupe/learner/ops/random.hpp>

namespace troupe::learner {
namespace {

using testing::HasSubstr;

constexpr std::int64_t kRows = 6, kHeight = 5, kWidth = 7, kChannels = 3;
constexpr std::int64_t kImage = kHeight * kWidth * kChannels;
const Shape kShape{kHeight, kWidth, kChannels};

std::vector<std::uint8_t> some_bytes(std::int64_t count) {
  Rng rng(4);
  std::vector<std::uint8_t> bytes(static_cast<std::size_t>(count));
  for (std::uint8_t& byte : bytes) byte = static_cast<std::uint8_t>(rng.below(256));
  return bytes;
}

/// What image `image` is when it is padded and cut out `down` lines and `right` pixels behind the first place.
std::uint8_t cut(const std::vector<std::uint8_t>& from, std::int64_t image, std::int64_t down, std::int64_t right,
                 std::int64_t padding, std::int64_t element) {
  const std::int64_t channel = element % kChannels, column = element / kChannels % kWidth,
                     line = element / kChannels / kWidth;
  const std::int64_t h = std::clamp<std::int64_t>(line + down - padding, 0, kHeight - 1);
  const std::int64_t w = std::clamp<std::int64_t>(column + right - padding, 0, kWidth - 1);
  return from[static_cast<std::size_t>(image * kImage + (h * kWidth + w) * kChannels + channel)];
}

TEST(Shift, CutsAWindowOutOfThePaddedImage) {
  const std::vector<std::uint8_t> pixels = some_bytes(kRows * kImage);
  std::vector<float> reals(pixels.begin(), pixels.end());
  for (const std::int64_t padding : {0, 1, 4, 9}) {
    Rng rng(2);
    std::vector<std::int64_t> offsets;
    std::vector<float> draws;
    for (std::int64_t i = 0; i < 2 * kRows; ++i) {
      const auto all = static_cast<std::uint64_t>(2 * padding + 1);
      offsets.push_back(i == 0 ? 0 : i == 1 ? 2 * padding : static_cast<std::int64_t>(rng.below(all)));
      draws.push_back((static_cast<float>(offsets.back()) + 0.5F) / static_cast<float>(all));
    }
    draws[0] = 0, draws[1] = 0x1.fffffep-1F;  // the ends of what is drawn
    for (const int stripes : {1, 3}) {
      for (const DType compute : {DType::kF32, DType::kBF16}) {  // which has all whole numbers up to 256
        Graph graph(kRows);
        const Var by = graph.input("draws", {2});
        graph.output("bytes", from_bytes(shift(graph.input("pixels", kShape, DType::kU8), by, padding)));
        graph.output("reals", shift(graph.input("reals", kShape), by, padding));
        const auto program = Program::compile(graph, {.stripes = stripes, .compute = compute}).value();
        program->bind("pixels", std::span<const std::uint8_t>(pixels)).value();
        program->bind("reals", std::span<const float>(reals)).value();
        program->bind("draws", std::span<const float>(draws)).value();
        program->run().value();
        for (const char* name : {"bytes", "reals"}) {
          const auto got = program->output(name);
          ASSERT_EQ(std::ssize(got), kRows * kImage);
          for (std::int64_t i = 0; i < kRows * kImage; ++i) {
            const auto image = static_cast<std::size_t>(i / kImage);
            ASSERT_EQ(got[static_cast<std::size_t>(i)],
                      cut(pixels, i / kImage, offsets[2 * image], offsets[2 * image + 1], padding, i % kImage))
                << name << ' ' << i << " padded by " << padding;
          }
        }
      }
    }
  }
}

TEST(Shift, DrawsAllPlacesAlikeByRowAndName) {
  // One line of pixels that count: what is at place 0 says where the window lies.
  constexpr std::int64_t kBatch = 4096, kPadding = 4;
  std::vector<std::uint8_t> lines(static_cast<std::size_t>(kBatch * 9 * 9));
  for (std::size_t i = 0; i < lines.size(); ++i) lines[i] = static_cast<std::uint8_t>(i % 81);
  std::vector<float> first_run;
  for (const int stripes : {1, 4}) {
    Graph graph(kBatch);
    const Var x = graph.input("x", {9, 9, 1}, DType::kU8);
    for (const char* name : {"now", "next"}) graph.output(name, from_bytes(random_shift(x, name, kPadding)));
    const auto program = Program::compile(graph, {.stripes = stripes, .seed = 1}).value();
    program->bind("x", std::span<const std::uint8_t>(lines)).value();
    program->run().value();
    const std::vector<float> now(program->output("now").begin(), program->output("now").end());
    const std::vector<float> next(program->output("next").begin(), program->output("next").end());
    if (stripes == 1) first_run = now;
    EXPECT_EQ(now, first_run) << "stripes change nothing";
    std::array<int, 81> places{};
    int alike = 0;
    for (std::int64_t row = 0; row < kBatch; ++row) {
      // The pixel in the middle is 40 plus 9 times the lines and the pixels of the shift, of -4 to 4 each.
      const auto middle = static_cast<std::size_t>(row * 81 + 40);
      ++places[static_cast<std::size_t>(now[middle])];
      alike += now[middle] == next[middle] ? 1 : 0;
    }
    for (const int count : places) EXPECT_NEAR(count, kBatch / 81, 35) << "five deviations of 7";
    EXPECT_NEAR(alike, kBatch / 81, 35) << "independent of each other";
    program->run().value();
    EXPECT_FALSE(std::ranges::equal(program->output("now"), now)) << "another step, other draws";
  }
}

TEST(Shift, IsRefusedForWhatIsNoImage) {
  const auto error = [](auto build) {
    Graph graph(4);
    build(graph, graph.input("draws", {2}));
    return graph.status().ok() ? "none" : graph.status().error().message;
  };
  EXPECT_THAT(error([](Graph& g, Var draws) { shift(g.input("x", {3}), draws, 4); }),
              HasSubstr("shift: got [4, 3] and [4, 2], expected images"));
  EXPECT_THAT(error([](Graph& g, Var) { shift(g.input("x", kShape), g.input("d", {3}), 4); }),
              HasSubstr("draws [n, 2]"));
  EXPECT_THAT(error([](Graph& g, Var draws) { shift(g.input("x", kShape, DType::kI32), draws, 4); }),
              HasSubstr("bytes or real numbers"));
  EXPECT_THAT(error([](Graph& g, Var draws) { shift(g.input("x", kShape), draws, -1); }),
              HasSubstr("padding is -1, expected at least 0"));
}

TEST(Bytes, AreBoundByNameInWholeAndShortBatches) {
  const Signature columns = {{"reward", DType::kF32, {}}, {"pixels", DType::kU8, kShape}};
  BatchBuffer batch(columns, kRows);
  const std::vector<std::uint8_t> pixels = some_bytes(kRows * kImage);
  std::ranges::copy(pixels, batch.mutable_view().as<std::uint8_t>(1).begin());
  for (const int stripes : {1, 3}) {
    for (const std::int64_t rows : {kRows, kRows - 2}) {
      Graph graph(kRows);
      graph.output("y", from_bytes(graph.input("pixels", kShape, DType::kU8), 1.0 / 255, -0.5));
      const auto program = Program::compile(graph, {.stripes = stripes}).value();
      program->bind(batch.view().slice(0, rows)).value();
      program->run().value();
      const auto got = program->output("y");
      ASSERT_EQ(std::ssize(got), rows * kImage);
      for (std::size_t i = 0; i < got.size(); ++i) {
        EXPECT_NEAR(got[i], static_cast<float>(pixels[i]) / 255 - 0.5F, 1e-7) << i;
      }
    }
  }
}

TEST(Bytes, OfAnotherTypeAreRefused) {
  Graph graph(kRows);
  graph.output("y", from_bytes(graph.input("pixels", kShape, DType::kU8)));
  const auto program = Program::compile(graph, {}).value();
  const std::vector<float> floats(static_cast<std::size_t>(kRows * kImage));
  EXPECT_EQ(program->bind("pixels", std::span<const float>(floats)).error().message,
            "bind \"pixels\": got float32, expected uint8");
  BatchBuffer wrong({{"pixels", DType::kF32, kShape}}, kRows);
  EXPECT_THAT(program->bind(wrong.view()).error().message, HasSubstr("of an input uint8[6, 5, 7, 3]"));
}

}  // namespace
}  // namespace troupe::learner
