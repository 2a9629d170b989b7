#pragma once
// The update at the end of a step in StableHLO: optimisers as learner/engine/cpu/kernels/update_bodies.hpp has them,
// tensor by tensor, with clipping, decay, LARS's rates and kept lengths. Used by hlo_step.cpp.
//
// What changes from step to step (schedules, bias corrections) comes in as a row of numbers that the host computes by
// UpdateRule, so that one compiled program serves all steps.
#include <array>
#include <cstdint>
#include <vector>

#include <troupe/learner/graph/hlo.hpp>
#include <troupe/learner/graph/optimizer.hpp>
#include <troupe/learner/graph/param_buffer.hpp>

namespace troupe::learner {

inline constexpr std::int64_t kHloRuleNumbers = 6;
/// The row of a group's update number `update`.
std::array<float, kHloRuleNumbers> hlo_rule(const OptimizerSpec& spec, std::int64_t update);

/// By the entries of a layout; those that nobody needs are without a builder.
using HloTensors = std::vector<hlo::Value>;

/// Slots as slot_names() says.
struct HloGroup {
  HloTensors values;
  std::vector<HloTensors> slots;
};

/// Of a gradient: what replicas reduce; the rest. As Shares has stretches.
struct HloShares {
  HloTensors shared, own;
  const HloTensors& measured() const { return shared.empty() ? own : shared; }
};
HloShares shares_of(const ParamLayout& layout, const HloTensors& gradient);

/// Which decides whether a step is skipped, and the length that is clipped. Summed in two stages, so that many elements
/// lose no digits.
hlo::Value sum_of_squares(const HloTensors& tensors);

/// A gradient whose shared tensors are the mean over the program's replicas. share: of this replica's rows in those of
/// all.
HloTensors mean_of_replicas(const ParamLayout& layout, const HloTensors& gradient, const hlo::Value& share,
                            std::int64_t replicas);

/// What the group becomes, if the bool scalar `finite` holds; else it stays what it is. rule: [kHloRuleNumbers];
/// squares: of what of the gradient is measured.
HloGroup updated(const OptimizerSpec& spec, const ParamLayout& layout, const HloGroup& group,
                 const HloTensors& gradient, const hlo::Value& squares, const hlo::Value& rule,
                 const hlo::Value& finite);

}  // namespace troupe::learner
