#pragma once
// Sums and squares as numpy makes them, for tasks whose start states, observations and rewards are to have dm_control's
// or gymnasium's bits. The order of additions is numpy's own, and products are rounded before they are added: numpy
// does so wherever its linear algebra has no fused multiply-add. Where it has (on most x86-64 machines, unless told
// otherwise), such numbers of dm_control differ in their last bits from machine to machine.
#include <array>
#include <span>

namespace troupe::envs {

/// np.linalg.norm of a vector.
double norm(std::span<const double> vector);
/// vector /= np.linalg.norm(vector).
void normalize(std::span<double> vector);
/// np.dot of two vectors of one length.
double dot(std::span<const double> a, std::span<const double> b);
/// np.mean of 1 to 128 numbers: from eight on they are added in eight strands.
double mean(std::span<const double> values);

/// number ** 2 of a number that is not in an array: the C library's pow(), which now and then rounds otherwise than the
/// product does.
double squared_by_pow(double number);
float squared_by_pow(float number);

/// vector.dot(rotation): a vector [3] of the world in the frame whose rotation matrix [3, 3] is row-major at
/// `rotation`.
std::array<double, 3> in_frame(std::span<const double, 3> vector, const double* rotation);

/// to - from, both [3].
inline std::array<double, 3> difference(const double* to, const double* from) {
  return {to[0] - from[0], to[1] - from[1], to[2] - from[2]};
}

}  // namespace troupe::envs
