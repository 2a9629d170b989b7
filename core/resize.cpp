#include <troupe/core/resize.hpp>

#include <algorithm>
#include <cmath>

#include <troupe/core/check.hpp>

namespace troupe {
namespace {

/// out[i] += weight * in[i]
void add(std::span<const std::uint8_t> in, float weight, float* out) {
  for (std::size_t i = 0; i < in.size(); ++i) out[i] += weight * static_cast<float>(in[i]);
}

template <int kChannels>
void horizontal(const float* line, std::span<const std::int32_t> first, const float* weights, std::int64_t count,
                float* out) {
  for (const std::int32_t begin : first) {
    float sum[kChannels] = {};
    const float* in = line + static_cast<std::ptrdiff_t>(begin) * kChannels;
    for (std::int64_t tap = 0; tap < count; ++tap, in += kChannels) {
      for (int c = 0; c < kChannels; ++c) sum[c] += weights[tap] * in[c];
    }
    for (int c = 0; c < kChannels; ++c) *out++ = sum[c];
    weights += count;
  }
}

/// The same of any number of channels.
void horizontal(const float* line, std::span<const std::int32_t> first, const float* weights, std::int64_t count,
                std::int64_t channels, float* out) {
  for (const std::int32_t begin : first) {
    std::fill_n(out, channels, 0.0F);
    const float* in = line + begin * channels;
    for (std::int64_t tap = 0; tap < count; ++tap, in += channels) {
      for (std::int64_t c = 0; c < channels; ++c) out[c] += weights[tap] * in[c];
    }
    out += channels;
    weights += count;
  }
}

}  // namespace

void Resizer::Axis::prepare(double begin, double length, std::int64_t from, std::int64_t to, bool mirror,
                            Shrink shrink) {
  const auto low = static_cast<std::int64_t>(begin);
  const std::int64_t high = std::min(static_cast<std::int64_t>(std::ceil(begin + length)), from);
  const double scale = length / static_cast<double>(to), reach = std::max(scale, 1.0);
  const bool area = shrink == Shrink::kArea && scale > 1;
  count = std::min(static_cast<std::int64_t>(std::ceil(2 * reach)) + 1, high - low);
  first.resize(static_cast<std::size_t>(to));
  weights.resize(static_cast<std::size_t>(to * count));
  for (std::int64_t i = 0; i < to; ++i) {
    const double middle = begin + (static_cast<double>(mirror ? to - 1 - i : i) + 0.5) * scale;
    const auto nearest = static_cast<std::int64_t>(std::floor(middle - reach + 0.5));
    const std::int64_t start = std::clamp(nearest, low, high - count);
    first[static_cast<std::size_t>(i)] = static_cast<std::int32_t>(start);
    const std::span<float> w = std::span(weights).subspan(static_cast<std::size_t>(i * count));
    double sum = 0;
    for (std::int64_t tap = 0; tap < count; ++tap) {
      const double pixel = static_cast<double>(start + tap);
      const double covered = std::min(pixel + 1, middle + scale / 2) - std::max(pixel, middle - scale / 2);
      const double weight = std::max(0.0, area ? covered : 1 - std::abs(pixel + 0.5 - middle) / reach);
      w[static_cast<std::size_t>(tap)] = static_cast<float>(weight);
      sum += weight;
    }
    for (std::int64_t tap = 0; tap < count; ++tap) w[static_cast<std::size_t>(tap)] /= static_cast<float>(sum);
  }
}

void Resizer::resize(const PixelView& from, const Region& region, const To& to, std::span<float> out) {
  TROUPE_CHECK(from.channels >= 1, "resize: {} channels", from.channels);
  rows_.prepare(region.top, region.height, from.height, to.height, false, to.shrink);
  columns_.prepare(region.left, region.width, from.width, to.width, to.mirror, to.shrink);
  // Rows first: one pass over whole lines is what vector units like best.
  const auto [leftmost, rightmost] = std::ranges::minmax(columns_.first);
  const auto begin = static_cast<std::size_t>(leftmost * from.channels);
  const auto length = static_cast<std::size_t>((rightmost - leftmost + columns_.count) * from.channels);
  for (std::int32_t& at : columns_.first) at -= leftmost;
  line_.resize(length);
  const auto stride = static_cast<std::size_t>(from.width * from.channels);
  float* to_row = out.data();
  for (std::int64_t y = 0; y < to.height; ++y, to_row += to.width * from.channels) {
    std::fill(line_.begin(), line_.end(), 0.0F);
    const auto first = static_cast<std::size_t>(rows_.first[static_cast<std::size_t>(y)]);
    for (std::int64_t tap = 0; tap < rows_.count; ++tap) {
      const float weight = rows_.weights[static_cast<std::size_t>(y * rows_.count + tap)];
      if (weight == 0) continue;
      add(from.pixels.subspan((first + static_cast<std::size_t>(tap)) * stride + begin, length), weight, line_.data());
    }
    const float* const weights = columns_.weights.data();
    if (from.channels == 1) {
      horizontal<1>(line_.data(), columns_.first, weights, columns_.count, to_row);
    } else if (from.channels == 3) {
      horizontal<3>(line_.data(), columns_.first, weights, columns_.count, to_row);
    } else {
      horizontal(line_.data(), columns_.first, weights, columns_.count, from.channels, to_row);
    }
  }
}

}  // namespace troupe
