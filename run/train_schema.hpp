#pragma once
// Every setting of a training run: the keys that a config file may have, and the typed options they become. The one
// place where a key is tied to its field, so that `troupe config --explain`, the checks and the run cannot disagree.
#include <troupe/core/config.hpp>
#include <troupe/run/registry.hpp>
#include <troupe/run/train_options.hpp>

namespace troupe::apps {

/// The keys with types, defaults (those of actors::TrainOptions), ranges and docs, those of whatever the registry knows
/// among them. The registry has passed check_registry().
ConfigSchema train_schema(const Registry& registry);

/// Checks what only several keys together can get wrong, then fills in the options.
/// Errors: kInvalidArgument, one line a mistake, each beginning with the place of one of the keys:
///     run.toml:9: learner.v_min must be below learner.v_max: got 150 and 150
/// config: of train_schema() of the same registry.
Result<actors::TrainOptions> to_train_options(const Config& config, const Registry& registry);

}  // namespace troupe::apps
