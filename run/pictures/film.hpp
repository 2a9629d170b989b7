#pragma once
// One episode of a trained policy as a sequence of pictures.
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include <troupe/core/error.hpp>
#include <troupe/envs/environment.hpp>
#include <troupe/run/pictures/image.hpp>

namespace troupe::apps {

/// The action after an observation, which may be the first of the episode; both packed as in envs/environment.hpp.
/// Valid until the next call.
using ActFunction =
    std::function<Result<std::span<const std::byte>>(std::span<const std::byte> observation, bool first)>;

struct FilmOptions {
  std::uint64_t seed = 0;  ///< of the start state
  envs::RenderOptions render;
  std::int64_t frames_max = 125;  ///< the film leaves steps out so as to have no more frames
};

struct Film {
  std::vector<Image> frames;  ///< of the start, then of every k-th step, evenly in time
  double frame_s = 0;         ///< simulated seconds from frame to frame
  double total_return = 0;    ///< of the whole episode, undiscounted
  std::int64_t steps = 0;
};

/// Plays until the episode ends. Errors: those of the environment, its renderer and the policy.
Result<Film> film_episode(envs::Environment& environment, const ActFunction& act, const FilmOptions& options);

/// Up to `count` (>= 2) of the frames, evenly from the first to the last, side by side.
Image strip(std::span<const Image> frames, std::size_t count);

}  // namespace troupe::apps
