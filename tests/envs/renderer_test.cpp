// Frames without a display. That they are dm_control's to the byte is checked by dm_control_parity.py.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <thread>
#include <vector>

#include <troupe/envs/environment.hpp>
#include <troupe/tests/envs/rendering.hpp>

namespace troupe::envs {
namespace {

using ::testing::HasSubstr;

class Rendering : public testing::Test {
 protected:
  void SetUp() override {
    if (!test::no_rendering().empty()) GTEST_SKIP() << test::no_rendering();
  }
  Rendering() : env(make_environment("cartpole-swingup", 0).value()), row(row_bytes(env->spec().observation)) {
    env->reset(row).value();
  }
  std::vector<std::uint8_t> frame(const RenderOptions& options) {
    std::vector<std::uint8_t> pixels(static_cast<std::size_t>(options.height) *
                                     static_cast<std::size_t>(options.width) * 3);
    const Status status = env->render(options, pixels);
    EXPECT_TRUE(status.ok()) << status.error().message;
    return pixels;
  }

  std::unique_ptr<Environment> env;
  std::vector<std::byte> row;
};

TEST_F(Rendering, ShowsTheState) {
  const auto before = frame({.height = 48, .width = 64});
  EXPECT_GT(std::set<std::uint8_t>(before.begin(), before.end()).size(), 8u) << "blank frame";
  EXPECT_EQ(frame({.height = 48, .width = 64}), before);
  const double push = 1;
  for (int i = 0; i < 50; ++i) ASSERT_TRUE(env->step(std::as_bytes(std::span(&push, 1)), row).ok());
  EXPECT_NE(frame({.height = 48, .width = 64}), before);
}

TEST_F(Rendering, FastProfileDrawsTheSameSceneMorePlainly) {
  const auto faithful = frame({.height = 64, .width = 64});
  const auto fast = frame({.height = 64, .width = 64, .profile = RenderProfile::kFast});
  EXPECT_NE(fast, faithful);
  std::size_t close = 0;
  for (std::size_t i = 0; i < fast.size(); ++i) close += std::abs(fast[i] - faithful[i]) <= 16 ? 1 : 0;
  EXPECT_GT(close, fast.size() * 7 / 10);  // shadows, reflections and edges are the rest
}

TEST_F(Rendering, DoesNotDisturbTheEpisode) {
  auto twin = make_environment("cartpole-swingup", 0).value();
  std::vector<std::byte> twin_row(row.size());
  ASSERT_TRUE(twin->reset(twin_row).ok());
  const double push = 0.5;
  const auto action = std::as_bytes(std::span(&push, 1));
  for (int i = 0; i < 5; ++i) {
    frame({.height = 16, .width = 16, .profile = RenderProfile::kFast});
    ASSERT_TRUE(env->step(action, row).ok());
    ASSERT_TRUE(twin->step(action, twin_row).ok());
    EXPECT_EQ(row, twin_row);
  }
}

TEST_F(Rendering, WorksOnAnotherThreadThanTheFirstTime) {
  const RenderOptions options{.height = 32, .width = 32, .profile = RenderProfile::kFast};
  const auto here = frame(options);
  std::vector<std::uint8_t> there;
  std::thread([&] { there = frame(options); }).join();
  EXPECT_EQ(there, here);
}

TEST_F(Rendering, ManyDrawTheSameAtOnce) {  // on several displays where there are several
  const RenderOptions options{.height = 48, .width = 64};
  const auto expected = frame(options);
  std::vector<std::vector<std::uint8_t>> drawn(5, std::vector<std::uint8_t>(expected.size()));
  {
    std::vector<std::jthread> threads;
    for (auto& pixels : drawn) {
      threads.emplace_back([&pixels, &options] {
        auto own = make_environment("cartpole-swingup", 0).value();
        std::vector<std::byte> observation(row_bytes(own->spec().observation));
        own->reset(observation).value();
        for (int i = 0; i < 3; ++i) own->render(options, pixels).value();
      });
    }
  }
  EXPECT_THAT(drawn, ::testing::Each(expected));
}

TEST_F(Rendering, ShowsWhatTheChosenCameraSees) {
  const auto first = frame({.height = 48, .width = 64});
  EXPECT_EQ(frame({.height = 48, .width = 64, .camera = env->spec().cameras[0]}), first);
  const auto second = frame({.height = 48, .width = 64, .camera = "1"});
  EXPECT_NE(second, first);
  EXPECT_EQ(frame({.height = 48, .width = 64, .camera = env->spec().cameras[1]}), second);
  EXPECT_EQ(frame({.height = 48, .width = 64}), first);
}

TEST_F(Rendering, RefusesCamerasThatThereAreNot) {
  std::vector<std::uint8_t> pixels(84 * 84 * 3);
  for (const char* const camera : {"", "-1", "3", "1.0", "lookatcarts"}) {
    const Status drawn = env->render({.camera = camera}, pixels);
    ASSERT_FALSE(drawn.ok()) << camera;
    EXPECT_EQ(drawn.error().code, Code::kInvalidArgument);
    EXPECT_THAT(drawn.error().message, HasSubstr("expected 0 .. 2 or one of fixed, lookatcart, free"));
  }
}

TEST_F(Rendering, RefusesBadSizes) {
  std::vector<std::uint8_t> pixels(84 * 84 * 3);
  const Status wrong_span = env->render({.height = 84, .width = 83}, pixels);
  ASSERT_FALSE(wrong_span.ok());
  EXPECT_EQ(wrong_span.error().code, Code::kInvalidArgument);
  EXPECT_THAT(wrong_span.error().message, HasSubstr("expected 20916"));
  EXPECT_EQ(env->render({.height = 0, .width = 84}, {}).error().code, Code::kInvalidArgument);
  EXPECT_EQ(env->render({.height = 84, .width = 100000}, {}).error().code, Code::kInvalidArgument);
}

}  // namespace
}  // namespace troupe::envs
