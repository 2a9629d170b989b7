#pragma once
// Each image that is observed at another size.
#include <cstdint>

#include <troupe/envs/wrapper.hpp>

namespace troupe::envs {

/// height, width: pixels, at least 1. A side that shrinks has the means over the areas of its new pixels (OpenCV's
/// INTER_AREA), rounded to the nearest; one that grows is bilinear. Errors of the wrapping: kInvalidArgument when
/// nothing that is observed is an image.
Wrap resize(std::int64_t height, std::int64_t width);

}  // namespace troupe::envs
