#pragma once
// A part of a recorded run with what its newest good checkpoint has learnt: for the commands that use a run's networks.
#include <string>

#include <troupe/actors/train_options.hpp>
#include <troupe/actors/trained_part.hpp>
#include <troupe/apps/run/run_directory.hpp>
#include <troupe/core/error.hpp>

namespace troupe::apps {

struct TrainedRun {
  RunDirectory directory;
  actors::TrainOptions options;
  actors::TrainedPart part;
};

/// what: the part's name; empty when there is only one. model: if not empty, only parts of that model count. Reads the
/// recorded configuration and the checkpoint; changes nothing. Errors: kNotFound: no run, no checkpoint, no such part;
/// kInvalidArgument: several parts to choose from; kCorrupt: no checkpoint is whole.
Result<TrainedRun> open_trained_run(const std::string& path, const std::string& what, const std::string& model = "");

}  // namespace troupe::apps
