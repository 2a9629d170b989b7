// `troupe compile CONFIG --topology v5e:2x2`: whether the steps of a configuration compile for devices that need not be
// there, how much memory they take and what the compiler estimates. The compiler is a PJRT plug-in, which runs in a
// process of its own, `troupe compile-module`: libtpu ends its process on some programs.
#include <CLI/CLI.hpp>

#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <troupe/actors/roles/replicator_options.hpp>
#include <troupe/apps/commands/commands.hpp>
#include <troupe/apps/commands/run_arguments.hpp>
#include <troupe/apps/commands/steps_of_run.hpp>
#include <troupe/apps/sweep/children.hpp>
#include <troupe/collectives/in_process.hpp>
#include <troupe/core/text.hpp>
#include <troupe/learner/engine/pjrt/hlo_module.hpp>
#include <troupe/pjrt/find_plugin.hpp>
#include <troupe/pjrt/gpu_topology.hpp>
#include <troupe/pjrt/topology.hpp>
#include <troupe/run/say.hpp>

namespace troupe::apps {
namespace {

namespace fs = std::filesystem;

struct CompileArguments {
  RunArguments run;
  std::string topology;
  std::string plugin;  ///< empty: that of the topology
  int replicas = 1;
  int steps = 1;
};

// ---- the compiler's process ----

/// Before each line of an error, which the compiler may go on about for pages.
constexpr std::string_view kErrorLine = "error ";
constexpr int kMostErrorLines = 30;

/// Of XLA's operations, without the ends of asynchronous ones.
bool is_collective(std::string_view name) {
  constexpr std::array<std::string_view, 6> kNames{"all-gather",         "all-reduce",     "all-to-all",
                                                   "collective-permute", "reduce-scatter", "collective-broadcast"};
  return !name.ends_with("-done") && std::ranges::any_of(kNames, [&](auto each) { return name.starts_with(each); });
}

/// What the compiler says, a line a number: "peak 123".
Status compile_module(const std::string& plugin_path, const std::string& topology_name, int replicas,
                      const std::string& file) {
  pjrt::prepare_libtpu_to_compile();
  if (pjrt::is_gpu_topology(topology_name)) TROUPE_TRY(pjrt::prepare_cuda_to_compile());
  std::ifstream in(file);
  const std::string text{std::istreambuf_iterator<char>(in), {}};
  TROUPE_ASSIGN(const auto plugin, pjrt::Plugin::open(plugin_path));
  TROUPE_ASSIGN(const auto topology, pjrt::Topology::make(plugin, topology_name));
  TROUPE_ASSIGN(const std::vector<pjrt::DeviceInfo> devices, topology.devices());
  say("kind {}\ndevices {}\n", devices.empty() ? "" : devices[0].kind, devices.size());
  pjrt::CompileOptions options{.replicas = replicas};
  // There is nothing here on which kernels could be timed.
  if (pjrt::is_gpu_topology(topology_name)) options.flags = {{"xla_gpu_autotune_level", std::int64_t{0}}};
  TROUPE_ASSIGN(const auto compiled, topology.compile(text, options));
  TROUPE_ASSIGN(const pjrt::MemoryUse memory, compiled.memory());
  say("arguments {}\nalias {}\ntemporaries {}\npeak {}\ncode {}\n", memory.arguments, memory.alias, memory.temporaries,
      memory.peak, memory.code);
  if (const auto counts = compiled.operations(); counts.ok()) {
    for (const auto& [name, count] : *counts) {
      // Asynchronous ones are two operations.
      if (is_collective(name)) say("collective {} = {}\n", name.substr(0, name.rfind("-start")), count);
    }
  }
  if (const auto costs = compiled.cost(); costs.ok()) {
    for (const pjrt::NamedValue& cost : *costs) {
      if (const auto* const number = std::get_if<float>(&cost.value)) say("cost {} = {}\n", cost.name, *number);
    }
  }
  return {};
}

// ---- what is compiled ----

Result<learner::HloModule> module_of(const PartStep& part, const CompileArguments& arguments) {
  const std::int64_t all_rows = part.group.batch_size;
  if (all_rows % arguments.replicas != 0) {
    return Error{Code::kInvalidArgument,
                 fmt::format("{} rows a step, expected a multiple of {} replicas", all_rows, arguments.replicas)};
  }
  TROUPE_ASSIGN(const learner::ReplicatorOptions how, actors::replicator_options(part.group));
  const std::int64_t rows = all_rows / arguments.replicas;
  TROUPE_ASSIGN(const auto replica, part.make());
  const learner::InputContext context{
      .replica_count = arguments.replicas, .replica_batch = rows, .global_batch = all_rows};
  TROUPE_ASSIGN(const auto input, replica->input_fn(context));
  learner::Graph graph(rows);
  collectives::InProcessHub hub;  // which nobody joins: the replicas meet within the program
  const auto group = hub.make();
  learner::ReplicaContext meets(graph, context, group.get());
  replica->step_fn(meets, learner::StepInputs(graph, input->signature()));
  return learner::make_hlo_module(graph, {.phase = learner::HloPhase::kUpdate,
                                          .bf16 = how.compile.compute == DType::kBF16,
                                          .steps = arguments.steps,
                                          .replicas = arguments.replicas,
                                          .global_batch = all_rows});
}

/// Compiles the text in another process. Returns what it said, or why it could not.
Result<std::map<std::string, std::string>> compile_elsewhere(std::vector<std::string> command, const fs::path& folder,
                                                             const fs::path& plugin, const CompileArguments& arguments,
                                                             const std::string& text) {
  const fs::path file = folder / "module.mlir", log = folder / "said.txt";
  std::ofstream(file) << text;
  fs::remove(log);
  command.insert(command.end(), {"compile-module", plugin.string(), arguments.topology,
                                 std::to_string(arguments.replicas), file.string()});
  ChildEnding ending;
  const auto asked =
      run_children({{std::move(command), log}}, {.ends = [&](std::size_t, const ChildEnding& how) { ending = how; }});
  TROUPE_TRY(asked);
  if (*asked > 0) return Error{Code::kCancelled, "stopped"};
  std::map<std::string, std::string> said;
  std::string last, error;
  int errors = 0;
  std::ifstream lines(log);
  for (std::string line; std::getline(lines, line);) {
    const bool is_named = line.starts_with("cost ") || line.starts_with("collective ");
    const std::size_t space = is_named ? line.find(" = ") : line.find(' ');
    if (space != std::string::npos) said[line.substr(0, space)] = line.substr(line.find_last_of(' ') + 1);
    if (line.starts_with("kind ")) said["kind"] = line.substr(5);
    if (line.starts_with(kErrorLine) && line.size() > kErrorLine.size() && ++errors <= kMostErrorLines) {
      error += fmt::format("{}{}", error.empty() ? "" : "\n  ", printable(line.substr(kErrorLine.size())));
    }
    last = line.empty() ? last : line;
  }
  if (ending.error.empty() && !ending.signalled && ending.number == 0) return said;
  if (!error.empty()) return Error{Code::kInternal, "it does not compile: " + error};
  return Error{Code::kInternal,
               fmt::format("{}: {}", ending.signalled ? "the compiler ended its process" : "it does not compile",
                           printable(last.empty() ? in_words(ending) : last))};
}

void show(const actors::ReplicaGroupOptions& group, const CompileArguments& arguments, std::size_t text_bytes,
          double seconds, const std::map<std::string, std::string>& said) {
  const auto number = [&](const char* name) {
    const auto found = said.find(name);
    return found == said.end() ? 0.0 : std::strtod(found->second.c_str(), nullptr);
  };
  const auto kind = said.find("kind");
  constexpr double kMib = 1024.0 * 1024.0;
  say("{}: {} replica{} of {} rows on {} ({}, {:.0f} devices): {:.0f} kB of StableHLO, compiled in {:.1f} s\n",
      group.name, arguments.replicas, arguments.replicas == 1 ? "" : "s", group.batch_size / arguments.replicas,
      arguments.topology, kind == said.end() ? "" : kind->second, number("devices"),
      static_cast<double>(text_bytes) / 1000, seconds);
  say("  memory of a device: {:.1f} MiB at most; {:.1f} of arguments, of which {:.1f} are donated, {:.1f} temporary, "
      "{:.1f} of code\n",
      number("peak") / kMib, number("arguments") / kMib, number("alias") / kMib, number("temporaries") / kMib,
      number("code") / kMib);
  std::string collectives;
  for (const auto& [name, count] : said) {
    constexpr std::string_view kPrefix = "collective ";
    if (!name.starts_with(kPrefix)) continue;
    collectives += fmt::format("{}{} {}", collectives.empty() ? "" : ", ", count, name.substr(kPrefix.size()));
  }
  if (!collectives.empty()) say("  collectives: {}\n", collectives);
  if (number("cost flops") <= 0) return;
  say("  estimates of the compiler{}: {:.3g} flops, {:.3g} bytes accessed", arguments.steps > 1 ? ", for one step" : "",
      number("cost flops"), number("cost bytes accessed"));
  // Negative where the compiler has no model of the device.
  if (number("cost optimal_seconds") > 0) say(", {:.3g} ms", number("cost optimal_seconds") * 1000);
  say("\n");
}

int run(const CompileArguments& arguments, const Registry& registry) {
  const Result<LoadedRun> loaded = load_run(arguments.run, registry);
  if (!loaded.ok()) return fail_config(loaded.error());
  const std::string_view usual = pjrt::is_gpu_topology(arguments.topology) ? "cuda" : "tpu";
  const auto plugin = pjrt::find_plugin(arguments.plugin.empty() ? usual : arguments.plugin);
  if (!plugin.ok()) return fail(plugin.error());
  const auto program = registry.command();
  if (!program.ok()) return fail(program.error());
  const auto all = steps_of_run(loaded->options, actors::ModelContext::Data::kElsewhere);
  if (!all.ok()) return fail_run(all.error());
  std::string folder = (fs::temp_directory_path() / "troupe-compile-XXXXXX").string();
  if (mkdtemp(folder.data()) == nullptr) return fail({Code::kIo, folder + ": cannot make a temporary folder"});
  int code = kExitOk;
  for (const PartStep& part : *all) {
    const auto module = module_of(part, arguments);
    if (!module.ok()) {
      code = fail({module.error().code, part.group.name + ": " + module.error().message});
      continue;
    }
    const auto begin = std::chrono::steady_clock::now();
    const auto said = compile_elsewhere(*program, folder, *plugin, arguments, module->text);
    if (!said.ok()) {
      code = fail({said.error().code, part.group.name + ": " + said.error().message});
      if (said.error().code == Code::kCancelled) break;
      continue;
    }
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
    show(part.group, arguments, module->text.size(), took.count(), *said);
  }
  std::error_code ignored;
  fs::remove_all(folder, ignored);
  return code;
}

}  // namespace

void add_compile_command(CLI::App& app, const Registry& registry, Command* chosen) {
  CLI::App* command =
      app.add_subcommand("compile", "Compile a configuration's steps for devices that need not be here");
  const auto arguments = std::make_shared<CompileArguments>();
  CompileArguments& a = *arguments;
  add_config_argument(*command, a.run.config);
  command->add_option("--topology", a.topology, "The devices: v5e:2x2 as libtpu calls them, h100:8 for GPUs")
      ->required();
  command->add_option("--plugin", a.plugin, "PJRT plug-in that compiles, by name or path, instead of tpu or cuda");
  command->add_option("--replicas", a.replicas, "That share a step's rows and average their gradients")
      ->check(CLI::Range(1, 4096))
      ->capture_default_str();
  command->add_option("--steps", a.steps, "In one execution, in a loop")
      ->check(CLI::Range(1, 1024))
      ->capture_default_str();
  command->add_option("--set", a.run.overrides, "Override a key of the configuration; may be repeated")
      ->type_name("KEY=VALUE")
      ->allow_extra_args(false);
  command->callback(
      [arguments, &registry, chosen] { *chosen = [arguments, &registry] { return run(*arguments, registry); }; });

  CLI::App* child = app.add_subcommand("compile-module", "The compiler's process of compile");
  child->group("");  // hidden
  struct Child {
    std::string plugin, topology, file;
    int replicas = 1;
  };
  const auto words = std::make_shared<Child>();
  child->add_option("plugin", words->plugin)->required();
  child->add_option("topology", words->topology)->required();
  child->add_option("replicas", words->replicas)->required();
  child->add_option("file", words->file)->required();
  child->callback([words, chosen] {
    *chosen = [words] {
      const Status done = compile_module(words->plugin, words->topology, words->replicas, words->file);
      if (!done.ok()) {
        for (const std::string_view line : lines(done.error().message)) say("{}{}\n", kErrorLine, line);
      }
      std::fflush(stdout);
      std::_Exit(done.ok() ? 0 : 1);  // libtpu's threads need no farewell
      return 0;
    };
  });
}

}  // namespace troupe::apps
