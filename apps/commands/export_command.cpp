// `troupe export RUN`: what a run has learnt as safetensors, or the network that users run as ONNX.
#include <CLI/CLI.hpp>

#include <fmt/core.h>

#include <array>
#include <cstdio>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <troupe/apps/commands/commands.hpp>
#include <troupe/apps/version.hpp>
#include <troupe/learner/export/examples.hpp>
#include <troupe/learner/export/onnx.hpp>
#include <troupe/messages/safetensors.hpp>
#include <troupe/run/output.hpp>
#include <troupe/run/say.hpp>
#include <troupe/run/trained_run.hpp>

namespace troupe::apps {
namespace {

constexpr std::int64_t kExampleRows = 16;
constexpr std::array<std::string_view, 2> kExportFormats = {"safetensors", "onnx"};

struct ExportArguments {
  std::string run, format, output, what, examples;
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

/// The one that was asked for by name or by the output's suffix; they must not disagree.
Result<std::string> format_of(const ExportArguments& arguments) {
  if (arguments.output.empty()) {
    if (!arguments.format.empty()) return arguments.format;
    return Error{Code::kInvalidArgument, "--format: missing, expected safetensors or onnx, or -o with such a suffix"};
  }
  TROUPE_ASSIGN(const Output output, Output::at(arguments.output));
  TROUPE_ASSIGN(const std::string format, output.format(kExportFormats, arguments.format));
  if (format.empty()) return Error{Code::kInvalidArgument, "--format: missing, expected safetensors or onnx"};
  if (arguments.format.empty() || arguments.format == format) return format;
  return Error{Code::kInvalidArgument, fmt::format("-o {}: the suffix says {}, but --format says {}", output.shown(),
                                                   format, arguments.format)};
}

/// Where the examples go, which must be another place than the model's.
Result<Output> examples_output(const ExportArguments& arguments, const TrainedRun& run) {
  TROUPE_ASSIGN(const Output output,
                Output::at(arguments.examples, {.option = "--examples", .run = run.directory.path}));
  const bool same = arguments.examples == arguments.output || (!output.is_stream() && !arguments.output.empty() &&
                                                               std::filesystem::weakly_canonical(arguments.examples) ==
                                                                   std::filesystem::weakly_canonical(arguments.output));
  if (!same) return output;
  return Error{Code::kInvalidArgument,
               fmt::format("--examples {}: the same as -o, expected another file", output.shown())};
}

Status run_export(const ExportArguments& arguments, const Registry& registry) {
  TROUPE_ASSIGN(const std::string format, format_of(arguments));
  TROUPE_ASSIGN(const TrainedRun run, open_trained_run(registry, arguments.run, {.name = arguments.what}));
  TROUPE_ASSIGN(const Output output, output_of(run, arguments.output, format));
  std::optional<Output> examples;
  if (!arguments.examples.empty()) {
    TROUPE_ASSIGN(examples, examples_output(arguments, run));
  }
  std::vector<std::byte> model, rows;
  if (format == "safetensors") {
    TROUPE_ASSIGN(model, safetensors(run));
  }
  if (format == "onnx" || examples) {
    TROUPE_ASSIGN(const TrainedNetwork network, trained_network(run, kExampleRows));
    if (format == "onnx") {
      TROUPE_ASSIGN(const std::string text, learner::to_onnx(*network.graph, *network.program,
                                                             {.name = run.part.name,
                                                              .producer_version = std::string(version()),
                                                              .metadata = metadata(run)}));
      const auto bytes = std::as_bytes(std::span(text));
      model.assign(bytes.begin(), bytes.end());
    }
    if (examples) {
      TROUPE_ASSIGN(const learner::Example example,
                    learner::run_example(*network.graph, *network.program, run.options.seed));
      TROUPE_ASSIGN(rows, learner::encode_example(example));
    }
  }
  TROUPE_TRY(output.write(model));
  if (examples) TROUPE_TRY(examples->write(rows));
  std::FILE* const out = examples && output.messages() == stdout ? examples->messages() : output.messages();
  say_text(fmt::format("{} ({}) at step {}: {} bytes\n{}\n", run.part.name, run.part.model, run.part.step, model.size(),
                       output.shown()),
           out);
  if (examples) say_text(examples->shown() + "\n", out);
  return {};
}

}  // namespace

void add_export_command(CLI::App& app, const Registry& registry, Command* chosen) {
  CLI::App* command = app.add_subcommand("export", "Write what a run has learnt for other programs");
  const auto arguments = std::make_shared<ExportArguments>();
  ExportArguments& a = *arguments;
  command->add_option("run", a.run, "Directory of the run; its newest good checkpoint is taken")
      ->required()
      ->type_name("RUN");
  command
      ->add_option("--format", a.format,
                   "safetensors: all parameters and states; onnx: the network that users run (policy, classifier, "
                   "generator). By default what the suffix of -o says")
      ->check(CLI::IsMember({"safetensors", "onnx"}));
  command->add_option("-o,--output", a.output, "- for the standard output; by default RUN/export/NAME.FORMAT")
      ->type_name("FILE");
  command->add_option("--what", a.what, "Part of the run: the agent's learner, or the name of a replica group")
      ->type_name("NAME");
  command
      ->add_option("--examples", a.examples,
                   "Also write 16 rows of inputs and what Troupe makes of them, as safetensors, to compare with")
      ->type_name("FILE");
  command->callback([arguments, &registry, chosen] {
    *chosen = [arguments, &registry] { return exit_code(run_export(*arguments, registry)); };
  });
}

}  // namespace troupe::apps
