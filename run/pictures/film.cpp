#include <troupe/run/pictures/film.hpp>

#include <algorithm>
#include <cstddef>

#include <troupe/core/check.hpp>
#include <troupe/core/tensor.hpp>

namespace troupe::apps {

Result<Film> film_episode(envs::Environment& environment, const ActFunction& act, const FilmOptions& options) {
  TROUPE_CHECK(options.frames_max >= 2, "frames_max {}", options.frames_max);
  const envs::EnvSpec& spec = environment.spec();
  // Frames: the start and every k-th step.
  const std::int64_t every =
      std::max<std::int64_t>(1, (spec.episode_steps + options.frames_max - 2) / (options.frames_max - 1));
  Film film;
  film.frame_s = spec.control_dt * static_cast<double>(every);
  const auto shoot = [&]() -> Status {
    Image& frame = film.frames.emplace_back(options.render.width, options.render.height);
    return environment.render(options.render, frame.pixels);
  };

  std::vector<std::byte> observation(row_bytes(spec.observation));
  TROUPE_ASSIGN(envs::TimeStep step, environment.reset(options.seed, observation));
  TROUPE_TRY(shoot());
  while (!step.last()) {
    TROUPE_ASSIGN(const auto action, act(observation, step.first()));
    TROUPE_ASSIGN(step, environment.step(action, observation));
    film.total_return += step.reward;
    if (++film.steps % every == 0) TROUPE_TRY(shoot());
  }
  return film;
}

Image strip(std::span<const Image> frames, std::size_t count) {
  TROUPE_CHECK(!frames.empty() && count >= 2, "{} of {} frames", count, frames.size());
  constexpr int kGap = 2;
  count = std::min(count, frames.size());
  std::vector<Image> chosen;
  for (std::size_t i = 0; i < count; ++i) {
    chosen.push_back(frames[count == 1 ? 0 : i * (frames.size() - 1) / (count - 1)]);
  }
  return side_by_side(chosen, kGap);
}

}  // namespace troupe::apps
