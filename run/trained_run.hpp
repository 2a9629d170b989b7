#pragma once
// A part of a recorded run with what its newest good checkpoint has learnt: for the commands that use a run's networks.
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>

#include <troupe/core/error.hpp>
#include <troupe/learner/engine/program.hpp>
#include <troupe/learner/graph/graph.hpp>
#include <troupe/run/output.hpp>
#include <troupe/run/registry.hpp>
#include <troupe/run/run_directory.hpp>
#include <troupe/run/train_options.hpp>
#include <troupe/run/trained_part.hpp>

namespace troupe::apps {

struct TrainedRun {
  RunDirectory directory;
  actors::TrainOptions options;
  actors::TrainedPart part;
};

/// Which part of a run is meant.
enum class PartKind { kAny, kAgent };
struct PartChoice {
  std::string name = {};           ///< empty when there is only one that may be meant
  std::string model = {};          ///< only parts of that algorithm or model are; empty: all are
  PartKind kind = PartKind::kAny;  ///< and of that kind
};

/// Reads the recorded configuration and the checkpoint; changes nothing. Errors: kNotFound: no run, no checkpoint, no
/// such part; kInvalidArgument: several parts to choose from; kCorrupt: no checkpoint is whole.
Result<TrainedRun> open_trained_run(const Registry& registry, const std::string& path, const PartChoice& choice);

/// The network that users of the part run, with its trained values.
struct TrainedNetwork {
  std::unique_ptr<learner::Graph> graph;
  std::unique_ptr<learner::Program> program;
};
/// rows: the size of its batch. Errors: kNotFound: the part has none; those of the data that it has learnt from.
Result<TrainedNetwork> trained_network(const TrainedRun& run, std::int64_t rows);

/// Where a command writes what it made of the part: `requested`, or when that is empty RUN/export/NAME.EXTENSION, whose
/// folder is made. Errors: those of Output::at().
Result<Output> output_of(const TrainedRun& run, const std::string& requested, const std::string& extension);

}  // namespace troupe::apps
