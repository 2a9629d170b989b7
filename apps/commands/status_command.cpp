// `troupe status RUN` and `troupe stop RUN`: what a run over nodes is doing, and its end.
#include <CLI/CLI.hpp>

#include <fmt/core.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <troupe/apps/cluster/operator.hpp>
#include <troupe/apps/commands/commands.hpp>
#include <troupe/core/atomic_file.hpp>
#include <troupe/core/clock.hpp>
#include <troupe/core/json_nesting.hpp>
#include <troupe/core/text.hpp>
#include <troupe/run/run_directory.hpp>
#include <troupe/run/say.hpp>

namespace troupe::apps {
namespace {

using Json = nlohmann::ordered_json;

constexpr Duration kAskTimeout = std::chrono::seconds(5);
constexpr std::uint64_t kStatusBytesMax = 64 << 20;
constexpr std::size_t kStatusLevelsMax = 16, kShownBytesMax = 2048;

/// "group gan: epoch 1.3, 3 of 4 members: gan-0, gan-1, gan-3; missing: gan-2 (restarting)", and what is wrong with it.
void print_group(const Json& group) {
  const auto members = group.at("members").get<std::vector<std::string>>();
  const std::string epoch = group.at("epoch");
  say("\ngroup {}: {}, {} of {} members", group.at("name").get<std::string>(),
      epoch.empty() ? "no epoch yet" : "epoch " + epoch, members.size(), group.at("seats").get<std::int64_t>());
  if (!members.empty()) say(": {}", fmt::join(members, ", "));
  const char* separator = "; missing: ";
  for (const Json& missing : group.at("missing")) {
    say("{}{} ({})", std::exchange(separator, ", "), missing.at("name").get<std::string>(),
        missing.at("state").get<std::string>());
  }
  say("\n");
  if (const std::string hang = group.at("hang"); !hang.empty()) say("  {}\n", hang);
  if (const std::string broke = group.at("broke"); !broke.empty()) say("  last failure: {}\n", broke);
}

/// The tables for people; every column is in the JSON too.
void print(const Json& status) {
  for (const Json& line : status.at("trouble")) say("{}\n\n", line.get<std::string>());
  say("{:<16}{:<10}{:>5}  {:<24}{:>9}\n", "node", "state", "inc", "address", "silent s");
  for (const Json& node : status.at("nodes")) {
    say("{:<16}{:<10}{:>5}  {:<24}{:>9.2f}\n", node.at("name").get<std::string>(), node.at("state").get<std::string>(),
        node.at("incarnation").get<int>(), node.at("address").get<std::string>(), node.at("silent_s").get<double>());
  }
  say("\n{:<16}{:<16}{:<22}{:>5}{:>10}{:>12}{:>11}\n", "instance", "node", "state", "inc", "restarts", "version",
      "staleness");
  for (const Json& instance : status.at("instances")) {
    const std::string name = instance.at("name");
    const bool versioned = status.at("versions").contains(name);
    say("{:<16}{:<16}{:<22}{:>5}{:>10}{:>12}{:>11}\n", name, instance.at("node").get<std::string>(),
        instance.at("state").get<std::string>(), instance.at("incarnation").get<int>(),
        instance.at("restarts").get<int>(),
        versioned ? std::to_string(status.at("versions").at(name).get<std::int64_t>()) : "",
        versioned ? std::to_string(status.at("staleness").at(name).get<std::int64_t>()) : "");
  }
  for (const Json& group : status.at("groups")) print_group(group);
  say("\n{:<32}{:<5}{:>8}{:>12}{:>12}{:>12}\n", "channel end", "", "depth", "frames/s", "MB/s", "waited s");
  for (const Json& instance : status.at("instances")) {
    if (!instance.contains("ports")) continue;
    for (const Json& port : instance.at("ports")) {
      say("{:<32}{:<5}{:>8}{:>12.1f}{:>12.2f}{:>12.1f}\n",
          instance.at("name").get<std::string>() + "." + port.at("name").get<std::string>(),
          port.at("direction").get<std::string>(), port.at("depth").get<std::int64_t>(),
          port.at("frames_per_s").get<double>(), port.at("bytes_per_s").get<double>() / 1e6,
          port.at("waited_s").get<double>());
    }
  }
  for (const Json& type : status.at("messages")) {
    say("\nmessage {}: {}, at most {} bytes", type.at("name").get<std::string>(),
        type.at("opaque").get<bool>() ? "opaque (only who takes it knows what is in it)" : "checked where it comes in",
        type.at("max_bytes").get<std::uint64_t>());
  }
  if (!status.at("messages").empty()) say("\n");
  if (status.at("waits").empty()) return;
  say("\n");
  for (const Json& line : status.at("waits")) say("{}\n", line.get<std::string>());
}

/// The same for JSON from outside.
int print_tables(const Json& status) {
  try {
    print(status);
  } catch (const nlohmann::json::exception& exception) {
    return fail(Error{Code::kCorrupt, fmt::format("the status does not parse: {}", exception.what())});
  }
  return kExitOk;
}

/// A file from anybody must not move the cursor of whoever looks at it.
void make_printable(Json& json) {
  if (json.is_string()) json = printable(json.get_ref<const std::string&>(), kShownBytesMax);
  if (!json.is_structured()) return;
  for (Json& inner : json) make_printable(inner);
}

/// What a run within one process has written of its instances; null: nothing, it is of a release that did not.
Result<Json> recorded_status(const RunDirectory& run) {
  const auto bytes = read_file(run.status().string(), kStatusBytesMax);
  if (!bytes.ok() && bytes.error().code == Code::kNotFound) return Json();
  if (!bytes.ok()) return bytes.error();
  const std::string_view text(reinterpret_cast<const char*>(bytes->data()), bytes->size());
  const bool sane = !json_nests_beyond(text, kStatusLevelsMax);
  Json status = sane ? Json::parse(text, nullptr, false) : Json();
  if (!status.is_object()) return Error{Code::kCorrupt, fmt::format("{}: no JSON object", run.status().string())};
  make_printable(status);
  return status;
}

/// What is true of a run within one process.
int show_progress(const RunDirectory& run, bool json) {
  const auto progress = progress_of(run);
  if (!progress.ok()) return fail(progress.error());
  auto status = recorded_status(run);
  if (!status.ok()) return fail(status.error());
  if (json) {
    Json object = {{"run", run.id()},
                   {"processes", 1},
                   {"training", progress->training},
                   {"ended", progress->ended},
                   {"seconds", progress->wall_s},
                   {"env_steps", progress->env_steps},
                   {"learner_steps", progress->learner_steps},
                   {"last_checkpoint", progress->checkpoint}};
    if (status->is_object()) {
      for (const auto& [name, value] : status->items()) {
        if (!object.contains(name)) object[name] = value;
      }
    }
    say("{}\n", object.dump());
    return kExitOk;
  }
  say("run {}, in one process, {}: {:.0f} s, {} env steps, {} learner steps, last checkpoint {}\n", run.shown(),
      progress->training ? "which trains now"
      : progress->ended  ? "which has ended"
                         : "which is not there now",
      progress->wall_s, progress->env_steps, progress->learner_steps,
      progress->checkpoint.empty() ? "none yet" : progress->checkpoint);
  if (!status->is_object()) return kExitOk;
  if (!progress->training) say("its instances when it was last there:\n");
  say("\n");
  return print_tables(*status);
}

int show_status(const std::string& run, bool json) {
  const auto directory = open_run_directory(run);
  if (directory.ok() && !has_nodes(*directory)) return show_progress(*directory, json);
  messages::Control question;
  question.kind = messages::ControlKind::kAskStatus;
  const auto answer = ask({run}, question, kAskTimeout);
  if (!answer.ok()) return fail(answer.error());
  if (json) {
    say("{}\n", answer->text);
    return kExitOk;
  }
  const Json status = Json::parse(answer->text, nullptr, false);
  try {
    say("run {}, term {}, {:.0f} s, last checkpoint {}\n\n", status.at("run").get<std::string>(),
        status.at("term").get<std::uint64_t>(), status.at("seconds").get<double>(),
        status.at("last_cut").get<std::uint64_t>());
  } catch (const nlohmann::json::exception& exception) {
    return fail(Error{Code::kCorrupt, fmt::format("the chief's answer does not parse: {}", exception.what())});
  }
  return print_tables(status);
}

int stop(const std::string& run) {
  const auto directory = open_run_directory(run);
  if (directory.ok() && !has_nodes(*directory)) {
    const auto progress = progress_of(*directory);
    if (!progress.ok()) return fail(progress.error());
    return fail(
        Error{Code::kUnavailable, fmt::format("{}: a run within one process{}", directory->shown(),
                                              progress->training ? " has no chief to ask: end it with Ctrl-C, or "
                                                                   "with SIGTERM to that process"
                                                                 : ", which is not there now")});
  }
  messages::Control question;
  question.kind = messages::ControlKind::kEnd;
  question.text = "asked by troupe stop";
  const auto answer = ask({run}, question, kAskTimeout);
  if (!answer.ok()) return fail(answer.error());
  say("the run {} makes its checkpoint and ends\n", printable(run));
  return kExitOk;
}

}  // namespace

void add_status_command(CLI::App& app, Command* chosen) {
  CLI::App* command =
      app.add_subcommand("status", "Show the nodes, roles and channels of a run, and who waits for what");
  const auto run = std::make_shared<std::string>();
  const auto json = std::make_shared<bool>(false);
  command->add_option("run", *run, "Directory of the run")->required()->type_name("RUN");
  command->add_flag("--json", *json, "For programs");
  command->callback([run, json, chosen] { *chosen = [run, json] { return show_status(*run, *json); }; });
}

void add_stop_command(CLI::App& app, Command* chosen) {
  CLI::App* command = app.add_subcommand("stop", "End a run over nodes: it makes a checkpoint first");
  const auto run = std::make_shared<std::string>();
  command->add_option("run", *run, "Directory of the run")->required()->type_name("RUN");
  command->callback([run, chosen] { *chosen = [run] { return stop(*run); }; });
}

}  // namespace troupe::apps
