#include <troupe/envs/spline_zoom.hpp>

#include <array>
#include <cmath>
#include <cstddef>

#include <troupe/core/check.hpp>

namespace troupe::envs {
namespace {

/// Replaces the points of a line, `stride` apart, by the coefficients of the spline through them: a recursive filter
/// with one pole, forwards and backwards.
void filter_line(double* line, std::size_t count, std::size_t stride) {
  constexpr double kPole = -0.267949192431122706472553658494127633;  // sqrt(3) - 2
  constexpr double kGain = (1 - kPole) * (1 - 1 / kPole);
  const auto at = [&](std::size_t i) -> double& { return line[i * stride]; };
  const std::size_t last = count - 1;
  for (std::size_t i = 0; i < count; ++i) at(i) *= kGain;
  // What the filter had come to at the first point if the mirrored line came before it.
  const double around = std::pow(kPole, static_cast<double>(last));
  double power = kPole;
  at(0) += around * at(last);
  for (std::size_t i = 1; i < last; ++i) {
    at(0) += power * (at(i) + around * at(last - i));
    power *= kPole;
  }
  at(0) /= 1 - around * around;
  for (std::size_t i = 1; i < count; ++i) at(i) += kPole * at(i - 1);
  at(last) = (kPole * at(last - 1) + at(last)) * kPole / (kPole * kPole - 1);
  for (std::size_t i = last; i-- > 0;) at(i) = kPole * (at(i + 1) - at(i));
}

/// The four coefficients that a point between two grid points is made of, and how much each counts.
struct Neighbours {
  std::array<std::size_t, 4> index;
  std::array<double, 4> weight;
};

Neighbours neighbours_of(double place, std::size_t count) {
  const double before = std::floor(place);
  const double x = place - before;
  const double rest = 1 - x;
  Neighbours result{};
  auto& weight = result.weight;
  weight[0] = rest * rest * rest / 6;
  weight[1] = (x * x * (x - 2) * 3 + 4) / 6;
  weight[2] = (rest * rest * (rest - 2) * 3 + 4) / 6;
  weight[3] = 1 - weight[0] - weight[1] - weight[2];
  const auto last = static_cast<std::ptrdiff_t>(count) - 1;
  for (std::size_t i = 0; i < 4; ++i) {
    std::ptrdiff_t index = static_cast<std::ptrdiff_t>(before) - 1 + static_cast<std::ptrdiff_t>(i);
    while (index < 0 || index > last) index = index < 0 ? -index : 2 * last - index;  // a short line is mirrored twice
    result.index[i] = static_cast<std::size_t>(index);
  }
  return result;
}

}  // namespace

std::vector<double> spline_zoom(std::span<const double> grid, std::size_t size) {
  const auto count = static_cast<std::size_t>(std::lround(std::sqrt(static_cast<double>(grid.size()))));
  TROUPE_CHECK(count * count == grid.size() && count >= 2 && size >= 2, "a grid of {} points to {} x {}", grid.size(),
               size, size);
  std::vector<double> coefficients(grid.begin(), grid.end());
  for (std::size_t column = 0; column < count; ++column) filter_line(coefficients.data() + column, count, count);
  for (std::size_t row = 0; row < count; ++row) filter_line(coefficients.data() + row * count, count, 1);

  const double step = static_cast<double>(count - 1) / static_cast<double>(size - 1);
  std::vector<Neighbours> places;
  for (std::size_t i = 0; i < size; ++i) places.push_back(neighbours_of(static_cast<double>(i) * step, count));
  std::vector<double> result;
  result.reserve(size * size);
  for (const Neighbours& row : places) {
    for (const Neighbours& column : places) {
      double sum = 0;
      for (std::size_t i = 0; i < 4; ++i) {
        for (std::size_t j = 0; j < 4; ++j) {
          sum += coefficients[row.index[i] * count + column.index[j]] * row.weight[i] * column.weight[j];
        }
      }
      result.push_back(sum);
    }
  }
  return result;
}

}  // namespace troupe::envs
