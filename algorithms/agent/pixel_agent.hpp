#pragma once
// What agents have alike that see one image, act by one vector of numbers and learn from n-step transitions: DrQ-v2,
// D4PG from pixels, and one of your own.
#include <cstdint>
#include <string_view>

#include <troupe/algorithms/agent/algorithm.hpp>
#include <troupe/envs/environment.hpp>

namespace troupe {

/// Whether anything of the observation is bytes, as images are.
bool shows_images(const envs::EnvSpec& environment);

/// Fills in wrap, columns, greedy and adder; policy, explores, published and make_replica are the algorithm's own. The
/// policy takes "pixels", uint8 [height, width, channels], and gives "action". Errors: kInvalidArgument, when the
/// environment observes anything but one image of that name, or its actions are not continuous; `who` is the algorithm.
Result<Algorithm> pixel_agent(const envs::EnvSpec& environment, std::int64_t n_step, double discount,
                              std::string_view who);

}  // namespace troupe
