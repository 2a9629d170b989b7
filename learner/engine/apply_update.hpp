#pragma once
// One update of an optimiser on any part of a parameter group: Program runs it over its own buffers at the end of a
// step, a shard of a parameter server (learner/replicate/parameter_server) over the part that it holds, block by block.
#include <cstdint>
#include <span>

#include <troupe/learner/engine/kernels/kernel_table.hpp>
#include <troupe/learner/graph/optimizer.hpp>
#include <troupe/learner/graph/param_buffer.hpp>

namespace troupe::learner {

/// The rule of one update with all of its constants computed: cheap to apply to many parts.
class UpdateRule {
 public:
  /// update: how many came before, for Adam's bias correction and the schedule. rate_factor multiplies the learning
  /// rate.
  UpdateRule(const OptimizerSpec& spec, std::int64_t update, double rate_factor = 1);

  /// Updates args.values and slots in [begin, end). The caller sets the pointers, the range, gradient_scale and shadow;
  /// the rest of `args` is unread.
  /// decay: what of the parameter group weight decay applies to, of which args' element i is element `offset` + i.
  void apply(const UpdateArgs& args, std::span<const DecayStretch> decay, std::int64_t offset = 0) const;

  /// For whoever applies it elsewhere: step_size and what follows it, the rest is not set.
  const UpdateArgs& constants() const { return constants_; }

 private:
  void apply_range(UpdateArgs args, float weight_decay) const;

  UpdateArgs constants_{};
  bool adam_;
};

}  // namespace troupe::learner
