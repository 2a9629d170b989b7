#pragma once
// Smooth enlargement of a square grid, from which the quadruped's terrain is made.
#include <span>
#include <vector>

namespace troupe::envs {

/// scipy.ndimage.zoom of a square grid, row-major, to size x size points: cubic B-splines through all points, of which
/// the corners stay where they are (Unser, Aldroubi & Eden 1991, mirrored at the borders). The sums are in scipy's
/// order, for the sake of the last bit. At least 2 x 2 points. O(size^2).
std::vector<double> spline_zoom(std::span<const double> grid, std::size_t size);

}  // namespace troupe::envs
