#pragma once
// One update of an optimiser on any part of a parameter group: Program runs it over its own buffers at the end of a
// step, a shard of a parameter server (learner/replicate/parameter_server) over the part that it holds, block by block.
#include <cstdint>
#include <span>

#include <troupe/learner/engine/cpu/kernels/kernel_table.hpp>
#include <troupe/learner/graph/optimizer.hpp>
#include <troupe/learner/graph/param_buffer.hpp>

namespace troupe::learner {

/// The rule of one update with all of its constants computed: cheap to apply to many parts.
class UpdateRule {
 public:
  /// update: how many came before, for Adam's bias correction, what is left of where RMSProp started, and the schedule.
  /// rate_factor multiplies the learning rate.
  UpdateRule(const OptimizerSpec& spec, std::int64_t update, double rate_factor = 1);

  /// Updates args.values and slots in [begin, end). The caller sets the pointers, the range, gradient_scale and shadow;
  /// the rest of `args` is unread.
  /// stretches: of the parameter group, of which args' element i is element `offset` + i; with the rates that
  /// learner/engine/lars.hpp finds for LARS, and otherwise all of rate 1.
  void apply(const UpdateArgs& args, std::span<const UpdateStretch> stretches, std::int64_t offset = 0) const;

  /// For whoever applies it elsewhere: gradient_scale, which multiplies what the gradient and its decay are scaled by,
  /// step_size and what follows it; the rest is not set.
  enum class Pass : std::uint8_t { kSgd, kAdam, kRmsProp };
  Pass pass() const { return pass_; }
  const UpdateArgs& constants() const { return constants_; }

 private:
  void set(const Adam& adam, double rate, std::int64_t update);
  void set(const Sgd& sgd, double rate, std::int64_t update);
  void set(const RmsProp& rms, double rate, std::int64_t update);
  void set(const Lars& lars, double rate, std::int64_t update);
  void apply_range(UpdateArgs args, const UpdateStretch& stretch) const;

  UpdateArgs constants_{.gradient_scale = 1};
  Pass pass_ = Pass::kSgd;
};

}  // namespace troupe::learner
