#pragma once
// What a run has recorded, read back to be compared with others: its configuration, and the returns of its agents over
// env steps and wall time. Used by `troupe compare` and `troupe sweep` through run/comparison.hpp.
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include <troupe/core/config.hpp>
#include <troupe/core/error.hpp>
#include <troupe/run/registry.hpp>
#include <troupe/run/run_directory.hpp>

namespace troupe::apps {

/// The mean return of an evaluation.
struct ReturnPoint {
  double wall_s = 0;
  double env_steps = 0;  ///< of the run
  double value = 0;
};

struct RecordedAgent {
  std::string task;                         ///< its environment; of an agent with a name "alice: cartpole-swingup"
  std::string env_key;                      ///< where the configuration says so: "env", "agents.alice.env"
  std::vector<ReturnPoint> returns;         ///< in the order of time, one at least; the last is the final one
  double env_steps = 0, learner_steps = 0;  ///< of this agent, in all
};

struct RecordedRun {
  RunDirectory directory;
  Config config;
  std::int64_t seed = 0;
  double wall_s = 0;  ///< over all of its starts
  /// From its summary; empty when it has none yet.
  std::string version, machine, stop_reason;
  std::vector<RecordedAgent> agents;
};

/// Reads the directory of a run, which may go on meanwhile; agents that have not been evaluated yet are left out.
/// Errors: those of open_run_directory(), load_config(), read_csv(); kNotFound: no agent at all, or none with an
/// evaluation; kCorrupt: its summary is no JSON.
Result<RecordedRun> read_recorded_run(const std::filesystem::path& path, const Registry& registry);

/// What a run's summary.json says of how it ended; all are empty when there is no such file. Errors: kCorrupt, kIo.
struct RecordedEnd {
  std::string stop_reason, version, machine;
};
/// Whether a run with this stop_reason has met a limit of its own: nobody stopped it, and it does not go on.
bool met_its_limits(const std::string& stop_reason);
Result<RecordedEnd> read_recorded_end(const RunDirectory& run);

}  // namespace troupe::apps
