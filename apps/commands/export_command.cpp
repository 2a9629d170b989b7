// `troupe export RUN`: what a run has learnt as safetensors, or the network that users run as ONNX.
#include <CLI/CLI.hpp>

#include <fmt/core.h>

#include <filesystem>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <troupe/apps/commands/commands.hpp>
#include <troupe/apps/run/trained_run.hpp>
#include <troupe/apps/version.hpp>
#include <troupe/core/atomic_file.hpp>
#include <troupe/learner/export/examples.hpp>
#include <troupe/learner/export/onnx.hpp>
#include <troupe/messages/safetensors.hpp>

namespace troupe::apps {
namespace {

constexpr std::int64_t kExampleRows = 16;

struct ExportArguments {
  std::string run, format, output, what, examples;
};

struct File {
  std::filesystem::path path;
  std::vector<std::byte> bytes;
};

/// What readers of either format are told.
std::map<std::string, std::string> metadata(const TrainedRun& run) {
  return {{"troupe_version", std::string(version())},
          {"run", run.options.name},
          {"part", run.part.name},
          {"model", run.part.model},
          {"step", std::to_string(run.part.step)}};
}

Result<std::vector<std::byte>> safetensors(const TrainedRun& run) {
  std::vector<messages::TensorBytes> tensors;
  for (const actors::TrainedTensor& tensor : run.part.tensors) {
    tensors.push_back({tensor.name, DType::kF32, tensor.shape, std::as_bytes(std::span(tensor.values))});
  }
  return messages::encode_safetensors(tensors, metadata(run));
}

Status write(const File& file) { return write_file_atomic(file.path.string(), file.bytes); }

Status run_export(const ExportArguments& arguments) {
  TROUPE_ASSIGN(const TrainedRun run, open_trained_run(arguments.run, arguments.what));
  File file, examples{.path = arguments.examples};
  if (arguments.format == "safetensors") {
    TROUPE_ASSIGN(file.bytes, safetensors(run));
  }
  if (arguments.format == "onnx" || !arguments.examples.empty()) {
    TROUPE_ASSIGN(const TrainedNetwork network, trained_network(run, kExampleRows));
    if (arguments.format == "onnx") {
      TROUPE_ASSIGN(const std::string model, learner::to_onnx(*network.graph, *network.program,
                                                              {.name = run.part.name,
                                                               .producer_version = std::string(version()),
                                                               .metadata = metadata(run)}));
      const auto bytes = std::as_bytes(std::span(model));
      file.bytes.assign(bytes.begin(), bytes.end());
    }
    if (!arguments.examples.empty()) {
      TROUPE_ASSIGN(const learner::Example example,
                    learner::run_example(*network.graph, *network.program, run.options.seed));
      TROUPE_ASSIGN(examples.bytes, learner::encode_example(example));
    }
  }
  TROUPE_ASSIGN(file.path, output_file(run, arguments.output, arguments.format));
  TROUPE_TRY(write(file));
  if (!arguments.examples.empty()) TROUPE_TRY(write(examples));
  fmt::print("{} ({}) at step {}: {} bytes\n{}\n", run.part.name, run.part.model, run.part.step, file.bytes.size(),
             file.path.string());
  if (!arguments.examples.empty()) fmt::print("{}\n", arguments.examples);
  return {};
}

}  // namespace

void add_export_command(CLI::App& app, Command* chosen) {
  CLI::App* command = app.add_subcommand("export", "Write what a run has learnt for other programs");
  const auto arguments = std::make_shared<ExportArguments>();
  ExportArguments& a = *arguments;
  command->add_option("run", a.run, "Directory of the run; its newest good checkpoint is taken")
      ->required()
      ->type_name("RUN");
  command
      ->add_option("--format", a.format,
                   "safetensors: all parameters and states; onnx: the network that users run (policy, classifier, "
                   "generator)")
      ->required()
      ->check(CLI::IsMember({"safetensors", "onnx"}));
  command->add_option("-o,--output", a.output, "By default RUN/export/NAME.FORMAT")->type_name("FILE");
  command->add_option("--what", a.what, "Part of the run: learner (D4PG) or the name of a replica group")
      ->type_name("NAME");
  command
      ->add_option("--examples", a.examples,
                   "Also write 16 rows of inputs and what Troupe makes of them, as safetensors, to compare with")
      ->type_name("FILE");
  command->callback([arguments, chosen] { *chosen = [arguments] { return exit_code(run_export(*arguments)); }; });
}

}  // namespace troupe::apps
