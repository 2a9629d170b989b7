#pragma once
// Every setting of a training run: the keys that a config file may have, and the typed options they become. The one
// place where a key is tied to its field, so that `troupe config --explain`, the checks and the run cannot disagree.
#include <string>
#include <vector>

#include <troupe/core/config.hpp>
#include <troupe/run/train_options.hpp>

namespace troupe::apps {

/// The keys with types, defaults (those of actors::TrainOptions), ranges and docs. `environments`: the values that
/// "env" may have.
ConfigSchema train_schema(std::vector<std::string> environments);

/// Checks what only several keys together can get wrong, then fills in the options.
/// Errors: kInvalidArgument, one line a mistake, each beginning with the place of one of the keys:
///     run.toml:9: learner.v_min must be below learner.v_max: got 150 and 150
Result<actors::TrainOptions> to_train_options(const Config& config);

}  // namespace troupe::apps
