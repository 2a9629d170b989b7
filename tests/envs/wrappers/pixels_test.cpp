// Drawn observations: which columns there are, and that they are what render() draws, also after a state was restored.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <troupe/envs/wrappers/frame_stack.hpp>
#include <troupe/envs/wrappers/pixels.hpp>
#include <troupe/tests/envs/rendering.hpp>
#include <troupe/tests/envs/wrappers/play.hpp>

namespace troupe::envs {
namespace {

using test::counting;
using test::Play;
using test::refusal;

MakeEnvironment seen(const std::string& name, const PixelsOptions& options, const std::vector<NamedWrap>& more = {}) {
  std::vector<NamedWrap> all = {{"pixels", pixels(options)}};
  all.insert(all.end(), more.begin(), more.end());
  return wrapped(shared_environments(name), all);
}

TEST(PixelColumns, OfOneCameraIsCalledPixels) {
  const auto env = seen("cartpole-swingup", {.height = 12, .width = 16})(0).value();
  EXPECT_EQ(env->spec().observation, (Signature{{"pixels", DType::kU8, {12, 16, 3}}}));
  EXPECT_TRUE(check_spec(env->spec()).ok());
}

TEST(PixelColumns, OfSeveralCamerasAreCalledAfterThem) {
  const auto env = seen("cheetah-run", {.height = 8, .width = 8, .cameras = {"side", "back"}, .keep_states = true})(0);
  EXPECT_EQ((*env)->spec().observation, (Signature{{"position", DType::kF64, {8}},
                                                   {"velocity", DType::kF64, {9}},
                                                   {"pixels_side", DType::kU8, {8, 8, 3}},
                                                   {"pixels_back", DType::kU8, {8, 8, 3}}}));
}

TEST(PixelColumns, WhatDoesNotFitIsRefused) {
  const auto cheetah = shared_environments("cheetah-run");
  EXPECT_EQ(
      refusal(cheetah, pixels({.cameras = {"sid"}})),
      "wrapper: cheetah-run has no camera \"sid\" (did you mean side?), expected 0 .. 2 or one of side, back, free");
  EXPECT_EQ(refusal(cheetah, pixels({.cameras = {"3"}})),
            "wrapper: cheetah-run has no camera \"3\", expected 0 .. 2 or one of side, back, free");
  EXPECT_EQ(
      refusal(cheetah, pixels({.cameras = {"side", "side"}})),
      "wrapper: cheetah-run observes a column pixels_side already, expected each camera once and no column of this "
      "name");
  EXPECT_EQ(refusal(counting(), pixels({})), "wrapper: counting has no picture of itself: its spec names no camera");
  EXPECT_EQ(
      refusal(seen("cheetah-run", {}), pixels({.keep_states = true})),
      "wrapper: cheetah-run observes a column pixels already, expected each camera once and no column of this name");
}

class Pixels : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!test::no_rendering().empty()) GTEST_SKIP() << test::no_rendering();
  }
  static std::vector<std::uint8_t> drawn(Environment& env, const std::string& camera, RenderProfile profile) {
    std::vector<std::uint8_t> pixels(24 * 32 * 3);
    EXPECT_TRUE(env.render({.height = 24, .width = 32, .profile = profile, .camera = camera}, pixels).ok());
    return pixels;
  }
};

TEST_F(Pixels, AreWhatTheCamerasSee) {
  for (const RenderProfile profile : {RenderProfile::kDmControl, RenderProfile::kFast}) {
    Play play(seen(
        "cartpole-swingup",
        {.height = 24, .width = 32, .cameras = {"lookatcart", "0", "free"}, .keep_states = true, .profile = profile}));
    Play bare(shared_environments("cartpole-swingup"));
    play.reset();
    bare.reset();
    for (int i = 0; i < 5; ++i) {
      play.step(1);
      bare.step(1);
    }
    for (const char* const camera : {"lookatcart", "0", "free"}) {
      EXPECT_EQ(play.column<std::uint8_t>((std::string("pixels_") + camera).c_str()), drawn(*bare.env, camera, profile))
          << camera;
    }
    EXPECT_NE(drawn(*bare.env, "lookatcart", profile), drawn(*bare.env, "0", profile));
    EXPECT_EQ(play.column<double>("position"), bare.column<double>("position"));
    EXPECT_EQ(play.column<double>("velocity"), bare.column<double>("velocity"));
  }
}

TEST_F(Pixels, GoOnAsTheyWereFromASavedState) {
  for (const char* const name : {"cartpole-swingup", "reacher-easy"}) {
    const MakeEnvironment make =
        seen(name, {.height = 24, .width = 32, .profile = RenderProfile::kFast}, {{"stack", frame_stack(3)}});
    std::vector<std::byte> action(make(0).value()->spec().action.tensor.bytes());
    Play play(make, 1), other(make, 2);
    play.reset();
    for (int i = 0; i < 3; ++i) ASSERT_TRUE(play.env->step(action, play.row).ok());
    ASSERT_TRUE(other.env->restore_state(play.env->save_state()).ok());
    for (int i = 0; i < 5; ++i) {
      ASSERT_TRUE(play.env->step(action, play.row).ok());
      ASSERT_TRUE(other.env->step(action, other.row).ok());
      ASSERT_TRUE(play.row == other.row) << name << ", step " << i;
    }
  }
}

TEST_F(Pixels, DrawnInsideAreNotDisturbedByPicturesOfAnotherSize) {
  const MakeEnvironment make = seen("cartpole-swingup", {.height = 24, .width = 32, .profile = RenderProfile::kFast});
  Play play(make), alone(make);
  play.reset();
  alone.reset();
  for (int i = 0; i < 3; ++i) {
    drawn(*play.env, "1", RenderProfile::kDmControl);
    play.step(1);
    alone.step(1);
    EXPECT_EQ(play.row, alone.row);
  }
}

}  // namespace
}  // namespace troupe::envs
