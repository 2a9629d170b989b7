#pragma once
// summary.json: the result of a run for scripts (the benches and the README's table read it).
#include <span>
#include <string>

#include <troupe/run/train.hpp>

namespace troupe::apps {

struct RunSummary {
  std::uint64_t seed = 0;
  std::string version;      ///< of the program, with its commit
  std::string machine;      ///< machine(), see run/machine.hpp
  std::string config_hash;  ///< Config::hash()
  actors::TrainSummary train;
  std::span<const Evaluation> evaluations;  ///< all of the run, over all of its starts
};

/// {"env", "seed", "version", "machine", "config_hash", "stop_reason", "wall_s", "env_steps", "learner_steps",
///  "final_return": {"mean", "std", "episodes"} or null, "first_reached": {"100": wall_s, ...},
///  "agents": {NAME: {"env", "env_steps", "learner_steps", "final_return", "first_reached"}, ...},
///  "replicas": {NAME: {"steps", "evaluated_step", "metrics": {...}, "evaluation": {...}}, ...}}; ends in a line end.
/// first_reached has the thresholds that were reached, by the mean return of an evaluation. env, final_return and
/// first_reached are of the first agent, and "agents" has those with a name.
std::string summary_json(const RunSummary& summary);

/// The same for a person, as aligned lines.
std::string summary_table(const RunSummary& summary);

}  // namespace troupe::apps
