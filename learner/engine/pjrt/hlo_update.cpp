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
enum : std::int64_t { kGradientScale, kStepSize, kInverseSqrtCorrection, kWeightDecay, kInnerRate, kInsideRoot };

/// A number of the row, or one for each element, at every element.
hlo::Value spread(const hlo::Value& x, const hlo::Value& like) { return everywhere(x, like.shape()); }

/// For each stretch of the layout a number, at all of its elements.
hlo::Value along(std::span<const UpdateStretch> stretches, std::span<const hlo::Value> numbers) {
  std::vector<hlo::Value> parts;
  for (std::size_t i = 0; i < stretches.size(); ++i) {
    parts.push_back(everywhere(numbers[i], {stretches[i].end - stretches[i].begin}));
  }
  return concat(parts, 0);
}

/// LARS's rate of each stretch, see lars_rate(). clip: what the gradient is scaled by.
std::vector<hlo::Value> lars_rates(const Lars& lars, std::span<const UpdateStretch> stretches, const hlo::Value& values,
                                   const hlo::Value& gradient, const hlo::Value& clip) {
  std::vector<hlo::Value> rates;
  for (const UpdateStretch& stretch : stretches) {
    if (!stretch.decays) {
      rates.push_back(filled(clip, 1));
      continue;
    }
    const auto norm = [&](const hlo::Value& of) {
      return sqrt(sum_of_squares(of, std::array{Stretch{stretch.begin, stretch.end}}));
    };
    const hlo::Value value = norm(values), slope = clip * norm(gradient);
    const hlo::Value rate = lars.trust_coefficient * value / (slope + lars.weight_decay * value);
    rates.push_back(select(is_greater(value, 0) & is_greater(slope, 0), rate, 1));
  }
  return rates;
}

/// Columns back to their length, see learner/engine/kept_length.hpp.
hlo::Value with_kept_lengths(const ParamLayout& layout, const hlo::Value& values) {
  if (layout.kept.empty()) return values;
  constexpr double kLeastLength = 1e-8;  // zeros stay
  std::vector<hlo::Value> entries;
  for (const ParamEntry& entry : layout.entries) entries.push_back(tensor_of(values, entry));
  for (const KeptLength& kept : layout.kept) {
    std::vector<hlo::Value> matrices;
    for (const std::size_t index : kept.entries) {
      const std::int64_t elements = entries[index].shape().elements();
      matrices.push_back(reshape(entries[index], {elements / kept.columns, kept.columns}));
    }
    const hlo::Value whole = concat(matrices, 0);
    const hlo::Value length = maximum(sqrt(sum(whole * whole, {0})), kLeastLength);
    for (std::size_t i = 0; i < matrices.size(); ++i) {
      hlo::Value& entry = entries[kept.entries[i]];
      entry = reshape(matrices[i] * along_last(kept.length / length, matrices[i].shape()), entry.shape());
    }
  }
  return flat_of(layout, entries);
}

}  // namespace

std::array<float, kHloRuleNumbers> hlo_rule(const OptimizerSpec& spec, std::int64_t update) {
  const UpdateRule rule(spec, update);
  const UpdateArgs& of = rule.constants();
  return {of.gradient_scale, of.step_size, of.inverse_sqrt_correction, of.weight_decay, of.inner_rate, of.inside_root};
}

hlo::Value tensor_of(const hlo::Value& flat, const ParamEntry& entry) {
  return reshape(slice(flat, {entry.offset}, {entry.offset + entry.shape.elements()}), entry.shape);
}

hlo::Value flat_of(const ParamLayout& layout, std::span<const hlo::Value> entries) {
  std::vector<hlo::Value> parts;
  for (std::size_t i = 0; i < entries.size(); ++i) {
    const std::int64_t elements = layout.entries[i].shape.elements();
    parts.push_back(reshape(entries[i], {elements}));
    const std::int64_t gap = layout.end(i) - layout.entries[i].offset - elements;
    if (gap > 0) parts.push_back(entries[i].to->constant(0, {{gap}}));
  }
  return concat(parts, 0);
}

namespace {

/// These stretches one behind the other.
hlo::Value joined(const hlo::Value& flat, std::span<const Stretch> stretches) {
  std::vector<hlo::Value> parts;
  for (const Stretch& each : stretches) parts.push_back(slice(flat, {each.begin}, {each.end}));
  return concat(parts, 0);
}

hlo::Value sum_of_all_squares(const hlo::Value& flat) {
  constexpr std::int64_t kBlock = 4096;
  const hlo::Value squares = flat * flat;
  const std::int64_t elements = flat.size(0), blocks = (elements + kBlock - 1) / kBlock;
  if (blocks == 1) return sum(squares, {0});
  const hlo::Value padded = pad(squares, 0, {.low = {0}, .high = {blocks * kBlock - elements}});
  return sum(sum(reshape(padded, {blocks, kBlock}), {1}), {0});
}

}  // namespace

hlo::Value sum_of_squares(const hlo::Value& flat, std::span<const Stretch> stretches) {
  return sum_of_all_squares(joined(flat, stretches));
}

hlo::Value mean_of_replicas(const hlo::Value& gradient, const Shares& shares, const hlo::Value& share,
                            std::int64_t replicas) {
  if (shares.shared.empty()) return gradient;
  // A replica without rows has no weight, whatever its gradient is.
  const hlo::Value mean = sum_of_replicas(weighted(share, joined(gradient, shares.shared)), replicas);
  // Back to their places, among those that are not shared.
  std::vector<std::pair<std::int64_t, hlo::Value>> parts;
  std::int64_t at = 0;
  for (const Stretch& each : shares.shared) {
    parts.emplace_back(each.begin, slice(mean, {at}, {at + each.end - each.begin}));
    at += each.end - each.begin;
  }
  for (const Stretch& each : shares.own) parts.emplace_back(each.begin, slice(gradient, {each.begin}, {each.end}));
  std::ranges::sort(parts, {}, [](const auto& part) { return part.first; });
  std::vector<hlo::Value> all;
  for (const auto& [begin, part] : parts) all.push_back(part);
  return concat(all, 0);
}

HloGroup updated(const OptimizerSpec& spec, const ParamLayout& layout, const HloGroup& group,
                 const hlo::Value& gradient, const hlo::Value& squares, const hlo::Value& rule) {
  const UpdateRule first(spec, 0);
  const UpdateArgs& fixed = first.constants();
  const hlo::Value& old = group.values;
  const auto number = [&](std::int64_t at) { return reshape(slice(rule, {at}, {at + 1}), {}); };
  hlo::Value clip = filled(squares, 1);
  if (spec.max_global_norm > 0) {
    const hlo::Value norm = sqrt(squares);
    clip = select(is_greater(norm, spec.max_global_norm), spec.max_global_norm / norm, 1);
  }
  // By what each element's gradient, and the decay of what decays, are multiplied.
  hlo::Value rate = number(kGradientScale);
  std::vector<UpdateStretch> stretches = layout.decay_stretches();
  if (const auto* const lars = std::get_if<Lars>(&spec.rule)) {
    stretches = lars_stretches(layout);
    std::vector<hlo::Value> rates = lars_rates(*lars, stretches, old, gradient, clip);
    for (hlo::Value& each : rates) each = each * rate;
    rate = along(stretches, rates);
  }
  const bool decays = std::visit([](const auto& each) { return each.weight_decay != 0; }, spec.rule);
  hlo::Value decay;
  if (decays) {
    decay = spread(number(kWeightDecay), old) * spread(rate, old);
    std::vector<hlo::Value> kept;
    for (const UpdateStretch& stretch : stretches) kept.push_back(filled(squares, stretch.decays ? 1 : 0));
    if (std::ranges::any_of(stretches, [](const UpdateStretch& each) { return !each.decays; })) {
      decay = decay * along(stretches, kept);
    }
  }
  hlo::Value g = spread(clip, old) * spread(rate, old) * gradient;
  const hlo::Value step = spread(number(kStepSize), old);
  HloGroup made;
  if (first.pass() == UpdateRule::Pass::kAdam) {
    const double beta1 = fixed.beta1, beta2 = fixed.beta2;
    const hlo::Value m = beta1 * group.slots[0] + static_cast<double>(1 - fixed.beta1) * g;
    const hlo::Value v = beta2 * group.slots[1] + static_cast<double>(1 - fixed.beta2) * (g * g);
    const hlo::Value root = sqrt(v) * spread(number(kInverseSqrtCorrection), old) + fixed.epsilon;
    made.values = (decays ? (1 - decay) * old : old) - step * m / root;
    made.slots = {m, v};
  } else {
    if (decays) g = g + decay * old;
    if (first.pass() == UpdateRule::Pass::kSgd) {
      if (!group.slots.empty()) {
        const hlo::Value velocity = fixed.momentum * group.slots[0] + g;
        made.slots = {velocity};
        g = fixed.nesterov ? fixed.momentum * velocity + g : velocity;
      }
      made.values = old - step * g;
    } else {
      const hlo::Value& before = group.slots[0];
      const hlo::Value v = before + static_cast<double>(1 - fixed.beta2) * (g * g - before);
      const hlo::Value root = sqrt(v + spread(number(kInsideRoot), old)) + fixed.epsilon;
      hlo::Value move = spread(number(kInnerRate), old) * g / root;
      made.slots = {v};
      if (group.slots.size() > 1) {
        move = fixed.momentum * group.slots[1] + move;
        made.slots.push_back(move);
      }
      made.values = old - step * move;
    }
  }
  made.values = with_kept_lengths(layout, made.values);
  return made;
}

}  // namespace troupe::learner
