#pragma once
// The runs of a sweep: every configuration with every combination of settings and every seed, each checked before the
// first of them begins. `troupe sweep` makes a plan of its arguments, keeps it in the sweep's directory
// (apps/sweep/sweep_directory.hpp) and starts what has not ended yet.
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <troupe/apps/sweep/grid.hpp>
#include <troupe/core/error.hpp>
#include <troupe/run/registry.hpp>
#include <troupe/run/train_options.hpp>

namespace troupe::apps {

/// What a user asks for.
struct SweepRequest {
  std::vector<std::string> configs;  ///< files, folders of files, names of shipped ones
  std::vector<SweptKey> keys;
  std::optional<std::vector<std::int64_t>> seeds;  ///< not given: the seed of each configuration
};

/// A configuration of a sweep, by a name that is unique in it, with the text of its file: the sweep keeps a copy, so
/// that all runs are of one configuration, whatever becomes of the file.
struct SweepConfig {
  std::string name;  ///< the file's, without .toml
  std::string text;
};

struct SweepRun {
  std::string name;               ///< of its directory: a safe_name(), unique in the sweep
  std::string config;             ///< SweepConfig::name
  std::vector<Setting> settings;  ///< values as TOML, in the one form that equal values have
  std::int64_t seed = 0;

  friend bool operator==(const SweepRun&, const SweepRun&) = default;
};

struct SweepPlan {
  std::vector<SweepConfig> configs;
  std::vector<std::string> keys;  ///< that the settings of each run have, in that order
  std::vector<SweepRun> runs;
};

/// "cartpole_swingup, d4pg.sigma=0.2, seed 1": the run for people.
std::string in_words(const SweepRun& run);
/// What the run has beyond its configuration, for `troupe train --set`.
std::vector<std::string> overrides_of(const SweepRun& run);

/// What the run is to do, of the sweep's own copy of its configuration. Errors: those of reading a configuration.
Result<actors::TrainOptions> options_of(const SweepPlan& plan, const SweepRun& run, const Registry& registry);

/// Reads the configurations and checks every combination as `troupe train` would, and that each run ends by itself and
/// has an agent, whose returns are what a sweep compares. Nothing is written. Errors: those of find_configs();
/// kInvalidArgument, beginning with the combination that is wrong; a name or a combination twice; no run, or more than
/// kSweepRunsMax.
Result<SweepPlan> plan_sweep(const SweepRequest& request, const Registry& registry);

/// Adds the runs of `now` that `before` has not, behind its own: the numbers of runs stay what they were. The keys of
/// both are the same, and `now` has every run of `before`: a sweep grows, and is never less than what was done.
/// Errors: kInvalidArgument, with what is missing or what has changed in a configuration.
Result<SweepPlan> grown(const SweepPlan& before, const SweepPlan& now, const Registry& registry);

}  // namespace troupe::apps
