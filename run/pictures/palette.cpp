#include <troupe/run/pictures/palette.hpp>

#include <algorithm>
#include <cstddef>
#include <limits>

#include <troupe/core/check.hpp>

namespace troupe::apps {
namespace {

constexpr int kBits = 5;
constexpr std::size_t kCells = std::size_t{1} << (3 * kBits);

std::size_t cell_of(const std::uint8_t* pixel) {
  constexpr int kShift = 8 - kBits;
  return static_cast<std::size_t>(pixel[0] >> kShift) << (2 * kBits) |
         static_cast<std::size_t>(pixel[1] >> kShift) << kBits | static_cast<std::size_t>(pixel[2] >> kShift);
}

/// The pixels that fall into one cell of the histogram: their number and the sums of their channels.
struct Cell {
  std::uint64_t count = 0;
  std::array<std::uint64_t, 3> sum{};

  double mean(std::size_t channel) const { return static_cast<double>(sum[channel]) / static_cast<double>(count); }
};

/// A range of cells that one palette entry will stand for.
struct Box {
  std::size_t begin = 0;
  std::size_t end = 0;
  std::uint64_t count = 0;
  std::size_t widest_channel = 0;
  double width = 0;  ///< of the widest channel

  /// Boxes with many pixels over a wide range are split first.
  double priority() const { return width * static_cast<double>(count); }
};

Box make_box(std::span<const Cell> cells, std::size_t begin, std::size_t end) {
  Box box{.begin = begin, .end = end};
  for (std::size_t channel = 0; channel < 3; ++channel) {
    double low = 255, high = 0;
    for (std::size_t i = begin; i < end; ++i) {
      low = std::min(low, cells[i].mean(channel));
      high = std::max(high, cells[i].mean(channel));
    }
    if (high - low > box.width) {
      box.width = high - low;
      box.widest_channel = channel;
    }
  }
  for (std::size_t i = begin; i < end; ++i) box.count += cells[i].count;
  return box;
}

Colour mean_colour(std::span<const Cell> cells, const Box& box) {
  Cell total;
  for (std::size_t i = box.begin; i < box.end; ++i) {
    total.count += cells[i].count;
    for (std::size_t channel = 0; channel < 3; ++channel) total.sum[channel] += cells[i].sum[channel];
  }
  Colour colour;
  for (std::size_t channel = 0; channel < 3; ++channel) {
    colour[channel] = static_cast<std::uint8_t>((total.sum[channel] + total.count / 2) / total.count);
  }
  return colour;
}

/// The distinct colours of the frames, or nothing when there are more than `most`.
std::vector<Colour> few_colours(std::span<const Image> frames, std::size_t most) {
  std::vector<Colour> colours;
  for (const Image& frame : frames) {
    for (std::size_t i = 0; i < frame.pixels.size(); i += 3) {
      const Colour colour = {frame.pixels[i], frame.pixels[i + 1], frame.pixels[i + 2]};
      if (!colours.empty() && colours.back() == colour) continue;  // runs of one colour are common
      if (std::find(colours.begin(), colours.end(), colour) != colours.end()) continue;
      if (colours.size() == most) return {};
      colours.push_back(colour);
    }
  }
  return colours;
}

}  // namespace

std::vector<Colour> median_cut(std::span<const Image> frames, std::size_t colours_max) {
  TROUPE_CHECK(!frames.empty() && colours_max >= 1, "{} frames, {} colours", frames.size(), colours_max);
  if (std::vector<Colour> colours = few_colours(frames, colours_max); !colours.empty()) return colours;

  std::vector<Cell> cells(kCells);
  for (const Image& frame : frames) {
    for (std::size_t i = 0; i < frame.pixels.size(); i += 3) {
      Cell& cell = cells[cell_of(&frame.pixels[i])];
      ++cell.count;
      for (std::size_t channel = 0; channel < 3; ++channel) cell.sum[channel] += frame.pixels[i + channel];
    }
  }
  std::erase_if(cells, [](const Cell& cell) { return cell.count == 0; });

  std::vector<Box> boxes = {make_box(cells, 0, cells.size())};
  while (boxes.size() < colours_max) {
    const auto box = std::max_element(boxes.begin(), boxes.end(),
                                      [](const Box& a, const Box& b) { return a.priority() < b.priority(); });
    if (box->end - box->begin < 2) break;
    const auto at = [&](std::size_t i) { return cells.begin() + static_cast<std::ptrdiff_t>(i); };
    std::sort(at(box->begin), at(box->end), [channel = box->widest_channel](const Cell& a, const Cell& b) {
      return a.mean(channel) < b.mean(channel);
    });
    // Half of the pixels to each side, and at least one cell.
    std::size_t middle = box->begin + 1;
    for (std::uint64_t count = cells[box->begin].count; middle + 1 < box->end && count < box->count / 2; ++middle) {
      count += cells[middle].count;
    }
    const Box upper = make_box(cells, middle, box->end);
    *box = make_box(cells, box->begin, middle);
    boxes.push_back(upper);
  }
  std::vector<Colour> palette;
  for (const Box& box : boxes) palette.push_back(mean_colour(cells, box));
  return palette;
}

std::vector<std::uint8_t> to_indices(const Image& image, std::span<const Colour> palette) {
  TROUPE_CHECK(!palette.empty() && palette.size() <= 256, "palette of {} colours", palette.size());
  const auto nearest = [&](const std::uint8_t* pixel) {
    std::size_t best = 0;
    int best_distance = std::numeric_limits<int>::max();
    for (std::size_t i = 0; i < palette.size(); ++i) {
      int distance = 0;
      for (std::size_t channel = 0; channel < 3; ++channel) {
        const int difference = pixel[channel] - palette[i][channel];
        distance += difference * difference;
      }
      if (distance < best_distance) {
        best_distance = distance;
        best = i;
      }
    }
    return static_cast<std::uint8_t>(best);
  };
  std::vector<std::uint8_t> indices(image.pixels.size() / 3);
  for (std::size_t i = 0; i < indices.size(); ++i) {
    const std::uint8_t* pixel = &image.pixels[3 * i];
    // Neighbours mostly share their colour, and the search is what costs.
    indices[i] = i > 0 && std::equal(pixel, pixel + 3, pixel - 3) ? indices[i - 1] : nearest(pixel);
  }
  return indices;
}

}  // namespace troupe::apps
