#include <troupe/algorithms/control/agent_keys.hpp>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>

#include <troupe/learner/ops/layer_keys.hpp>

namespace troupe::learner::control {

ConfigSchema network_keys(const std::string& network, const std::vector<std::int64_t>& layers, Activation activation,
                          const OptimizerKeys& optimizer) {
  ConfigSchema keys = layer_keys(network + "_", layers, activation, " of the " + network);
  std::ranges::move(optimizer_keys(network + "_", optimizer, ", of the " + network), std::back_inserter(keys));
  return keys;
}

Result<OptimizerSpec> read_network_optimizer(const ConfigSection& keys, const std::string& network,
                                             std::int64_t steps) {
  const std::string prefix = network + "_";
  if (steps == 0 && keys.get_string(prefix + "schedule") != "constant") {
    return Error{Code::kInvalidArgument, fmt::format("{}schedule: got \"{}\" without max_learner_steps, expected that "
                                                     "limit or \"constant\"",
                                                     prefix, keys.get_string(prefix + "schedule"))};
  }
  const std::vector<std::string> mistakes = optimizer_mistakes(keys, prefix);
  if (!mistakes.empty()) return Error{Code::kInvalidArgument, fmt::format("{}", fmt::join(mistakes, "\n"))};
  constexpr std::int64_t kEndless = std::int64_t{1} << 53;
  return read_optimizer(keys, prefix, steps == 0 ? kEndless : steps);
}

ConfigSchema encoder_keys(const ImageEncoder& defaults, const OptimizerKeys& optimizer) {
  ConfigSchema keys = {{.path = "shift_padding",
                        .default_value = defaults.shift_padding,
                        .doc = "By at most so many pixels an image is moved, each way, when it is learnt from",
                        .unit = "pixels",
                        .min = 0,
                        .max = 1000},
                       {.path = "filters",
                        .default_value = defaults.filters,
                        .doc = "Channels of each of the encoder's four convolutions",
                        .min = 1,
                        .max = 4096,
                        .fixed = ConfigKey::Fixed::kValue},
                       {.path = "features",
                        .default_value = defaults.features,
                        .doc = "Numbers that the policy and the critics each make of what the encoder sees",
                        .min = 1,
                        .max = 65536,
                        .fixed = ConfigKey::Fixed::kValue}};
  std::ranges::move(optimizer_keys("encoder_", optimizer, ", of the encoder"), std::back_inserter(keys));
  return keys;
}

ConfigSchema joined(std::vector<ConfigSchema> schemas) {
  ConfigSchema all;
  for (ConfigSchema& schema : schemas) std::ranges::move(schema, std::back_inserter(all));
  return all;
}

ConfigSchema return_keys(std::int64_t n_step, double discount) {
  return {
      {.path = "n_step",
       .default_value = n_step,
       .doc = "Length of the n-step returns",
       .unit = "steps",
       .min = 1,
       .max = 1000,
       .fixed = ConfigKey::Fixed::kValue},
      {.path = "discount",
       .default_value = discount,
       .doc = "Discount (gamma) of a step",
       .min = 0,
       .max = 1,
       .fixed = ConfigKey::Fixed::kValue},
  };
}

ConfigKey random_steps_key(std::int64_t env_steps) {
  return {.path = "random_env_steps",
          .default_value = env_steps,
          .doc = "In which actions are uniform, at the beginning of a run, over all env actors",
          .unit = "env steps",
          .min = 0,
          .max = 1e9};
}

ConfigSchema noise_repeat_keys(std::int64_t most, double exponent) {
  return {{.path = "noise_repeats_max",
           .default_value = most,
           .doc = "Steps for which exploration holds its noise at most; 1: each step draws",
           .unit = "env steps",
           .min = 1,
           .max = 1000},
          {.path = "noise_repeats_exponent",
           .default_value = exponent,
           .doc = "Noise is held for n steps with a probability in proportion to n to minus this",
           .min = 0,
           .max = 100}};
}

ConfigKey normalise_key() {
  return {.path = "normalise_observations",
          .default_value = false,
          .doc = "Networks see observations less their running mean, over their deviation",
          .fixed = ConfigKey::Fixed::kValue};
}

ConfigSchema support_keys(const Support& support) {
  return {
      {.path = "atoms",
       .default_value = support.count,
       .doc = "Atoms of the value distribution",
       .min = 2,
       .max = 1024,
       .fixed = ConfigKey::Fixed::kValue},
      {.path = "v_min",
       .default_value = support.low,
       .doc = "Least value of the distribution",
       .min = -1e9,
       .max = 1e9,
       .fixed = ConfigKey::Fixed::kValue},
      {.path = "v_max",
       .default_value = support.high,
       .doc = "Greatest value; at least the largest discounted sum of rewards",
       .min = -1e9,
       .max = 1e9,
       .fixed = ConfigKey::Fixed::kValue},
  };
}

Result<Support> read_support(const ConfigSection& keys) {
  const Support support{keys.get_float("v_min"), keys.get_float("v_max"), keys.get_int("atoms")};
  if (support.low < support.high) return support;
  return Error{Code::kInvalidArgument,
               fmt::format("v_min: got {} with v_max {}, expected less", support.low, support.high)};
}

ConfigKey target_rate_key(double rate) {
  return {.path = "target_rate",
          .default_value = rate,
          .doc = "By which target networks follow at each of their updates (tau)",
          .min = 1e-6,
          .max = 0.999999};
}

}  // namespace troupe::learner::control
