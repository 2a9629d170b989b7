#pragma once
// The last images of an episode as one, from which an agent sees how things move (Mnih et al. 2015).
#include <cstdint>

#include <troupe/envs/wrapper.hpp>

namespace troupe::envs {

/// Each image [height, width, channels] becomes [height, width, count * channels]: the last `count` >= 1 of them, the
/// oldest first. Before an episode has as many, its first one stands for those that there are not (the
/// FrameStackWrapper of DrQ-v2, Yarats et al. 2021). The column's TensorSpec::stack says so, from which replay knows
/// that it may keep each image once. Errors of the wrapping: kInvalidArgument when nothing that is observed is an
/// image.
Wrap frame_stack(std::int64_t count);

}  // namespace troupe::envs
