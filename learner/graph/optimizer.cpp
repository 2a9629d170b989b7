#include <troupe/learner/graph/optimizer.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numbers>
#include <string_view>

namespace troupe::learner {
namespace {

Status check(bool holds, std::string_view field, double got, std::string_view expected) {
  if (holds) return {};
  return Error{Code::kInvalidArgument, fmt::format("optimiser: {} is {}, expected {}", field, got, expected)};
}

Status validate_rule(const Adam& adam) {
  TROUPE_TRY(check(adam.learning_rate >= 0, "learning_rate", adam.learning_rate, ">= 0"));
  TROUPE_TRY(check(adam.beta1 >= 0 && adam.beta1 < 1, "beta1", adam.beta1, "in [0, 1)"));
  TROUPE_TRY(check(adam.beta2 >= 0 && adam.beta2 < 1, "beta2", adam.beta2, "in [0, 1)"));
  TROUPE_TRY(check(adam.epsilon >= 0, "epsilon", adam.epsilon, ">= 0"));
  return check(adam.weight_decay >= 0, "weight_decay", adam.weight_decay, ">= 0");
}

Status validate_rule(const Sgd& sgd) {
  TROUPE_TRY(check(sgd.learning_rate >= 0, "learning_rate", sgd.learning_rate, ">= 0"));
  TROUPE_TRY(check(sgd.momentum >= 0, "momentum", sgd.momentum, ">= 0"));
  TROUPE_TRY(check(!sgd.nesterov || sgd.momentum > 0, "momentum", sgd.momentum, "above 0 with nesterov"));
  return check(sgd.weight_decay >= 0, "weight_decay", sgd.weight_decay, ">= 0");
}

Status validate_rule(const RmsProp& rms) {
  TROUPE_TRY(check(rms.learning_rate >= 0, "learning_rate", rms.learning_rate, ">= 0"));
  TROUPE_TRY(check(rms.decay >= 0 && rms.decay < 1, "decay", rms.decay, "in [0, 1)"));
  TROUPE_TRY(check(rms.momentum >= 0, "momentum", rms.momentum, ">= 0"));
  TROUPE_TRY(check(rms.epsilon > 0, "epsilon", rms.epsilon, "above 0 with RMSProp"));
  return check(rms.weight_decay >= 0, "weight_decay", rms.weight_decay, ">= 0");
}

Status validate_rule(const Lars& lars) {
  TROUPE_TRY(check(lars.learning_rate >= 0, "learning_rate", lars.learning_rate, ">= 0"));
  TROUPE_TRY(check(lars.momentum >= 0, "momentum", lars.momentum, ">= 0"));
  TROUPE_TRY(check(lars.weight_decay >= 0, "weight_decay", lars.weight_decay, ">= 0"));
  return check(lars.trust_coefficient > 0, "trust_coefficient", lars.trust_coefficient, "above 0");
}

std::vector<std::string> momentum_slot(double momentum) {
  return momentum == 0 ? std::vector<std::string>{} : std::vector<std::string>{"momentum"};
}

std::vector<std::string> slots_of(const Adam&) { return {"adam_m", "adam_v"}; }
std::vector<std::string> slots_of(const Sgd& sgd) { return momentum_slot(sgd.momentum); }
std::vector<std::string> slots_of(const Lars& lars) { return momentum_slot(lars.momentum); }
std::vector<std::string> slots_of(const RmsProp& rms) {
  std::vector<std::string> names = momentum_slot(rms.momentum);
  names.insert(names.begin(), "mean_square");
  return names;
}

Status validate_schedule(const Schedule& schedule) {
  const auto number = [](std::int64_t steps) { return static_cast<double>(steps); };
  TROUPE_TRY(check(schedule.warmup_steps >= 0, "warmup_steps", number(schedule.warmup_steps), ">= 0"));
  if (schedule.kind == Schedule::Kind::kCosine || schedule.kind == Schedule::Kind::kLinear) {
    TROUPE_TRY(check(schedule.hold_steps >= 0, "hold_steps", number(schedule.hold_steps), ">= 0"));
    const std::int64_t fall = schedule.warmup_steps + schedule.hold_steps;
    TROUPE_TRY(check(schedule.total_steps > fall, "total_steps", number(schedule.total_steps),
                     fmt::format("above warmup_steps + hold_steps {}", fall)));
    TROUPE_TRY(check(schedule.final_factor >= 0, "final_factor", schedule.final_factor, ">= 0"));
  }
  if (schedule.kind == Schedule::Kind::kStep) {
    TROUPE_TRY(check(schedule.step_factor > 0, "step_factor", schedule.step_factor, "above 0"));
    const auto fall = std::ranges::adjacent_find(schedule.boundaries, std::greater_equal<>());
    if (fall != schedule.boundaries.end()) return check(false, "boundaries", number(*(fall + 1)), "rising steps");
  }
  return {};
}

}  // namespace

double Schedule::factor(std::int64_t update) const {
  if (update < warmup_steps) return static_cast<double>(update + 1) / static_cast<double>(warmup_steps);
  switch (kind) {
    case Kind::kConstant:
      return 1;
    case Kind::kStep:
      return std::pow(step_factor, std::ranges::upper_bound(boundaries, update) - boundaries.begin());
    case Kind::kCosine:
    case Kind::kLinear: {
      const std::int64_t fall = warmup_steps + hold_steps;
      const double length = static_cast<double>(total_steps - fall);
      const double done = std::clamp(static_cast<double>(update - fall) / length, 0.0, 1.0);
      const double left = kind == Kind::kLinear ? 1 - done : (1 + std::cos(std::numbers::pi * done)) / 2;
      return final_factor + (1 - final_factor) * left;
    }
  }
  return 1;
}

OptimizerSpec every(OptimizerSpec spec, std::int64_t n) {
  Schedule& schedule = spec.schedule;
  schedule.warmup_steps /= n;
  schedule.hold_steps /= n;
  schedule.total_steps = std::max(schedule.total_steps / n, schedule.warmup_steps + schedule.hold_steps + 1);
  std::int64_t before = 0;
  for (std::int64_t& boundary : schedule.boundaries) before = boundary = std::max(boundary / n, before + 1);
  spec.every_steps = n;
  return spec;
}

Status validate(const OptimizerSpec& spec) {
  TROUPE_TRY(std::visit([](const auto& rule) { return validate_rule(rule); }, spec.rule));
  TROUPE_TRY(validate_schedule(spec.schedule));
  TROUPE_TRY(check(spec.every_steps >= 1, "every_steps", static_cast<double>(spec.every_steps), ">= 1"));
  return check(spec.max_global_norm >= 0, "max_global_norm", spec.max_global_norm, ">= 0");
}

double learning_rate(const OptimizerSpec& spec, std::int64_t update) {
  return std::visit([](const auto& rule) { return rule.learning_rate; }, spec.rule) * spec.schedule.factor(update);
}

std::vector<std::string> slot_names(const OptimizerSpec& spec) {
  return std::visit([](const auto& rule) { return slots_of(rule); }, spec.rule);
}

}  // namespace troupe::learner
