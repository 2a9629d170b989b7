#pragma once
// LARS (You et al. 2017): each variable has a learning rate of its own, which follows from the norms of its values and
// of its gradient. The program on a processor and a shard of a parameter server find the rates here and then update
// all stretches in one pass, by UpdateRule; a GPU's program finds them on the device.
#include <cstddef>
#include <cstdint>
#include <vector>

#include <troupe/learner/engine/cpu/kernels/kernel_table.hpp>
#include <troupe/learner/graph/optimizer.hpp>
#include <troupe/learner/graph/param_buffer.hpp>

namespace troupe::learner {

/// Whether LARS scales and decays a variable: it has more than one axis, and is not exempt from decay.
bool is_scaled(const ParamEntry& entry);
/// A stretch for each variable of the layout, padding included; those that are scaled are marked `decays`.
std::vector<UpdateStretch> lars_stretches(const ParamLayout& layout);

/// You et al. 2017, Eq. 6, from the norms of a variable's values and gradient; 1 where one of them is 0.
double lars_rate(const Lars& lars, double value_norm, double gradient_norm);

/// The norms of all variables of a group, added up by several threads. The parts of a sum are blocks of a fixed size,
/// so no bit depends on the threads.
class LarsNorms {
 public:
  explicit LarsNorms(const ParamLayout& layout);

  /// Part `part` of `parts` of the work. values, gradient: the group's flat buffers.
  void sum(const KernelTable& table, const float* values, const float* gradient, std::size_t part, std::size_t parts);
  const std::vector<UpdateStretch>& stretches() const { return stretches_; }
  /// The stretches with their rates, behind all parts of sum(). gradient_scale: of clipping.
  std::vector<UpdateStretch> rates(const Lars& lars, double gradient_scale) const;

 private:
  struct Block {
    std::int64_t begin = 0, end = 0;
    double value_squares = 0, gradient_squares = 0;
  };
  std::vector<UpdateStretch> stretches_;
  std::vector<std::size_t> first_;  ///< of each stretch's blocks, and behind the last one
  std::vector<Block> blocks_;       ///< of the variables that are scaled
};

}  // namespace troupe::learner
