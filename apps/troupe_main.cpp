#include <troupe/apps/main.hpp>

#include <CLI/CLI.hpp>

#include <execinfo.h>
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <new>
#include <sstream>
#include <string>
#include <system_error>
#include <vector>

#include <fmt/core.h>

#include <troupe/apps/commands/commands.hpp>
#include <troupe/apps/version.hpp>
#include <troupe/core/nearest.hpp>
#include <troupe/core/text.hpp>
#include <troupe/learner/engine/cpu/instruction_set.hpp>
#include <troupe/run/registry_check.hpp>
#include <troupe/run/say.hpp>

namespace troupe::apps {
namespace {

/// CLI11 says of a mistyped command only that it did not expect it.
Status check_command(const CLI::App& app, const std::string& given) {
  std::vector<std::string> names;
  for (const CLI::App* command : app.get_subcommands({})) names.push_back(command->get_name());
  if (given.starts_with('-') || std::find(names.begin(), names.end(), given) != names.end()) return {};
  const std::vector<std::string> near = nearest(given, names, 1);
  return Error{Code::kNotFound,
               fmt::format("unknown command {}{}; see {} --help", printable(given),
                           near.empty() ? "" : fmt::format(" (did you mean {}?)", near[0]), app.get_name())};
}

/// An empty value is a variable of a script that was not set, and never what somebody meant.
void refuse_empty_values(CLI::App& app) {
  for (CLI::Option* option : app.get_options()) {
    if (option->get_type_size() == 0) continue;  // a flag
    option->check([](const std::string& value) { return std::string(value.empty() ? "got an empty value" : ""); });
  }
  for (CLI::App* inner : app.get_subcommands({})) refuse_empty_values(*inner);  // commands, and groups of options
}

/// What the parser has to say: help and version for the standard output, mistakes for the standard error.
int answer(const CLI::App& app, const CLI::ParseError& error) {
  std::ostringstream out, complaint;
  if (app.exit(error, out, complaint) == 0) {
    say_text(out.str());
    return kExitOk;
  }
  std::string command = app.get_name();
  for (const CLI::App* chosen : app.get_subcommands()) command += " " + chosen->get_name();
  return fail(Error{Code::kInvalidArgument, fmt::format("{}; see {} --help", error.what(), command)}, kExitUsage);
}

/// Whoever started the program may have closed them. The first files of a run would get their numbers, and what is
/// meant for a person would be written into these.
void open_standard_streams() {
  for (const int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (fcntl(stream, F_GETFD) == 0 || errno != EBADF) continue;
    if (open("/dev/null", O_RDWR) != stream) _exit(kExitFailure);  // and there is nobody to be told
  }
}

/// The C library finds what unwinds a thread's stack when it needs it first, and aborts where there is no memory left
/// to do so (ulimit -v): instead of the error that was on its way.
void find_unwinder() {
  void* frame = nullptr;
  backtrace(&frame, 1);
}

/// What nobody has caught: mostly that there is no memory or no thread to be had. Anything else is a bug, and worth a
/// core dump.
[[noreturn]] void end_with_one_error() {
  try {
    if (const std::exception_ptr thrown = std::current_exception()) std::rethrow_exception(thrown);
  } catch (const std::bad_alloc&) {
    std::fputs("troupe: TRP-E153 out of memory (is there a limit, ulimit -v?)\n", stderr);
    _exit(kExitFailure);
  } catch (const std::system_error& error) {
    std::fprintf(stderr, "troupe: TRP-E153 the operating system refuses (ulimit -u, ulimit -n?): %s\n", error.what());
    _exit(kExitFailure);
  } catch (const std::exception& exception) {
    std::fprintf(stderr, "troupe: uncaught exception: %s\n", exception.what());
  } catch (...) {
  }
  std::abort();
}

/// What the user calls the program, which may be one of their own.
std::string name_of(int argc, char** argv) {
  const std::string called = argc > 0 ? std::filesystem::path(argv[0]).filename().string() : "";
  return called.empty() ? "troupe" : printable(called);
}

int run(int argc, char** argv, const Registry& registry) {
  CLI::App app("Troupe: reinforcement learning on actors.", name_of(argc, argv));
  app.require_subcommand(0, 1);  // none is said below, behind what is wrong with the options
  app.set_version_flag("--version", fmt::format("troupe {}", version()), "Print the release and the commit");
  Command chosen;
  add_train_command(app, registry, &chosen);
  add_sweep_command(app, registry, &chosen);
  add_compare_command(app, registry, &chosen);
  add_watch_command(app, registry, &chosen);
  add_status_command(app, &chosen);
  add_stop_command(app, &chosen);
  add_token_command(app, registry, &chosen);
  add_up_command(app, registry, &chosen);
  add_plan_command(app, registry, &chosen);
  add_node_command(app, registry, &chosen);
  add_tether_command(app, &chosen);
  add_render_command(app, registry, &chosen);
  add_export_command(app, registry, &chosen);
  add_sample_command(app, registry, &chosen);
  add_eval_command(app, registry, &chosen);
  add_graph_command(app, registry, &chosen);
  add_verify_command(app, registry, &chosen);
  add_compile_command(app, registry, &chosen);
  add_envs_command(app, registry, &chosen);
  add_config_command(app, registry, &chosen);
  add_doctor_command(app, &chosen);
  add_version_command(app, &chosen);
  refuse_empty_values(app);
  if (argc > 1) {
    const Status known = check_command(app, argv[1]);
    if (!known.ok()) return fail(known.error(), kExitUsage);
  }
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return answer(app, error);
  }
  if (!chosen) {
    return fail(Error{Code::kInvalidArgument, fmt::format("a command is missing; see {} --help", app.get_name())},
                kExitUsage);
  }
  const auto& held_down = learner::max_instruction_set();
  return held_down.ok() ? chosen() : fail(held_down.error(), kExitUsage);
}

}  // namespace
}  // namespace troupe::apps

namespace troupe {

int main(int argc, char** argv, const Registry& registry) {
  apps::open_standard_streams();
  std::signal(SIGXFSZ, SIG_IGN);  // a file that is longer than `ulimit -f` allows is as a disk that is full
  apps::find_unwinder();
  std::set_terminate(apps::end_with_one_error);
  if (const Status good = check_registry(registry); !good.ok()) return apps::fail_config(good.error());
  const int code = apps::run(argc, argv, registry);
  const Status said = apps::finish_standard_output();
  return said.ok() || code != apps::kExitOk ? code : apps::fail(said.error());
}

}  // namespace troupe
