#pragma once
#include <filesystem>
#include <span>

#include <troupe/core/error.hpp>
#include <troupe/run/pictures/image.hpp>

namespace troupe::apps {

/// Writes an animation that repeats for ever (giflib), replacing the file. All frames have one size and share a palette
/// of at most 256 colours, chosen by median cut over all of them; pixels are not dithered, since dither moves between
/// frames and does not compress. Only the rectangle that differs from the frame before is stored. frame_s:
/// seconds a frame is shown, in hundredths; browsers slow down below 0.02. Errors: kIo.
Status write_gif(const std::filesystem::path& path, std::span<const Image> frames, double frame_s);

}  // namespace troupe::apps
