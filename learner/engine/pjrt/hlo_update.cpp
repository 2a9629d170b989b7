#include <troupe/learner/engine/pjrt/hlo_update.hpp>

#include <algorithm>
#include <array>
#include <utility>
#include <variant>

#include <troupe/learner/engine/apply_update.hpp>
#include <troupe/learner/engine/lars.hpp>
#include <troupe/learner/ops/hlo_parts.hpp>

namespace troupe::learner {

namespace {

/// Where each number of a row stands.
enum : std::size_t { kGradientScale, kStepSize, kInverseSqrtCorrection, kWeightDecay, kInnerRate, kInsideRoot };

/// A number of the row, or one for each element, at every element.
hlo::Value spread(const hlo::Value& x, const hlo::Value& like) { return everywhere(x, like.shape()); }

/// LARS's rate of a tensor, see lars_rate(). clip: what the gradient is scaled by.
hlo::Value lars_rate(const Lars& lars, const hlo::Value& values, const hlo::Value& gradient, const hlo::Value& clip) {
  const hlo::Value value = sqrt(sum_of_squares({values})), slope = clip * sqrt(sum_of_squares({gradient}));
  const hlo::Value rate = lars.trust_coefficient * value / (slope + lars.weight_decay * value);
  return select(is_greater(value, 0) & is_greater(slope, 0), rate, 1);
}

/// Columns back to their length, see learner/engine/kept_length.hpp.
void keep_lengths(const ParamLayout& layout, HloTensors& tensors) {
  constexpr double kLeastLength = 1e-8;  // zeros stay
  for (const KeptLength& kept : layout.kept) {
    std::vector<hlo::Value> matrices;
    for (const std::size_t index : kept.entries) {
      const std::int64_t elements = tensors[index].shape().elements();
      matrices.push_back(reshape(tensors[index], {elements / kept.columns, kept.columns}));
    }
    const hlo::Value whole = concat(matrices, 0);
    const hlo::Value length = maximum(sqrt(sum(whole * whole, {0})), kLeastLength);
    for (std::size_t i = 0; i < matrices.size(); ++i) {
      hlo::Value& tensor = tensors[kept.entries[i]];
      tensor = reshape(matrices[i] * along_last(kept.length / length, matrices[i].shape()), tensor.shape());
    }
  }
}

}  // namespace

std::array<float, kHloRuleNumbers> hlo_rule(const OptimizerSpec& spec, std::int64_t update) {
  const UpdateRule rule(spec, update);
  const UpdateArgs& of = rule.constants();
  return {of.gradient_scale, of.step_size, of.inverse_sqrt_correction, of.weight_decay, of.inner_rate, of.inside_root};
}

HloShares shares_of(const ParamLayout& layout, const HloTensors& gradient) {
  HloShares made;
  for (std::size_t i = 0; i < layout.entries.size(); ++i) {
    (layout.entries[i].policy == VariablePolicy::kSync ? made.shared : made.own).push_back(gradient[i]);
  }
  return made;
}

hlo::Value sum_of_squares(const HloTensors& tensors) {
  constexpr std::int64_t kBlock = 4096;
  hlo::Value all;
  for (const hlo::Value& tensor : tensors) {
    const std::int64_t elements = tensor.shape().elements(), blocks = (elements + kBlock - 1) / kBlock;
    hlo::Value squares = reshape(tensor * tensor, {elements});
    if (blocks > 1) {
      const hlo::Value padded = pad(squares, 0, {.low = {0}, .high = {blocks * kBlock - elements}});
      squares = sum(reshape(padded, {blocks, kBlock}), {1});
    }
    const hlo::Value one = sum(squares, {0});
    all = all.to == nullptr ? one : all + one;
  }
  return all;
}

HloTensors mean_of_replicas(const ParamLayout& layout, const HloTensors& gradient, const hlo::Value& share,
                            std::int64_t replicas) {
  const HloTensors shared = shares_of(layout, gradient).shared;
  if (shared.empty()) return gradient;
  std::vector<hlo::Value> parts;  // of one sum: a sum has its price, whatever its length
  for (const hlo::Value& tensor : shared) parts.push_back(reshape(tensor, {tensor.shape().elements()}));
  // A replica without rows has no weight, whatever its gradient is.
  const hlo::Value mean = sum_of_replicas(weighted(share, concat(parts, 0)), replicas);
  HloTensors made = gradient;
  std::int64_t at = 0;
  for (std::size_t i = 0; i < made.size(); ++i) {
    if (layout.entries[i].policy != VariablePolicy::kSync) continue;
    const std::int64_t end = at + made[i].shape().elements();
    made[i] = reshape(slice(mean, {at}, {end}), made[i].shape());
    at = end;
  }
  return made;
}

HloGroup updated(const OptimizerSpec& spec, const ParamLayout& layout, const HloGroup& group,
                 const HloTensors& gradient, const hlo::Value& squares, const hlo::Value& rule,
                 const hlo::Value& finite) {
  const UpdateRule first(spec, 0);
  const UpdateArgs& fixed = first.constants();
  std::array<hlo::Value, kHloRuleNumbers> numbers;
  for (std::int64_t at = 0; at < kHloRuleNumbers; ++at) {
    numbers[static_cast<std::size_t>(at)] = reshape(slice(rule, {at}, {at + 1}), {});
  }
  hlo::Value clip = filled(squares, 1);
  if (spec.max_global_norm > 0) {
    const hlo::Value norm = sqrt(squares);
    clip = select(is_greater(norm, spec.max_global_norm), spec.max_global_norm / norm, 1);
  }
  const bool decays = std::visit([](const auto& each) { return each.weight_decay != 0; }, spec.rule);
  const auto* const lars = std::get_if<Lars>(&spec.rule);
  HloGroup made{.values = {}, .slots = std::vector<HloTensors>(group.slots.size())};
  // What is computed from a slot takes the one that is kept: if it took the new one before the choice, XLA would
  // compute that again from the old slot, and copy the old slot first, whose memory the kept one gets.
  const auto keep = [&](std::size_t slot, std::size_t i, const hlo::Value& next) {
    return made.slots[slot].emplace_back(select(finite, next, group.slots[slot][i]));
  };
  for (std::size_t i = 0; i < layout.entries.size(); ++i) {
    const hlo::Value& old = group.values[i];
    const ParamEntry& entry = layout.entries[i];
    const bool scaled = lars == nullptr ? entry.decays : is_scaled(entry);
    // By what the gradient, and the decay of what decays, are multiplied.
    hlo::Value rate = numbers[kGradientScale];
    if (lars != nullptr && scaled) rate = lars_rate(*lars, old, gradient[i], clip) * rate;
    hlo::Value decay;
    if (decays && scaled) decay = spread(numbers[kWeightDecay] * rate, old);
    hlo::Value g = spread(clip * rate, old) * gradient[i];
    const hlo::Value step = spread(numbers[kStepSize], old);
    if (first.pass() == UpdateRule::Pass::kAdam) {
      const double beta1 = fixed.beta1, beta2 = fixed.beta2;
      const hlo::Value m = keep(0, i, beta1 * group.slots[0][i] + static_cast<double>(1 - fixed.beta1) * g);
      const hlo::Value v = keep(1, i, beta2 * group.slots[1][i] + static_cast<double>(1 - fixed.beta2) * (g * g));
      const hlo::Value root = sqrt(v) * spread(numbers[kInverseSqrtCorrection], old) + fixed.epsilon;
      made.values.push_back((decay.to == nullptr ? old : (1 - decay) * old) - step * m / root);
      continue;
    }
    if (decay.to != nullptr) g = g + decay * old;
    if (first.pass() == UpdateRule::Pass::kSgd) {
      if (!group.slots.empty()) {
        const hlo::Value velocity = keep(0, i, fixed.momentum * group.slots[0][i] + g);
        g = fixed.nesterov ? fixed.momentum * velocity + g : velocity;
      }
      made.values.push_back(old - step * g);
      continue;
    }
    const hlo::Value& before = group.slots[0][i];
    const hlo::Value v = keep(0, i, before + static_cast<double>(1 - fixed.beta2) * (g * g - before));
    const hlo::Value root = sqrt(v + spread(numbers[kInsideRoot], old)) + fixed.epsilon;
    hlo::Value move = spread(numbers[kInnerRate], old) * g / root;
    if (group.slots.size() > 1) move = keep(1, i, fixed.momentum * group.slots[1][i] + move);
    made.values.push_back(old - step * move);
  }
  keep_lengths(layout, made.values);
  for (std::size_t i = 0; i < made.values.size(); ++i) {
    made.values[i] = select(finite, made.values[i], group.values[i]);
  }
  return made;
}

}  // namespace troupe::learner
