// apps/cluster as a program of its own, so that tests can send it signals, kill it, look for what it left behind, and
// start it under Slurm.
//   launch_program [--ssh PROGRAM] [--announced] [--SECONDS-OPTION S ...] NAME=COMMAND...
//       a launcher; COMMAND is a shell's, and runs by ssh where the name is HOST:NAME; announced: the chief's line
//       "listens WHERE" says where it can be joined
//   launch_program tether [--silence S] [--grace S] COMMAND ARGUMENT...
//   launch_program place ACTORS
//       which node this process is by its environment, then the cluster file
#include <cstdio>
#include <cstdlib>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/core.h>

#include <troupe/apps/cluster/cluster_file.hpp>
#include <troupe/apps/cluster/environment.hpp>
#include <troupe/apps/cluster/launcher.hpp>
#include <troupe/apps/cluster/tether.hpp>

namespace {

using namespace troupe;

Duration from_seconds(const char* text) {
  return std::chrono::duration_cast<Duration>(std::chrono::duration<double>(std::atof(text)));
}

int end(const Result<int>& result) {
  if (result.ok()) return *result;
  fmt::print(stderr, "{}\n", result.error().message);
  return 99;
}

int tether(int argc, char** argv) {
  apps::TetherOptions options;
  int i = 2;
  for (; i + 1 < argc && argv[i][0] == '-'; i += 2) {
    (argv[i] == std::string("--silence") ? options.silence_max : options.grace) = from_seconds(argv[i + 1]);
  }
  return end(apps::run_tethered({argv + i, argv + argc}, options));
}

int place(const char* actors) {
  actors::TrainOptions options;
  options.agents.emplace_back();
  options.agents[0].actors.count = std::atoi(actors);
  const Result<apps::OwnPlace> own = apps::own_place(apps::process_environment(), options, "run");
  if (!own.ok()) return end(own.error());
  fmt::print("{}\n{}", own->node, apps::to_toml(own->cluster));
  return 0;
}

int launch(int argc, char** argv) {
  apps::LaunchOptions options;
  const std::map<std::string, Duration*> durations = {{"--stop-grace", &options.stop_grace},
                                                      {"--stop-most", &options.stop_most},
                                                      {"--end-grace", &options.end_grace},
                                                      {"--first-backoff", &options.first_backoff},
                                                      {"--max-backoff", &options.max_backoff},
                                                      {"--unreachable-max", &options.unreachable_max},
                                                      {"--restarting-backoff", &options.restarting_backoff}};
  std::vector<apps::NodeCommand> commands;
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    if (argument == "--ssh") {
      options.ssh = {argv[++i], "-o", "BatchMode=yes"};
    } else if (argument == "--announced") {
      options.chief_line = [where = std::string()](std::string_view line) mutable {
        if (!line.starts_with("listens ")) return apps::ChiefLine::kOther;
        const std::string before = std::exchange(where, std::string(line));
        return before.empty() || before == where ? apps::ChiefLine::kListens : apps::ChiefLine::kMoved;
      };
    } else if (durations.count(argument) > 0) {
      *durations.at(argument) = from_seconds(argv[++i]);
    } else {
      const std::size_t equals = argument.find('=');
      std::string name = argument.substr(0, equals), host;
      if (const std::size_t colon = name.find(':'); colon != std::string::npos) {
        host = name.substr(0, colon);
        name = name.substr(colon + 1);
      }
      commands.push_back({.name = name,
                          .command = {"sh", "-c", argument.substr(equals + 1)},
                          .ssh = host,
                          .tether = {argv[0], "tether", "--grace", "0.3"},
                          .input = [name](int start) -> Result<std::string> {
                            if (name == "refused") return Error{Code::kIo, "no secret for it"};
                            return fmt::format("{} start {}\nit's \"quoted\" $HOME\n", name, start);
                          }});
    }
  }
  return end(apps::launch(std::move(commands), std::move(options)));
}

}  // namespace

int main(int argc, char** argv) {
  const std::string mode = argc > 1 ? argv[1] : "";
  if (mode == "tether") return tether(argc, argv);
  if (mode == "place" && argc == 3) return place(argv[2]);
  return launch(argc, argv);
}
