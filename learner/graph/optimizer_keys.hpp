#pragma once
// The keys of an optimiser, alike for every algorithm: rule, rates, schedule, clipping and gradient accumulation. An
// algorithm's section has them under a prefix of its own (none, or one for each of its networks), with its own
// defaults; what they say becomes an OptimizerSpec.
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <troupe/core/config.hpp>
#include <troupe/learner/graph/optimizer.hpp>

namespace troupe::learner {

/// A value for each key, which is called as the field is. What a rule does with them: learner/graph/optimizer.hpp.
struct OptimizerKeys {
  /// "adam", "adamw" (the same rule, which must have a weight_decay then), "sgd" (with Nesterov's momentum), "rmsprop"
  /// (PyTorch's, epsilon outside of the root), "rmsprop_tf" (TensorFlow's, inside), "lars".
  std::string optimizer = "adam";
  double learning_rate = 1e-3;
  double momentum = 0.9;  ///< sgd, lars
  double weight_decay = 0;
  double beta1 = 0.9, beta2 = 0.999;          ///< adam, adamw
  double rms_decay = 0.99, rms_momentum = 0;  ///< both RMSProps
  double epsilon = 1e-8;                      ///< adam, adamw, both RMSProps
  double trust_coefficient = 1e-3;            ///< lars
  std::string schedule = "constant";          ///< or "step", "cosine", "linear"
  std::int64_t warmup_steps = 0;
  double gradient_norm_clip = 0;  ///< 0: never
};

/// The keys `prefix` + field, with their ranges; `of` says in their docs whose they are: ", of the policy", or nothing.
ConfigSchema optimizer_keys(std::string_view prefix, const OptimizerKeys& defaults, std::string_view of = "");
/// The key `path`: batches whose gradients make one step (CompileOptions::accumulate), of a whole step and so none of
/// the above.
ConfigKey accumulate_key(std::string path);

/// What a section's keys `prefix` + field say, of an optimiser that makes `steps` updates.
OptimizerSpec read_optimizer(const ConfigSection& section, std::string_view prefix, std::int64_t steps);

/// One line, beginning with the key, for each value that does not fit the others.
std::vector<std::string> optimizer_mistakes(const ConfigSection& section, std::string_view prefix);

/// A key that only some rules or schedules look at.
struct OptimizerKeyUse {
  std::string_view key;
  std::string_view chooses;              ///< "optimizer" or "schedule"
  std::vector<std::string_view> values;  ///< of that key, with which this one has an effect
};
/// All such keys: who sets one beside another value is told that it has no effect.
const std::vector<OptimizerKeyUse>& optimizer_key_uses();

}  // namespace troupe::learner
