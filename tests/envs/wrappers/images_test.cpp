// Wrappers of images: which pixels they show, on images that are known pixel by pixel.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <vector>

#include <troupe/envs/wrappers/crop.hpp>
#include <troupe/envs/wrappers/frame_stack.hpp>
#include <troupe/envs/wrappers/resize.hpp>
#include <troupe/tests/envs/wrappers/play.hpp>

namespace troupe::envs {
namespace {

using test::counting;
using test::Play;
using test::refusal;
using Bytes = std::vector<std::uint8_t>;

/// A picture that never changes, with a column before and one behind it: pixel (y, x) is 20 y + 2 x and, in its second
/// channel, one more.
class Still final : public Wrapper {
 public:
  static constexpr std::int64_t kHeight = 4, kWidth = 6;
  static Wrap wrap() {
    return [](std::unique_ptr<Environment> inside, std::uint64_t) -> Result<std::unique_ptr<Environment>> {
      return {std::make_unique<Still>(std::move(inside))};
    };
  }
  explicit Still(std::unique_ptr<Environment> inside) : Wrapper(std::move(inside), make_spec()) {}

  Result<TimeStep> reset(std::span<std::byte> observation) override {
    std::vector<std::byte> ignored(row_bytes(inside().spec().observation));
    TROUPE_ASSIGN(const TimeStep step, inside().reset(ignored));
    std::ranges::fill(observation, std::byte{9});
    for (std::int64_t i = 0; i < kHeight * kWidth * 2; ++i) {
      observation[static_cast<std::size_t>(8 + i)] = static_cast<std::byte>(20 * (i / (2 * kWidth)) + i % (2 * kWidth));
    }
    return step;
  }

 private:
  static EnvSpec make_spec() {
    EnvSpec spec = counting()(0).value()->spec();
    spec.observation = {
        {"before", DType::kF64, {}}, {"still", DType::kU8, {kHeight, kWidth, 2}}, {"behind", DType::kU8, {3}}};
    return spec;
  }
};

MakeEnvironment still(const Wrap& wrap) { return wrapped(counting(), {{"still", Still::wrap()}, {"wrapper", wrap}}); }

TEST(Crop, ShowsTheMiddleOrWhereItBegins) {
  Play middle(still(crop({.height = 2, .width = 2})));
  EXPECT_EQ(middle.env->spec().observation[1].shape, (Shape{2, 2, 2}));
  middle.reset();
  EXPECT_EQ(middle.column<std::uint8_t>("still"), (Bytes{24, 25, 26, 27, 44, 45, 46, 47}));
  EXPECT_EQ(middle.column<std::uint8_t>("before"), Bytes(8, 9));
  EXPECT_EQ(middle.column<std::uint8_t>("behind"), Bytes(3, 9));
  Play corner(still(crop({.height = 1, .width = 3, .top = 0, .left = 3})));
  corner.reset();
  EXPECT_EQ(corner.column<std::uint8_t>("still"), (Bytes{6, 7, 8, 9, 10, 11}));
}

TEST(Crop, RefusesWhatIsNoPart) {
  EXPECT_EQ(refusal(still(crop({.height = 4, .width = 6})), frame_stack(1)), "ok");
  EXPECT_EQ(
      refusal(wrapped(counting(), {{"still", Still::wrap()}}), crop({.height = 5, .width = 1})),
      "wrapper: column still: uint8[4, 6, 2] of counting: got height 5 and top 0, expected a part of the 4 pixels "
      "there are");
  EXPECT_EQ(
      refusal(wrapped(counting(), {{"still", Still::wrap()}}), crop({.height = 1, .width = 3, .left = 4})),
      "wrapper: column still: uint8[4, 6, 2] of counting: got width 3 and left 4, expected a part of the 6 pixels "
      "there are");
}

TEST(Resize, TakesMeansWhereItShrinks) {
  Play play(still(resize(2, 2)));
  play.reset();
  // Of 2 x 3 pixels each: rows 0 and 1, columns 0, 1 and 2, and so on.
  EXPECT_EQ(play.column<std::uint8_t>("still"), (Bytes{12, 13, 18, 19, 52, 53, 58, 59}));
  EXPECT_EQ(play.column<std::uint8_t>("before"), Bytes(8, 9));
  Play same(still(resize(4, 6))), as_it_is(still(crop({.height = 4, .width = 6})));
  same.reset();
  as_it_is.reset();
  EXPECT_EQ(same.row, as_it_is.row);
}

TEST(FrameStack, HasTheOldestFirstAndBeginsWithTheFirstOne) {
  Play play(wrapped(counting(), {{"stack", frame_stack(3)}}));
  EXPECT_EQ(play.env->spec().observation, (Signature{{"count", DType::kF64, {}}, {"image", DType::kU8, {2, 3, 3}}}));
  const auto expect = [&](std::uint8_t oldest, std::uint8_t middle, std::uint8_t newest) {
    Bytes all;
    for (int pixel = 0; pixel < 6; ++pixel) all.insert(all.end(), {oldest, middle, newest});
    EXPECT_EQ(play.column<std::uint8_t>("image"), all);
    EXPECT_EQ(play.column<double>("count"), std::vector<double>{static_cast<double>(newest)});
  };
  for (int episode = 0; episode < 2; ++episode) {
    play.reset();
    expect(0, 0, 0);
    play.step();
    expect(0, 0, 1);
    play.step();
    expect(0, 1, 2);
    play.step();
    expect(1, 2, 3);
  }
}

TEST(FrameStack, KeepsTheChannelsOfAFrameTogether) {
  Play play(still(frame_stack(2)));
  play.reset();
  const Bytes all = play.column<std::uint8_t>("still");
  EXPECT_EQ(Bytes(all.begin(), all.begin() + 8), (Bytes{0, 1, 0, 1, 2, 3, 2, 3}));
}

TEST(FrameStack, MarksItsImagesAsStacks) {
  const auto stacks = [](const MakeEnvironment& make) {
    const auto environment = make(1).value();
    std::vector<Stack> all;
    for (const TensorSpec& column : environment->spec().observation) all.push_back(column.stack);
    return all;
  };
  EXPECT_EQ(stacks(wrapped(counting(), {{"stack", frame_stack(3)}})), (std::vector<Stack>{{}, {3, 2}}));
  EXPECT_EQ(stacks(wrapped(counting(), {{"stack", frame_stack(3)}, {"again", frame_stack(2)}})),
            (std::vector<Stack>{{}, {6, 2}}));
  EXPECT_EQ(stacks(wrapped(counting(), {{"stack", frame_stack(3)}, {"crop", crop({.height = 1, .width = 2})}})),
            (std::vector<Stack>{{}, {3, 2}}));
}

TEST(FrameStack, IsSavedWithTheState) {
  const MakeEnvironment make =
      wrapped(counting({.observation = {{"a", DType::kU8, {2, 1, 1}}, {"b", DType::kU8, {1, 1, 3}}}}),
              {{"stack", frame_stack(3)}});
  Play play(make), other(make);
  play.reset();
  play.step();
  play.step();
  other.reset();
  ASSERT_TRUE(other.env->restore_state(play.env->save_state()).ok());
  play.step();
  other.step();
  EXPECT_EQ(other.row, play.row);
  EXPECT_EQ(other.column<std::uint8_t>("a"), (Bytes{1, 2, 3, 1, 2, 3}));
}

TEST(ImageWrapper, AnEnvironmentWithoutImagesIsRefused) {
  const MakeEnvironment make =
      counting({.observation = {{"count", DType::kF64, Shape{}}, {"bytes", DType::kU8, Shape{4}}}});
  const std::string expected =
      "wrapper: counting observes no image: got count: float64[], bytes: uint8[4], expected uint8[height, width, "
      "channels]";
  EXPECT_EQ(refusal(make, frame_stack(3)), expected);
  EXPECT_EQ(refusal(make, crop({})), expected);
  EXPECT_EQ(refusal(make, resize(2, 2)), expected);
}

}  // namespace
}  // namespace troupe::envs
