#pragma once
// Rows that benches step on: noise, since what a step costs does not depend on what it learns.
#include <troupe/core/rng.hpp>
#include <troupe/core/tensor.hpp>

namespace troupe::learner {

/// Fills all columns: bytes of 0..255, numbers of -1..1.
inline void fill_with_noise(BatchBuffer& batch) {
  const MutableBatchView& view = batch.mutable_view();
  Rng rng(1);
  for (std::size_t column = 0; column < view.signature->size(); ++column) {
    if ((*view.signature)[column].dtype == DType::kU8) {
      for (std::uint8_t& x : view.as<std::uint8_t>(column)) x = static_cast<std::uint8_t>(rng.below(256));
    } else {
      for (float& x : view.as<float>(column)) x = static_cast<float>(2 * rng.uniform() - 1);
    }
  }
}

}  // namespace troupe::learner
