#pragma once
// Pooling of images, [n, h, w, c] split by rows.
#include <cstdint>

#include <troupe/learner/graph/op.hpp>

namespace troupe::learner {

/// Windows are square; a result has (size + 2 padding - kernel) / stride + 1 rows and columns, rounded down.
struct PoolOptions {
  std::int64_t kernel = 2;
  std::int64_t stride = 2;
  std::int64_t padding = 0;  ///< on each side, at most half of the kernel
};

/// The mean of each window; what lies outside the image counts as zeros, as in PyTorch (count_include_pad).
Var average_pool(Var x, const PoolOptions& options = {});
/// The maximum of each window; what lies outside the image does not count. The gradient goes to the first of equal
/// ones, row by row. A NaN passes. kernel: at most 16.
Var max_pool(Var x, const PoolOptions& options = {});
/// Over all pixels of each image: [n, h, w, c] -> [n, c].
Var global_mean(Var x);
Var global_sum(Var x);

}  // namespace troupe::learner
