// `troupe graph CONFIG`: the topology that a configuration makes, as a picture by Graphviz.
#include <CLI/CLI.hpp>

#include <fmt/core.h>
#include <sys/wait.h>

#include <array>
#include <climits>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>

#include <troupe/actors/runtime/topology_dot.hpp>
#include <troupe/apps/commands/commands.hpp>
#include <troupe/apps/commands/run_arguments.hpp>
#include <troupe/core/atomic_file.hpp>
#include <troupe/core/text.hpp>
#include <troupe/run/mistake_place.hpp>
#include <troupe/run/no_metrics.hpp>
#include <troupe/run/output.hpp>
#include <troupe/run/run_topology.hpp>
#include <troupe/run/say.hpp>

namespace troupe::apps {
namespace {

constexpr std::array<std::string_view, 4> kGraphFormats = {"svg", "png", "pdf", "dot"};
/// Room for ".svg" and for what stands behind the name while the file is written.
constexpr std::size_t kNameBytes = NAME_MAX - 32;

struct GraphArguments {
  RunArguments run;
  std::string output;
};

/// Runs `dot` on the text; it reads it from a file beside the picture, so no name of the user's reaches a shell.
Result<std::string> draw(const std::string& dot, const std::string& format) {
  std::string folder = (std::filesystem::temp_directory_path() / "troupe-graph-XXXXXX").string();
  if (mkdtemp(folder.data()) == nullptr) return Error{Code::kIo, folder + ": cannot make a temporary folder"};
  const std::string text = folder + "/topology.dot", picture = folder + "/picture";
  Status drawn = write_file_atomic(text, dot);
  if (drawn.ok()) {
    const int state = std::system(fmt::format("dot -T{} -o {} {}", format, picture, text).c_str());
    if (!WIFEXITED(state) || WEXITSTATUS(state) == 127) {
      drawn = Error{Code::kNotFound, "dot is not there: install Debian's graphviz, or take the text with -o FILE.dot"};
    } else if (WEXITSTATUS(state) != 0) {
      drawn = Error{Code::kInternal, fmt::format("dot failed with status {}", WEXITSTATUS(state))};
    }
  }
  Result<std::vector<std::byte>> bytes = drawn.ok() ? read_file(picture, 64 << 20) : drawn.error();
  std::error_code ignored;
  std::filesystem::remove_all(folder, ignored);
  if (!bytes.ok()) return bytes.error();
  return std::string(reinterpret_cast<const char*>(bytes->data()), bytes->size());
}

Result<std::string> graph(const LoadedRun& run, const std::string& format) {
  actors::NoMetrics sink;
  const auto topology = actors::run_topology(run.options, {sink}, 0);
  if (!topology.ok()) return placed(run.config, topology.error());
  TROUPE_TRY(actors::check(*topology));
  const std::string dot = actors::to_dot(*topology);
  return format == "dot" ? dot : draw(dot, format);
}

int run(const GraphArguments& arguments, const Registry& registry) {
  const Result<LoadedRun> loaded = load_run(arguments.run, registry);
  if (!loaded.ok()) return fail_config(loaded.error());
  const std::string name =
      arguments.output.empty() ? std::string(shortened(loaded->options.name, kNameBytes)) + ".svg" : arguments.output;
  const Result<Output> output = Output::at(name, {.inputs = {loaded->config.file()}});
  if (!output.ok()) return fail(output.error());
  const Result<std::string> format = output->format(kGraphFormats, "dot");
  if (!format.ok()) return fail(format.error());
  const Result<std::string> drawn = graph(*loaded, *format);
  if (!drawn.ok()) return fail_run(drawn.error());
  if (const Status written = output->write(*drawn); !written.ok()) return fail(written.error());
  if (!output->is_stream()) say("{}\n", output->shown());
  return kExitOk;
}

}  // namespace

void add_graph_command(CLI::App& app, const Registry& registry, Command* chosen) {
  CLI::App* command = app.add_subcommand("graph", "Draw a configuration's roles, channels and groups");
  const auto arguments = std::make_shared<GraphArguments>();
  add_config_argument(*command, arguments->run.config);
  command
      ->add_option("-o,--output", arguments->output,
                   "FILE.svg, .png, .pdf or .dot; - for DOT on the standard output; by default NAME.svg")
      ->type_name("FILE");
  command->add_option("--set", arguments->run.overrides, "Override a key of the configuration; may be repeated")
      ->type_name("KEY=VALUE")
      ->allow_extra_args(false);
  command->callback(
      [arguments, &registry, chosen] { *chosen = [arguments, &registry] { return run(*arguments, registry); }; });
}

}  // namespace troupe::apps
