#pragma once
// A part of each image that is observed.
#include <cstdint>

#include <troupe/envs/wrapper.hpp>

namespace troupe::envs {

struct CropOptions {
  std::int64_t height = 84, width = 84;  ///< pixels, at least 1
  std::int64_t top = -1, left = -1;      ///< of the first pixel that stays; -1: the part is in the middle
};

/// Errors of the wrapping: kInvalidArgument when an image has no such part, or nothing that is observed is an image.
Wrap crop(const CropOptions& options);

}  // namespace troupe::envs
