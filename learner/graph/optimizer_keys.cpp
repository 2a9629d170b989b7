#include <troupe/learner/graph/optimizer_keys.hpp>

#include <fmt/format.h>

#include <algorithm>

namespace troupe::learner {
namespace {

constexpr double kStepsMax = 1e15;          // far beyond any run, and exact in a double
constexpr double kLearningRateMin = 1e-12;  // above 0, and below what changes a weight
/// Below 1, also in float32.
constexpr double kBetaMax = 0.9999999;

/// The keys of one optimiser.
class Reader {
 public:
  Reader(const ConfigSection& section, std::string_view prefix) : section_(section), prefix_(prefix) {}
  double number(std::string_view key) const { return section_.get_float(path(key)); }
  std::int64_t integer(std::string_view key) const { return section_.get_int(path(key)); }
  const std::string& text(std::string_view key) const { return section_.get_string(path(key)); }
  std::string path(std::string_view key) const { return prefix_ + std::string(key); }

 private:
  const ConfigSection& section_;
  std::string prefix_;
};

Schedule read_schedule(const Reader& keys, std::int64_t steps) {
  using Kind = Schedule::Kind;
  Schedule schedule;
  const std::string& kind = keys.text("schedule");
  schedule.warmup_steps = std::min(keys.integer("warmup_steps"), steps - 1);
  if (kind == "cosine" || kind == "linear") {
    schedule.kind = kind == "cosine" ? Kind::kCosine : Kind::kLinear;
    schedule.hold_steps = std::min(keys.integer("hold_steps"), steps - 1 - schedule.warmup_steps);
    schedule.total_steps = steps;
  } else if (kind == "step") {  // a tenth, and a hundredth, for the last two quarters
    schedule.kind = Kind::kStep;
    schedule.boundaries = {std::max<std::int64_t>(steps / 2, 1), std::max<std::int64_t>(steps * 3 / 4, 2)};
  }
  return schedule;
}

OptimizerRule read_rule(const Reader& keys) {
  const std::string& rule = keys.text("optimizer");
  const double learning_rate = keys.number("learning_rate"), weight_decay = keys.number("weight_decay");
  if (rule == "sgd") {
    const double momentum = keys.number("momentum");
    return Sgd{
        .learning_rate = learning_rate, .momentum = momentum, .nesterov = momentum > 0, .weight_decay = weight_decay};
  }
  if (rule == "rmsprop" || rule == "rmsprop_tf") {
    using Form = RmsProp::Form;
    return RmsProp{.form = rule == "rmsprop" ? Form::kPyTorch : Form::kTensorFlow,
                   .learning_rate = learning_rate,
                   .decay = keys.number("rms_decay"),
                   .momentum = keys.number("rms_momentum"),
                   .epsilon = keys.number("epsilon"),
                   .weight_decay = weight_decay};
  }
  if (rule == "lars") {
    return Lars{.learning_rate = learning_rate,
                .momentum = keys.number("momentum"),
                .weight_decay = weight_decay,
                .trust_coefficient = keys.number("trust_coefficient")};
  }
  return Adam{.learning_rate = learning_rate,
              .beta1 = keys.number("beta1"),
              .beta2 = keys.number("beta2"),
              .epsilon = keys.number("epsilon"),
              .weight_decay = weight_decay};
}

}  // namespace

ConfigSchema optimizer_keys(std::string_view prefix, const OptimizerKeys& defaults, std::string_view of) {
  using Fixed = ConfigKey::Fixed;
  ConfigSchema keys = {
      {.path = "optimizer",
       .default_value = defaults.optimizer,
       .doc = "sgd has Nesterov momentum, rmsprop_tf its epsilon in the root",
       .choices = {"adam", "adamw", "sgd", "rmsprop", "rmsprop_tf", "lars"},
       .fixed = Fixed::kValue},
      {.path = "learning_rate",
       .default_value = defaults.learning_rate,
       .doc = "Step size of the optimiser",
       .min = kLearningRateMin,
       .max = 100},
      {.path = "momentum",
       .default_value = defaults.momentum,
       .doc = "Momentum of sgd and lars",
       .min = 0,
       .max = 1,
       .fixed = Fixed::kWhetherZero},
      {.path = "weight_decay",
       .default_value = defaults.weight_decay,
       .doc = "Decoupled in adam, else L2; norms and biases may be exempt",
       .min = 0,
       .max = 1},
      {.path = "beta1",
       .default_value = defaults.beta1,
       .doc = "Decay of adam's mean gradient",
       .min = 0,
       .max = kBetaMax},
      {.path = "beta2",
       .default_value = defaults.beta2,
       .doc = "Decay of adam's mean square",
       .min = 0,
       .max = kBetaMax},
      {.path = "rms_decay",
       .default_value = defaults.rms_decay,
       .doc = "Decay of rmsprop's mean square",
       .min = 0,
       .max = kBetaMax},
      {.path = "rms_momentum",
       .default_value = defaults.rms_momentum,
       .doc = "Momentum of rmsprop",
       .min = 0,
       .max = 1,
       .fixed = Fixed::kWhetherZero},
      {.path = "epsilon",
       .default_value = defaults.epsilon,
       .doc = "Beside the root of adam's and rmsprop's mean square",
       .min = 1e-20,
       .max = 1},
      {.path = "trust_coefficient",
       .default_value = defaults.trust_coefficient,
       .doc = "Of lars: a step's length beside that of the variable",
       .min = 1e-9,
       .max = 1},
      {.path = "schedule",
       .default_value = defaults.schedule,
       .doc = "Of the learning rate, over all steps",
       .choices = {"constant", "step", "cosine", "linear"}},
      {.path = "hold_steps",
       .default_value = std::int64_t{0},
       .doc = "Between the warm-up and the fall of a cosine or linear schedule",
       .unit = "steps",
       .min = 0,
       .max = kStepsMax},
      {.path = "warmup_steps",
       .default_value = defaults.warmup_steps,
       .doc = "Over which the learning rate rises to its value",
       .unit = "steps",
       .min = 0,
       .max = kStepsMax},
      {.path = "gradient_norm_clip",
       .default_value = defaults.gradient_norm_clip,
       .doc = "Largest norm of a network's whole gradient; 0: no clipping",
       .min = 0,
       .max = 1e9},
  };
  for (ConfigKey& key : keys) {
    key.path.insert(0, prefix);
    key.doc += of;
  }
  return keys;
}

ConfigKey accumulate_key(std::string path) {
  return {.path = std::move(path),
          .default_value = std::int64_t{1},
          .doc = "Batches whose gradients make one step",
          .unit = "batches",
          .min = 1,
          .max = 65536,
          .fixed = ConfigKey::Fixed::kValue};
}

OptimizerSpec read_optimizer(const ConfigSection& section, std::string_view prefix, std::int64_t steps) {
  const Reader keys(section, prefix);
  OptimizerSpec spec;
  spec.rule = read_rule(keys);
  spec.schedule = read_schedule(keys, steps);
  spec.max_global_norm = keys.number("gradient_norm_clip");
  return spec;
}

std::vector<std::string> optimizer_mistakes(const ConfigSection& section, std::string_view prefix) {
  const Reader keys(section, prefix);
  if (keys.text("optimizer") != "adamw" || keys.number("weight_decay") > 0) return {};
  return {fmt::format("{}: got 0, but without it optimizer \"adamw\" is \"adam\": expected more than 0",
                      keys.path("weight_decay"))};
}

const std::vector<OptimizerKeyUse>& optimizer_key_uses() {
  static const std::vector<OptimizerKeyUse> kUses = {
      {"momentum", "optimizer", {"sgd", "lars"}},
      {"beta1", "optimizer", {"adam", "adamw"}},
      {"beta2", "optimizer", {"adam", "adamw"}},
      {"rms_decay", "optimizer", {"rmsprop", "rmsprop_tf"}},
      {"rms_momentum", "optimizer", {"rmsprop", "rmsprop_tf"}},
      {"epsilon", "optimizer", {"adam", "adamw", "rmsprop", "rmsprop_tf"}},
      {"trust_coefficient", "optimizer", {"lars"}},
      {"hold_steps", "schedule", {"cosine", "linear"}},
  };
  return kUses;
}

}  // namespace troupe::learner
