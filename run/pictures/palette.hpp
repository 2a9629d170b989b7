#pragma once
// Colours for formats that allow only 256 of them.
#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include <troupe/run/pictures/image.hpp>

namespace troupe::apps {

using Colour = std::array<std::uint8_t, 3>;

/// Chooses at most colours_max colours (>= 1) that stand for those of the frames: Heckbert's median cut (SIGGRAPH 1982)
/// over a histogram of 5 bits a channel. Fewer distinct colours than that come out exactly as they are.
std::vector<Colour> median_cut(std::span<const Image> frames, std::size_t colours_max);

/// Gives for every pixel the index of the nearest palette entry (squared distance in RGB). palette: 1 .. 256 entries.
std::vector<std::uint8_t> to_indices(const Image& image, std::span<const Colour> palette);

}  // namespace troupe::apps
