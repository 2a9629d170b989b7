#pragma once
// A training run with everything that it records: what `troupe train` does, and the chief of a run over nodes.
#include <troupe/core/config.hpp>
#include <troupe/core/error.hpp>
#include <troupe/run/run_directory.hpp>
#include <troupe/run/train.hpp>
#include <troupe/run/train_options.hpp>

namespace troupe::apps {

struct RecordOptions {
  bool resume = false;
  bool quiet = false;
  const actors::NodePlace* place = nullptr;  ///< of the chief; null: this process is the whole run
  bool* over = nullptr;                      ///< as TrainHooks::over
};

/// Trains until a limit is met or somebody asks for the end (SIGINT, SIGTERM, SIGHUP), and leaves the files that
/// run_directory.hpp lists. The caller sees to it that nobody else trains there (RunLock). Errors: those of train();
/// kIo.
Status record_run(const RunDirectory& run, const Config& config, const actors::TrainOptions& options,
                  const RecordOptions& how);

}  // namespace troupe::apps
