// Filming with an environment that counts its steps and draws them.
#include <gtest/gtest.h>

#include <cstring>

#include <troupe/run/pictures/film.hpp>

namespace troupe::apps {
namespace {

/// An episode of 10 steps of 0.02 s. Observes the step and gives the action back as reward; draws the step's number in
/// every byte.
class CountingEnvironment final : public envs::Environment {
 public:
  CountingEnvironment() {
    spec_.name = "counting";
    spec_.observation = {{.name = "step", .dtype = DType::kF64, .shape = Shape{1}}};
    spec_.action = envs::ActionSpec::continuous({-1}, {1});
    spec_.episode_steps = 10;
    spec_.control_dt = 0.02;
  }
  const envs::EnvSpec& spec() const override { return spec_; }
  Result<envs::TimeStep> reset(std::uint64_t seed, std::span<std::byte> observation) override {
    seed_ = seed;
    return reset(observation);
  }
  Result<envs::TimeStep> reset(std::span<std::byte> observation) override {
    step_ = 0;
    observe(observation);
    return envs::TimeStep{};
  }
  Result<envs::TimeStep> step(std::span<const std::byte> action, std::span<std::byte> observation) override {
    ++step_;
    observe(observation);
    double number = 0;
    std::memcpy(&number, action.data(), sizeof(number));
    return envs::TimeStep{.type = step_ == 10 ? envs::StepType::kLast : envs::StepType::kMid, .reward = number};
  }
  std::vector<std::byte> save_state() const override { return {}; }
  Status restore_state(std::span<const std::byte>) override { return {}; }
  Status render(const envs::RenderOptions& options, std::span<std::uint8_t> pixels) override {
    if (options.width > 100) return Error{Code::kUnavailable, "no display"};
    std::memset(pixels.data(), static_cast<int>(step_), pixels.size());
    return {};
  }
  std::uint64_t seed() const { return seed_; }

 private:
  void observe(std::span<std::byte> observation) const {
    const auto value = static_cast<double>(step_);
    std::memcpy(observation.data(), &value, sizeof(value));
  }

  envs::EnvSpec spec_;
  std::int64_t step_ = 0;
  std::uint64_t seed_ = 0;
};

Result<std::span<const std::byte>> act_on_observation(std::span<const std::byte> observation, bool first) {
  static double action;
  std::memcpy(&action, observation.data(), sizeof(action));
  EXPECT_EQ(first, action == 0);
  action /= 2;
  return std::as_bytes(std::span(&action, 1));
}

std::vector<int> shown(const Film& film) {
  std::vector<int> steps;
  for (const Image& frame : film.frames) steps.push_back(frame.pixels[0]);
  return steps;
}

TEST(Film, PlaysAWholeEpisodeAndShowsEveryStep) {
  CountingEnvironment environment;
  const FilmOptions options = {.seed = 7, .render = {.height = 2, .width = 3}, .frames_max = 11};
  const Result<Film> film = film_episode(environment, act_on_observation, options);
  ASSERT_TRUE(film.ok()) << film.error().message;
  EXPECT_EQ(environment.seed(), 7u);
  EXPECT_EQ(film->steps, 10);
  EXPECT_DOUBLE_EQ(film->total_return, 45 / 2.0);  // observations 0 .. 9, halved
  EXPECT_EQ(shown(*film), (std::vector<int>{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10}));
  EXPECT_DOUBLE_EQ(film->frame_s, 0.02);
  EXPECT_EQ(film->frames[0].width, 3);
  EXPECT_EQ(film->frames[0].height, 2);
}

TEST(Film, LeavesStepsOutToKeepWithinTheFrames) {
  CountingEnvironment environment;
  const auto film = [&](std::int64_t frames_max) {
    return film_episode(environment, act_on_observation,
                        {.render = {.height = 1, .width = 1}, .frames_max = frames_max})
        .value();
  };
  EXPECT_EQ(shown(film(10)), (std::vector<int>{0, 2, 4, 6, 8, 10}));
  EXPECT_DOUBLE_EQ(film(10).frame_s, 0.04);
  EXPECT_EQ(shown(film(4)), (std::vector<int>{0, 4, 8}));
  EXPECT_EQ(shown(film(2)), (std::vector<int>{0, 10}));
}

TEST(Film, ErrorsOfRendererAndPolicyEndIt) {
  CountingEnvironment environment;
  EXPECT_EQ(film_episode(environment, act_on_observation, {.render = {.height = 1, .width = 101}}).error().message,
            "no display");
  const auto broken = [](std::span<const std::byte>, bool) -> Result<std::span<const std::byte>> {
    return Error{Code::kInternal, "no policy"};
  };
  EXPECT_EQ(film_episode(environment, broken, {.render = {.height = 1, .width = 1}}).error().message, "no policy");
}

TEST(Strip, ShowsFirstAndLastFrameAndSomeBetween) {
  std::vector<Image> frames;
  for (int i = 0; i < 5; ++i) {
    Image& frame = frames.emplace_back(1, 1);
    frame.pixels.assign(3, static_cast<std::uint8_t>(i));
  }
  const Image three = strip(frames, 3);  // one pixel a frame, two white ones between
  EXPECT_EQ(three.width, 7);
  EXPECT_EQ(three.pixels[0], 0);
  EXPECT_EQ(three.pixels[3], 255);
  EXPECT_EQ(three.pixels[9], 2);
  EXPECT_EQ(three.pixels[18], 4);
  EXPECT_EQ(strip(frames, 9).width, 13);  // no more than there are
  EXPECT_EQ(strip(std::span(frames).first(1), 2).width, 1);
}

}  // namespace
}  // namespace troupe::apps
