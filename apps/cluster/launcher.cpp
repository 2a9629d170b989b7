#include <troupe/apps/cluster/launcher.hpp>

#include <poll.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <deque>
#include <filesystem>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>

#include <fmt/core.h>

#include <troupe/apps/cluster/detail/child.hpp>
#include <troupe/apps/cluster/detail/prefixed_output.hpp>
#include <troupe/apps/cluster/detail/shell.hpp>
#include <troupe/apps/cluster/tether.hpp>
#include <troupe/apps/commands/commands.hpp>
#include <troupe/run/node.hpp>
#include <troupe/run/stop_request.hpp>

namespace troupe::apps {
namespace {

using detail::Ending;
using detail::Fd;
using detail::shell_quoted;  // the remote side hands a command to a shell

constexpr const char* kSelf = "launcher";

/// The exit codes after which another start would end in the same way.
bool is_pointless(const Ending& ending) {
  return !ending.signalled &&
         (ending.number == kNodeOver || ending.number == kExitUsage || ending.number == kNodeData ||
          ending.number == kExitConfig || ending.number == 126 || ending.number == 127);
}

/// Longer than ssh tries to connect, or takes to notice that a connection is dead.
constexpr Duration kAttemptMax = std::chrono::seconds(15);

/// `by`: what reaches its host; empty: it is of this host.
std::string in_words(const Ending& ending, const std::string& by) {
  if (ending.signalled) return fmt::format("signal {}", ending.number);
  if (ending.number == kNodeOver) return "exit code 76, the run has ended with an error";
  if (ending.number == kNodeFenced) return "exit code 75, it was fenced";
  if (ending.number == actors::kExitHang) return "exit code 70, a step of it hung";
  if (ending.number == actors::kExitLost) return "exit code 71, its device was lost";
  if (ending.number == kExitConfig) return "exit code 78, its configuration is wrong";
  if (ending.number == kNodeData) return "exit code 65, what it would go on from is damaged or missing";
  if (ending.number == kExitUsage) return "exit code 64, its command line is wrong";
  if (!by.empty() && ending.number == 127) {
    return fmt::format("exit code 127, there is no {} here or no such program on its host", by);
  }
  if (ending.number == 126 || ending.number == 127) {
    return fmt::format("exit code {}, its program cannot be started", ending.number);
  }
  if (!by.empty() && ending.number == kUnreachable) {
    return fmt::format("exit code 255, {} did not reach its host or lost it", by);
  }
  if (!by.empty() && ending.number == kPlaceRestarting) return "exit code 254, its place is being restarted";
  return fmt::format("exit code {}", ending.number);
}

struct Node {
  NodeCommand spec;
  pid_t pid = -1;     ///< -1: not running
  Fd output;          ///< what it writes
  Fd tether;          ///< by ssh only: closing it ends the node
  std::string input;  ///< what has still to go through the tether
  detail::LineCutter lines;
  int starts = 0;
  std::deque<Duration> restarts;     ///< times within the window
  std::optional<Duration> start_at;  ///< of a restart that waits
  Duration started{};
  std::optional<Duration> unreachable_since;  ///< of its host
  bool anew = false;                          ///< it was asked to end so that it is started again
  detail::StoppedChild stopped;
};

/// Whether ssh or the relay says that it did not reach the host, or lost it.
bool is_unreachable(const Node& node, const Ending& ending) {
  return !node.spec.ssh.empty() && !ending.signalled &&
         (ending.number == kUnreachable || ending.number == kPlaceRestarting);
}

class Launcher {
 public:
  Launcher(std::vector<NodeCommand> commands, LaunchOptions options, detail::SignalFd signals)
      : options_(std::move(options)), signals_(std::move(signals)), output_(options_.output) {
    for (NodeCommand& command : commands) nodes_.push_back(std::make_unique<Node>(Node{.spec = std::move(command)}));
    chief_ = nodes_.front().get();
  }

  Result<int> run() {
    start(*chief_);
    if (!options_.chief_line) start_others();
    while (!killed_by_ && !(result_ && std::none_of(nodes_.begin(), nodes_.end(), is_running))) turn();
    for (const auto& node : nodes_) {  // killed_by_ only: the others have ended
      if (node->pid >= 0) kill_and_wait(*node);
    }
    output_.write(std::chrono::seconds(1));
    const int code = killed_by_ ? 128 + *killed_by_ : *result_;
    if (code != kNodeDone || output_.failed() == 0) return code;
    return Error{Code::kIo, fmt::format("the standard output cannot be written: {}", std::strerror(output_.failed()))};
  }

 private:
  static bool is_running(const std::unique_ptr<Node>& node) { return node->pid >= 0; }
  Duration now() const { return clock_.now(); }
  void say(const std::string& line) { output_.line(kSelf, line); }

  /// One round: whatever can be done without waiting, then a wait for the next event or deadline.
  void turn() {
    const Duration time = now();
    for (const auto& node : nodes_) {
      if (node->start_at && *node->start_at <= time) start(*node);
    }
    if (kill_at_ && *kill_at_ <= time) kill_late();
    beat(time);
    wait(time);
    while (const auto signal = signals_.next()) {
      if (*signal != SIGCHLD) stop(*signal);
    }
    for (const auto& node : nodes_) {
      read_output(*node);
      write_input(*node);
    }
    for (const auto& node : nodes_) {
      if (node->pid < 0) continue;
      const auto ending = detail::reap(node->pid);
      if (!ending) continue;
      const std::string cause = in_words(*ending, node->spec.ssh.empty() ? "" : reached_by_);
      ended(*node, *ending, fmt::format("node {} (pid {}) died: {}", node->spec.name, node->pid, cause));
    }
    output_.write(Duration(0));
  }

  void wait(Duration time) {
    std::vector<pollfd> files = {{signals_.fd(), POLLIN, 0}};
    if (output_.pending()) files.push_back({output_.fd(), POLLOUT, 0});
    std::optional<Duration> next = kill_at_;
    const auto sooner = [&](Duration at) { next = std::min(next.value_or(at), at); };
    for (const auto& node : nodes_) {
      if (node->output.open()) files.push_back({node->output.get(), POLLIN, 0});
      if (node->tether.open()) {
        if (!node->input.empty()) files.push_back({node->tether.get(), POLLOUT, 0});
        sooner(next_beat_);
      }
      if (node->start_at) sooner(*node->start_at);
      // One that is to end has the time that stop() gives it.
      if (node->pid < 0 || (node.get() == chief_ && stopping_)) continue;
      if (const auto look_again = node->stopped.watch(node->pid, time)) sooner(*look_again);
    }
    int timeout_ms = -1;
    if (next) {
      const auto left = std::chrono::ceil<std::chrono::milliseconds>(*next - time);
      timeout_ms = static_cast<int>(std::clamp<std::int64_t>(left.count(), 0, 60'000));
    }
    poll(files.data(), files.size(), timeout_ms);
  }

  void start(Node& node) {
    node.start_at.reset();
    node.started = now();
    const Status started = try_start(node);
    ++node.starts;
    if (!started.ok()) {
      ended(node, Ending{false, 1},
            fmt::format("node {} could not be started: {}", node.spec.name, started.error().message));
    }
  }

  Status try_start(Node& node) {
    std::string input;
    if (node.spec.input) {
      TROUPE_ASSIGN(input, node.spec.input(node.starts));
    }
    TROUPE_ASSIGN(detail::Pipe out, detail::make_pipe(detail::OurEnd::kRead));
    std::vector<std::string> command = node.spec.command;
    Fd in, tether;
    if (node.spec.ssh.empty()) {
      TROUPE_ASSIGN(in, detail::memory_file(input));
    } else {
      TROUPE_ASSIGN(detail::Pipe pipe, detail::make_pipe(detail::OurEnd::kWrite));
      in = std::move(pipe.read);
      tether = std::move(pipe.write);
      node.input = tether_input(input);
      command = options_.ssh;
      command.insert(command.end(), {node.spec.ssh, "--"});
      for (const std::string& argument : node.spec.tether) command.push_back(shell_quoted(argument));
      for (const std::string& argument : node.spec.command) command.push_back(shell_quoted(argument));
    }
    TROUPE_ASSIGN(node.pid, detail::start_child(command, {in.get(), out.write.get(), out.write.get()}, signals_));
    node.output = std::move(out.read);
    node.tether = std::move(tether);
    return {};
  }

  void read_output(Node& node) {
    if (!node.output.open()) return;
    const ssize_t got = read(node.output.get(), bytes_.data(), bytes_.size());
    if (got > 0) {
      node.lines.append({bytes_.data(), static_cast<std::size_t>(got)}, emit(node));
      if (&node == chief_ && stopping_ && !result_ && kill_at_) {
        kill_at_ = std::min(now() + options_.stop_grace, stopped_at_ + options_.stop_most);
      }
    } else if (got == 0 || (errno != EAGAIN && errno != EINTR)) {
      node.output.reset();  // it has closed its output; whether it has ended is another question
    }
  }

  detail::LineCutter::Emit emit(Node& node) {
    return [this, &node](std::string_view line) {
      const ChiefLine what = &node == chief_ && options_.chief_line ? options_.chief_line(line) : ChiefLine::kOther;
      if (what == ChiefLine::kOther) return output_.line(node.spec.name, line);
      if (what == ChiefLine::kMoved) start_anew();
      start_others();
    };
  }

  /// Those that have never been started.
  void start_others() {
    if (stopping_ || result_) return;
    for (const auto& node : nodes_) {
      if (node->starts == 0 && node->pid < 0 && !node->start_at) start(*node);
    }
  }

  void start_anew() {
    if (stopping_ || result_) return;
    say("the chief has come back at another address: the other nodes are started anew");
    for (const auto& node : nodes_) {
      if (node.get() == chief_ || node->pid < 0) continue;
      node->anew = true;
      ask_to_end(*node);
    }
  }

  void write_input(Node& node) {
    if (!node.tether.open() || node.input.empty()) return;
    const ssize_t written = write(node.tether.get(), node.input.data(), node.input.size());
    if (written > 0) node.input.erase(0, static_cast<std::size_t>(written));
  }

  /// Tells the tethers that this process is there and not stopped.
  void beat(Duration time) {
    if (time < next_beat_) return;
    next_beat_ = time + kTetherBeat;
    for (const auto& node : nodes_) {
      if (node->tether.open() && node->input.empty()) node->input.append(kTetherBeatText);
    }
  }

  /// `died`: the event in words.
  void ended(Node& node, const Ending& ending, const std::string& died) {
    node.pid = -1;
    node.stopped = {};
    for (int i = 0; i < 64 && node.output.open(); ++i) read_output(node);  // what it had written: a pipe holds 64 KiB
    node.lines.finish(emit(node));
    node.output.reset();
    node.tether.reset();
    node.input.clear();
    const bool fine = !ending.signalled && ending.number == kNodeDone;
    // A chief that dies of the signal that is to stop it had not begun to listen for it: there was nothing to save.
    const bool too_early = stopping_ && ending.signalled && ending.number == SIGTERM;
    if (&node == chief_ && (fine || stopping_ || result_)) {
      return end_run(too_early ? 128 + stopped_by_ : ending.exit_code());
    }
    if ((fine && !node.anew) || result_) return;
    if (stopping_) return say(fmt::format("TRP-E101 {}; the run is stopping", died));
    if (std::exchange(node.anew, false)) {
      node.start_at = now();
      return;
    }
    if (is_pointless(ending)) return stays_down(node, died, ending);

    const Duration time = now();
    if (is_unreachable(node, ending)) {
      // Whoever was there for longer than a connection attempt takes had been reached.
      if (time - node.started > kAttemptMax) node.unreachable_since.reset();
      const bool first = !node.unreachable_since;
      if (first) node.unreachable_since = time;
      if (time - *node.unreachable_since > options_.unreachable_max) return stays_down(node, died, ending);
      const bool restarting = ending.number == kPlaceRestarting;
      const Duration backoff = first        ? options_.first_backoff
                               : restarting ? options_.restarting_backoff
                                            : options_.max_backoff;
      node.start_at = time + backoff;
      if (restarting && !first) return;  // somebody is at it, and asking costs nothing
      return say(fmt::format("TRP-E101 {}; trying again in {:g} s", died, seconds(backoff)));
    }
    node.unreachable_since.reset();
    while (!node.restarts.empty() && node.restarts.front() + options_.restart_window <= time) node.restarts.pop_front();
    const int before = static_cast<int>(node.restarts.size());
    const std::string window = fmt::format("{:g} s", seconds(options_.restart_window));
    if (before >= options_.restarts_max) {
      return stays_down(node, fmt::format("{}, after {} restarts in {}", died, before, window), ending);
    }
    const bool fenced = !ending.signalled && ending.number == kNodeFenced;
    const Duration backoff =
        fenced ? Duration(0) : std::min(options_.max_backoff, options_.first_backoff * (1 << std::min(before, 20)));
    node.restarts.push_back(time);
    node.start_at = time + backoff;
    say(fmt::format("TRP-E101 {}; restarting it in {:g} s ({} of {} in {})", died, seconds(backoff), before + 1,
                    options_.restarts_max, window));
  }

  void stays_down(Node& node, const std::string& died, const Ending& ending) {
    const bool chief = &node == chief_;
    if (!chief) down_.push_back(node.spec.name);
    const bool goes_on =
        !chief && (down_.size() + 1 < nodes_.size()) && (!options_.goes_on_without || options_.goes_on_without(down_));
    say(fmt::format("TRP-E103 {}; it stays down and the run {}", died,
                    goes_on ? "goes on without it" : "ends with it"));
    if (goes_on) return;
    lost_ = ending.exit_code();
    chief ? end_run(*lost_) : stop(SIGTERM);
  }

  /// The chief is gone for good: the others are asked to end, and killed later.
  void end_run(int exit_code) {
    const int code = lost_.value_or(exit_code);  // the chief may have ended well
    result_ = code == kNodeOver ? static_cast<int>(kExitFailure) : code;
    kill_at_ = now() + options_.end_grace;
    for (const auto& node : nodes_) {
      node->start_at.reset();
      ask_to_end(*node);
    }
  }

  void ask_to_end(Node& node) {
    if (node.pid < 0) return;
    if (node.spec.ssh.empty()) {
      kill(node.pid, SIGTERM);
    } else {
      node.tether.reset();  // its other end sends the signal; ssh stays for the last lines and the exit code
    }
  }

  void stop(int signal) {
    if (stopping_) {
      if (StopRequest::is_impatient(signal, now() - stopped_at_)) killed_by_ = signal;
      return;
    }
    stopping_ = true;
    stopped_by_ = signal;
    stopped_at_ = now();
    if (result_) return;  // the run is ending already
    for (const auto& node : nodes_) node->start_at.reset();
    if (chief_->pid < 0) return end_run(128 + signal);
    say("stopping: the chief makes its checkpoint; once more to kill everything at once");
    kill_at_ = stopped_at_ + options_.stop_grace;
    ask_to_end(*chief_);
  }

  void kill_late() {
    kill_at_.reset();
    for (const auto& node : nodes_) {
      if (node->pid < 0 || (!result_ && node.get() != chief_)) continue;
      say(fmt::format("node {} (pid {}) did not end in {:.3g} s: killed", node->spec.name, node->pid,
                      seconds(result_ ? options_.end_grace : now() - stopped_at_)));
      kill(-node->pid, SIGKILL);
    }
  }

  void kill_and_wait(Node& node) {
    node.tether.reset();
    kill(-node.pid, SIGKILL);
    for (int i = 0; i < 1000 && !detail::reap(node.pid); ++i) poll(nullptr, 0, 10);
  }

  const LaunchOptions options_;
  const std::string reached_by_ = std::filesystem::path(options_.ssh.front()).filename().string();
  const SteadyClock clock_;
  detail::SignalFd signals_;
  detail::PrefixedOutput output_;
  std::vector<char> bytes_ = std::vector<char>(65536);  ///< what is read at once; a stack may be smaller (ulimit -s)
  std::vector<std::unique_ptr<Node>> nodes_;
  Node* chief_ = nullptr;
  std::vector<std::string> down_;  ///< names of the nodes that stay down
  std::optional<int> lost_;        ///< the exit code of one without which the run cannot go on
  bool stopping_ = false;          ///< somebody asked for it, or it cannot go on
  int stopped_by_ = 0;             ///< the signal that asked
  Duration stopped_at_{};
  std::optional<int> result_;     ///< the chief's exit code, once it is gone for good
  std::optional<int> killed_by_;  ///< the second signal
  std::optional<Duration> kill_at_;
  Duration next_beat_{0};
};

}  // namespace

Result<int> launch(std::vector<NodeCommand> commands, LaunchOptions options) {
  if (commands.empty()) return Error{Code::kInvalidArgument, "launch: no commands"};
  TROUPE_ASSIGN(detail::SignalFd signals, detail::SignalFd::make({SIGINT, SIGTERM, SIGHUP, SIGCHLD}));
  return Launcher(std::move(commands), std::move(options), std::move(signals)).run();
}

}  // namespace troupe::apps
