#pragma once
// The update at the end of a step in StableHLO: optimisers on flat buffers, as
// learner/engine/cpu/kernels/update_bodies.hpp has them, with clipping, decay, LARS's rates and kept lengths. Used by
// hlo_module.cpp.
//
// What changes from step to step (schedules, bias corrections) comes in as a row of numbers that the host computes by
// UpdateRule, so that one compiled program serves all steps.
#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include <troupe/learner/engine/host.hpp>
#include <troupe/learner/graph/hlo.hpp>
#include <troupe/learner/graph/optimizer.hpp>
#include <troupe/learner/graph/param_buffer.hpp>

namespace troupe::learner {

inline constexpr std::int64_t kHloRuleNumbers = 6;
/// The row of a group's update number `update`.
std::array<float, kHloRuleNumbers> hlo_rule(const OptimizerSpec& spec, std::int64_t update);

/// A group's flat buffers; slots as slot_names() says.
struct HloGroup {
  hlo::Value values;
  std::vector<hlo::Value> slots;
};

/// Of stretches of a flat buffer, which decides whether a step is skipped, and the length that is clipped. Summed in
/// blocks, so that many elements lose no digits.
hlo::Value sum_of_squares(const hlo::Value& flat, std::span<const Stretch> stretches);

/// A flat gradient whose shared stretches are the mean over the program's replicas. share: of this replica's rows in
/// those of all.
hlo::Value mean_of_replicas(const hlo::Value& gradient, const Shares& shares, const hlo::Value& share,
                            std::int64_t replicas);

/// What the group becomes. rule: [kHloRuleNumbers]; squares: of the gradient's measured stretches.
HloGroup updated(const OptimizerSpec& spec, const ParamLayout& layout, const HloGroup& group,
                 const hlo::Value& gradient, const hlo::Value& squares, const hlo::Value& rule);

/// One tensor of a flat buffer.
hlo::Value tensor_of(const hlo::Value& flat, const ParamEntry& entry);
/// The flat buffer of these tensors, with zeros between them.
hlo::Value flat_of(const ParamLayout& layout, std::span<const hlo::Value> entries);

}  // namespace troupe::learner
