#include <troupe/run/trained_run.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <climits>
#include <system_error>
#include <utility>
#include <vector>

#include <troupe/actors/control/run_checkpoint.hpp>
#include <troupe/core/config.hpp>
#include <troupe/core/text.hpp>
#include <troupe/run/train_schema.hpp>

namespace troupe::apps {
namespace {

Result<std::string> chosen_part(const std::string& path, const actors::TrainOptions& options,
                                const PartChoice& choice) {
  const std::string wanted = choice.model.empty() && choice.kind == PartKind::kAgent ? "agent" : choice.model;
  std::vector<std::string> names = actors::part_names(options, choice.model);
  if (choice.kind == PartKind::kAgent) {
    std::erase_if(names, [&](const std::string& name) { return actors::find_agent(options, name) == nullptr; });
  }
  if (names.empty()) return Error{Code::kNotFound, fmt::format("{}: the run trains no {}", path, wanted)};
  const std::string& what = choice.name;
  if (what.empty() && names.size() == 1) return names[0];
  if (what.empty()) {
    return Error{Code::kInvalidArgument, fmt::format("{}: the run has several parts: choose one with --what {}", path,
                                                     fmt::join(names, " or --what "))};
  }
  if (std::ranges::find(names, what) != names.end()) return what;
  return Error{Code::kNotFound,
               fmt::format("{}: the run has no {}part {}; it has: {}", path, wanted.empty() ? "" : wanted + " ",
                           printable(what), fmt::join(names, ", "))};
}

}  // namespace

Result<TrainedRun> open_trained_run(const Registry& registry, const std::string& path, const PartChoice& choice) {
  TrainedRun run;
  TROUPE_ASSIGN(run.directory, open_run_directory(path));
  TROUPE_ASSIGN(const Config config, load_config(run.directory.config(), {}, train_schema(registry)));
  TROUPE_ASSIGN(run.options, to_train_options(config, registry));
  if (run.options.name.empty()) run.options.name = run.directory.id();
  TROUPE_ASSIGN(const std::string name, chosen_part(path, run.options, choice));
  // Of a run over nodes the checkpoint is in pieces, one a node.
  TROUPE_ASSIGN(const auto checkpoint, actors::open_run_checkpoint(run.directory.checkpoints()));
  TROUPE_ASSIGN(run.part, actors::read_part(run.options, checkpoint, name));
  return run;
}

Result<TrainedNetwork> trained_network(const TrainedRun& run, std::int64_t rows) {
  TROUPE_ASSIGN(const auto build, actors::inference_network(run.options, run.part.name));
  TrainedNetwork network{.graph = std::make_unique<learner::Graph>(rows)};
  build(*network.graph);
  TROUPE_ASSIGN(network.program, learner::Program::compile(*network.graph, {}));
  TROUPE_TRY(actors::load_part(run.part, *network.program));
  return network;
}

Result<Output> output_of(const TrainedRun& run, const std::string& requested, const std::string& extension) {
  if (!requested.empty()) return Output::at(requested, {.run = run.directory.path});
  const std::filesystem::path folder = run.directory.exports();
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) return Error{Code::kIo, fmt::format("{}: {}", printable(folder.string(), PATH_MAX), error.message())};
  return Output::at((folder / (run.part.name + "." + extension)).string());
}

}  // namespace troupe::apps
