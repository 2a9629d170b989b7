#include <troupe/envs/numpy_math.hpp>

#include <cmath>
#include <cstddef>

#include <troupe/core/check.hpp>

namespace troupe::envs {
namespace {
// Compilers make a product of a power whose exponent they know.
const volatile double kTwo = 2;
}  // namespace

double dot(std::span<const double> a, std::span<const double> b) {
  TROUPE_CHECK(a.size() == b.size(), "a dot product of {} and {} numbers", a.size(), b.size());
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}

double norm(std::span<const double> vector) { return std::sqrt(dot(vector, vector)); }

void normalize(std::span<double> vector) {
  const double length = norm(vector);
  for (double& number : vector) number /= length;
}

double mean(std::span<const double> values) {
  const std::size_t count = values.size();
  TROUPE_CHECK(count >= 1 && count <= 128, "the mean of {} numbers", count);
  double sum = 0;
  std::size_t next = 0;
  if (count >= 8) {
    std::array<double, 8> strands;
    for (std::size_t i = 0; i < 8; ++i) strands[i] = values[i];
    for (next = 8; next + 8 <= count; next += 8) {
      for (std::size_t i = 0; i < 8; ++i) strands[i] += values[next + i];
    }
    sum = ((strands[0] + strands[1]) + (strands[2] + strands[3])) +
          ((strands[4] + strands[5]) + (strands[6] + strands[7]));
  }
  for (; next < count; ++next) sum += values[next];
  return sum / static_cast<double>(count);
}

double squared_by_pow(double number) { return std::pow(number, double{kTwo}); }
float squared_by_pow(float number) { return std::pow(number, static_cast<float>(kTwo)); }

std::array<double, 3> in_frame(std::span<const double, 3> vector, const double* rotation) {
  std::array<double, 3> result;
  for (std::size_t i = 0; i < 3; ++i) {
    result[i] = (vector[0] * rotation[i] + vector[1] * rotation[3 + i]) + vector[2] * rotation[6 + i];
  }
  return result;
}

}  // namespace troupe::envs
