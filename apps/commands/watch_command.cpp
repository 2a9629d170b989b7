// `troupe watch RUN`: a page that shows a run while it lasts, and afterwards. A process of its own, which the run does
// not know of.
#include <CLI/CLI.hpp>

#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include <troupe/apps/cluster/operator.hpp>
#include <troupe/apps/commands/commands.hpp>
#include <troupe/apps/sweep/sweep_directory.hpp>
#include <troupe/core/log.hpp>
#include <troupe/core/text.hpp>
#include <troupe/page/page_server.hpp>
#include <troupe/page/prometheus.hpp>
#include <troupe/page/runs.hpp>
#include <troupe/page/screen.hpp>
#include <troupe/page/several.hpp>
#include <troupe/run/comparison.hpp>
#include <troupe/run/recorded_run.hpp>
#include <troupe/run/say.hpp>
#include <troupe/run/stop_request.hpp>
#include <troupe/run/terminal.hpp>

namespace troupe::apps {
namespace {

/// A chief that is busy with a cut answers late; whoever looks waits that long at most.
constexpr Duration kLookTimeout = std::chrono::seconds(2);

/// A run that `troupe train --page` has started writes its configuration within that.
constexpr Duration kBegins = std::chrono::seconds(60);

struct WatchArguments {
  std::vector<std::string> runs;
  int port = 0;
  std::string token;
  std::string prometheus;
  bool terminal = false;
  bool await = false;
};

struct Watched {
  std::vector<RunDirectory> runs;
  std::string title;
};

/// Of a sweep all of its runs that have begun, else the directories themselves.
Result<Watched> find_runs(const std::vector<std::string>& paths) {
  Watched watched;
  for (const std::string& path : paths) {
    const SweepDirectory directory{path};
    if (!is_sweep(directory)) {
      TROUPE_ASSIGN(RunDirectory run, open_run_directory(path));
      watched.runs.push_back(std::move(run));
      continue;
    }
    TROUPE_ASSIGN(const RecordedSweep sweep, read_sweep(directory));
    for (const SweepRun& run : sweep.plan.runs) watched.runs.push_back(directory.run(run));
    watched.title += (watched.title.empty() ? "" : ", ") + RunDirectory{directory.path}.id();
  }
  if (watched.title.empty()) watched.title = fmt::format("{} runs", watched.runs.size());
  return watched;
}

Result<std::string> ask_chief_of(const RunDirectory& run) {
  if (!has_nodes(run)) return Error{Code::kNotFound, "a run within one process has no chief to ask"};
  messages::Control question;
  question.kind = messages::ControlKind::kAskStatus;
  TROUPE_ASSIGN(messages::Control answer, ask(run, question, kLookTimeout));
  return std::move(answer.text);
}

/// Those that have been evaluated; what is not there yet, or cannot be read, is left out.
Result<Comparison> compare_runs(const std::vector<RunDirectory>& directories, const Registry& registry) {
  std::vector<RecordedRun> runs;
  std::string first_error = "no run has been evaluated yet";
  for (const RunDirectory& directory : directories) {
    auto recorded = read_recorded_run(directory.path, registry);
    if (recorded.ok()) {
      runs.push_back(std::move(recorded).value());
    } else if (recorded.error().code != Code::kNotFound) {
      first_error = recorded.error().message;
    }
  }
  if (runs.empty()) return Error{Code::kNotFound, first_error};
  return compare(runs, {});
}

/// The port of "127.0.0.1:9464".
Result<int> loopback_port(const std::string& address) {
  constexpr std::string_view kHost = "127.0.0.1:";
  int port = 0;
  const bool local = address.starts_with(kHost);
  const char* const end = address.data() + address.size();
  if (local) {
    const auto [at, error] = std::from_chars(address.data() + kHost.size(), end, port);
    if (error == std::errc() && at == end && port >= 0 && port < 65536) return port;
  }
  return Error{Code::kInvalidArgument, fmt::format("--prometheus: got \"{}\", expected 127.0.0.1:PORT: it serves this "
                                                   "host alone, and others through ssh -L",
                                                   printable(address))};
}

Result<std::unique_ptr<page::HttpServer>> serve_prometheus(page::Runs& runs, int port, const std::string& token) {
  return page::HttpServer::listen(port, token, [&runs](const page::HttpRequest& request) -> page::HttpAnswer {
    if (request.path != "/metrics") return {.status = 404, .body = "the metrics are at /metrics\n"};
    page::Exposition exposition;
    for (std::size_t run = 0; run < runs.count(); ++run) {
      runs.with(run, [&](const page::WatchedRun& watched) { exposition.add(watched); });
    }
    return {.type = page::Exposition::kContentType, .body = exposition.text()};
  });
}

Status wait_for_begin(const std::vector<std::string>& paths, const StopRequest& stop) {
  const SteadyClock clock;
  const Duration give_up = clock.now() + kBegins;
  for (const std::string& path : paths) {
    while (!open_run_directory(path).ok()) {
      if (stop.flag().load() || clock.now() > give_up) {
        return Error{Code::kDeadlineExceeded, fmt::format("{}: the run has not begun", printable(path))};
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
  }
  return {};
}

/// Until somebody ends it.
int watch_in_terminal(page::Runs& runs, const StopRequest& stop) {
  const bool live = can_redraw(STDOUT_FILENO);
  do {
    page::ScreenOptions screen{.columns = 100, .rows = 1000, .color = live && log::colors_wanted()};
    if (const auto size = terminal_size(STDOUT_FILENO)) {
      screen.columns = size->columns;
      screen.rows = std::max<std::size_t>(size->rows / runs.count(), 2) - 1;
    }
    std::string text = live ? "\x1b[H\x1b[J" : "";  // from the top, and nothing below
    for (std::size_t run = 0; run < runs.count(); ++run) {
      text += runs.with(run, [&](const page::WatchedRun& watched) { return screen_of(watched, screen); });
    }
    say_text(text);
    std::fflush(stdout);
  } while (live && !stop.flag().load() && runs.wait(std::chrono::seconds(1)));  // else it is a picture of now
  return kExitOk;
}

int run(const WatchArguments& arguments, const Registry& registry) {
  const StopRequest stop;
  if (arguments.await) {
    const Status begun = wait_for_begin(arguments.runs, stop);
    if (!begun.ok()) return fail(begun.error());
  }
  const auto watched = find_runs(arguments.runs);
  if (!watched.ok()) return fail(watched.error());
  page::Runs runs(watched->runs, ask_chief_of);
  if (arguments.terminal) return watch_in_terminal(runs, stop);
  if (!arguments.prometheus.empty() && arguments.token.empty()) {
    return fail(Error{Code::kInvalidArgument,
                      "--prometheus needs --token FILE, of which the scraper sends what is in it as a bearer token "
                      "(credentials_file: FILE); it is made if missing"},
                kExitUsage);
  }
  const auto token = arguments.token.empty() ? page::random_secret() : page::token_in(arguments.token);
  if (!token.ok()) return fail(token.error());
  page::Several several(watched->runs, [&] { return compare_runs(watched->runs, registry); });
  std::unique_ptr<page::HttpServer> prometheus;
  if (!arguments.prometheus.empty()) {
    const auto port = loopback_port(arguments.prometheus);
    if (!port.ok()) return fail(port.error(), kExitUsage);
    auto served = serve_prometheus(runs, *port, *token);
    if (!served.ok()) return fail(served.error());
    prometheus = std::move(served).value();
    say("for Prometheus: http://127.0.0.1:{}/metrics\n", prometheus->port());
  }
  const auto server = page::PageServer::start(runs, several, watched->title, arguments.port, *token);
  if (!server.ok()) return fail(server.error());
  say("the page: {}\n", (*server)->link());
  if (!arguments.await) say("Ctrl-C ends it, and no run\n");
  std::fflush(stdout);
  runs.with(0, [](const page::WatchedRun&) {});  // what a browser asks for first is read while it comes
  while (!stop.flag().load() && runs.wait(std::chrono::milliseconds(200))) {
  }
  return kExitOk;
}

}  // namespace

void add_watch_command(CLI::App& app, const Registry& registry, Command* chosen) {
  CLI::App* command =
      app.add_subcommand("watch", "Show a page of a run, of several or of a sweep, in a browser of this host");
  const auto arguments = std::make_shared<WatchArguments>();
  command->add_option("run", arguments->runs, "Directories of runs or of sweeps")->required()->type_name("RUN");
  command->add_option("--port", arguments->port, "Port on 127.0.0.1; 0: any that is free")
      ->check(CLI::Range(0, 65535))
      ->capture_default_str();
  command
      ->add_option("--token", arguments->token,
                   "File with the token of the link, so that it stays the same; made if missing")
      ->type_name("FILE");
  command->add_option("--prometheus", arguments->prometheus, "Serve what Prometheus scrapes there, too")
      ->type_name("127.0.0.1:PORT");
  command->add_flag("--terminal", arguments->terminal, "Show it in this terminal instead; where there is none, once");
  command->add_flag("--await", arguments->await, "The run may not have begun yet: wait for it")->group("");
  command->callback(
      [arguments, &registry, chosen] { *chosen = [arguments, &registry] { return run(*arguments, registry); }; });
}

}  // namespace troupe::apps
