#include <troupe/apps/cluster/tether.hpp>

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <optional>

#include <fmt/core.h>

#include <troupe/apps/cluster/detail/child.hpp>

namespace troupe::apps {
namespace {

int timeout_ms(Duration left) {
  return static_cast<int>(
      std::clamp<std::int64_t>(std::chrono::ceil<std::chrono::milliseconds>(left).count(), 0, 60'000));
}

/// Reads what is there: empty at the end of the input. Waits for up to `wait`; nothing when it is over.
std::optional<std::string> read_some(Duration wait) {
  pollfd file{STDIN_FILENO, POLLIN, 0};
  if (poll(&file, 1, timeout_ms(wait)) <= 0) return std::nullopt;
  std::array<char, 65536> bytes;
  const ssize_t got = read(STDIN_FILENO, bytes.data(), bytes.size());
  return std::string(bytes.data(), static_cast<std::size_t>(std::max<ssize_t>(got, 0)));
}

Result<std::string> read_input(Duration silence_max) {
  std::string got;
  while (true) {
    const std::size_t line = got.find('\n');
    if (line != std::string::npos || got.size() > 20) {
      std::size_t bytes = 0;
      const char* const end = got.data() + std::min(line, got.size());
      const auto [stop, error] = std::from_chars(got.data(), end, bytes);
      if (error != std::errc() || stop != end || bytes > kTetherInputBytesMax) {
        return Error{Code::kInvalidArgument,
                     fmt::format("tether: expected a number of bytes up to {}, then as many", kTetherInputBytesMax)};
      }
      if (got.size() >= line + 1 + bytes) return got.substr(line + 1, bytes);
    }
    const auto more = read_some(silence_max);
    if (!more) return Error{Code::kDeadlineExceeded, fmt::format("tether: no input in {:g} s", seconds(silence_max))};
    if (more->empty()) return Error{Code::kInvalidArgument, "tether: the input ended before it was complete"};
    got += *more;
  }
}

}  // namespace

std::string tether_input(std::string_view input) { return fmt::format("{}\n{}", input.size(), input); }

Result<int> run_tethered(const std::vector<std::string>& command, const TetherOptions& options) {
  if (command.empty()) return Error{Code::kInvalidArgument, "tether: no command"};
  TROUPE_ASSIGN(detail::SignalFd signals, detail::SignalFd::make({SIGINT, SIGTERM, SIGHUP, SIGCHLD}));
  TROUPE_ASSIGN(const std::string input, read_input(options.silence_max));
  TROUPE_ASSIGN(const detail::Fd file, detail::memory_file(input));
  TROUPE_ASSIGN(const pid_t pid, detail::start_child(command, {file.get(), STDOUT_FILENO, STDERR_FILENO}, signals));

  const SteadyClock clock;
  Duration last_heard = clock.now();
  std::optional<Duration> kill_at;
  detail::StoppedChild stopped;
  const auto end = [&] {
    if (kill_at) return;
    kill(pid, SIGTERM);
    kill_at = clock.now() + options.grace;
  };
  while (true) {
    Duration until = kill_at.value_or(last_heard + options.silence_max);
    if (const auto look_again = stopped.watch(pid, clock.now())) until = std::min(until, *look_again);
    // poll() passes over a negative descriptor: once the tether is cut, nobody looks at it any more.
    std::array<pollfd, 2> files = {{{signals.fd(), POLLIN, 0}, {kill_at ? -1 : STDIN_FILENO, POLLIN, 0}}};
    poll(files.data(), files.size(), timeout_ms(until - clock.now()));
    while (const auto signal = signals.next()) {
      if (*signal != SIGCHLD) end();
    }
    if (files[1].revents != 0) {
      const auto heard = read_some(Duration(0));
      if (heard && heard->empty()) end();
      last_heard = clock.now();
    }
    if (const auto ending = detail::reap(pid)) return ending->exit_code();
    if (kill_at && clock.now() >= *kill_at) {
      kill(-pid, SIGKILL);
      kill_at = clock.now() + options.grace;
    } else if (!kill_at && clock.now() >= last_heard + options.silence_max) {
      end();
    }
  }
}

}  // namespace troupe::apps
