#include <troupe/apps/sweep/children.hpp>

#include <fcntl.h>
#include <poll.h>
#include <sched.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <optional>
#include <utility>

#include <fmt/core.h>

#include <troupe/apps/cluster/detail/child.hpp>
#include <troupe/run/stop_request.hpp>

namespace troupe::apps {
namespace {

using detail::Fd;
using detail::SignalFd;

constexpr int kMeanwhileMs = 250;

/// Package and core of a processor; those of one core share what it has. Where nobody says, each is a core.
std::pair<int, int> core_of(int processor) {
  const auto number = [&](const char* name, int otherwise) {
    std::ifstream file(fmt::format("/sys/devices/system/cpu/cpu{}/topology/{}", processor, name));
    int value = 0;
    return file >> value ? value : otherwise;
  };
  return {number("physical_package_id", 0), number("core_id", processor)};
}

/// The processors that this process may use, divided up; the threads of a core stay together as far as can be.
class Shares {
 public:
  explicit Shares(std::size_t places) {
    CPU_ZERO(&all_);
    if (sched_getaffinity(0, sizeof all_, &all_) != 0) return;
    std::vector<int> processors;
    for (int i = 0; i < CPU_SETSIZE; ++i) {
      if (CPU_ISSET(i, &all_)) processors.push_back(i);
    }
    if (processors.size() < places || places < 2) return;
    std::ranges::stable_sort(processors, {}, core_of);
    for (std::size_t place = 0; place < places; ++place) {
      cpu_set_t share;
      CPU_ZERO(&share);
      const std::size_t begin = place * processors.size() / places, end = (place + 1) * processors.size() / places;
      for (std::size_t i = begin; i < end; ++i) CPU_SET(processors[i], &share);
      shares_.push_back(share);
    }
  }

  /// Children that are started from here on have this share. One that cannot be had is no reason to do without the run.
  void take(std::size_t place) const {
    if (!shares_.empty()) sched_setaffinity(0, sizeof(cpu_set_t), &shares_[place]);
  }
  void give_back() const {
    if (!shares_.empty()) sched_setaffinity(0, sizeof(cpu_set_t), &all_);
  }

 private:
  cpu_set_t all_;
  std::vector<cpu_set_t> shares_;  ///< none: all have all
};

struct Child {
  pid_t pid = -1;  ///< -1: the place is free
  std::size_t number = 0;
};

class Children {
 public:
  Children(const std::vector<ChildCommand>& commands, const ChildrenOptions& options, SignalFd signals)
      : commands_(commands),
        options_(options),
        signals_(std::move(signals)),
        shares_(options.share_processors ? options.jobs : 1),
        places_(options.jobs) {}

  int run() {
    while (true) {
      fill();
      if (std::ranges::none_of(places_, [](const Child& child) { return child.pid >= 0; })) return asked_;
      wait();
      while (const auto signal = signals_.next()) {
        if (*signal != SIGCHLD) stop(*signal);
      }
      if (kill_at_ && clock_.now() >= *kill_at_) kill_all(SIGKILL);
      reap();
    }
  }

 private:
  void fill() {
    for (std::size_t place = 0; place < places_.size(); ++place) {
      while (places_[place].pid < 0 && asked_ == 0 && next_ < commands_.size()) start(place, next_++);
    }
  }

  void start(std::size_t place, std::size_t number) {
    if (options_.begins) options_.begins(number);
    shares_.take(place);
    const auto started = try_start(commands_[number]);
    shares_.give_back();
    if (started.ok()) {
      places_[place] = {*started, number};
    } else if (options_.ends) {
      options_.ends(number, {.error = started.error().message});
    }
  }

  Result<pid_t> try_start(const ChildCommand& command) {
    const Fd nothing(open("/dev/null", O_RDONLY | O_CLOEXEC));
    const Fd log(open(command.log.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0644));
    if (!nothing.open() || !log.open()) {
      return Error{Code::kIo, fmt::format("{}: {}", command.log.string(), std::strerror(errno))};
    }
    return detail::start_child(command.command, {nothing.get(), log.get(), log.get()}, signals_);
  }

  void wait() {
    pollfd file = {signals_.fd(), POLLIN, 0};
    int timeout_ms = options_.meanwhile ? kMeanwhileMs : -1;
    if (kill_at_) {
      const auto left = std::chrono::ceil<std::chrono::milliseconds>(*kill_at_ - clock_.now());
      timeout_ms = static_cast<int>(std::clamp<std::int64_t>(left.count(), 0, kMeanwhileMs));
    }
    poll(&file, 1, timeout_ms);
    if (options_.meanwhile) options_.meanwhile();
  }

  void reap() {
    for (Child& child : places_) {
      if (child.pid < 0) continue;
      const auto ending = detail::reap(child.pid);
      if (!ending) continue;
      child.pid = -1;
      if (options_.ends) options_.ends(child.number, {ending->signalled, ending->number});
    }
  }

  void stop(int signal) {
    const Duration now = clock_.now();
    if (asked_ == 0) {
      asked_at_ = now;
      kill_at_ = now + options_.stop_grace;
      for (const Child& child : places_) {
        if (child.pid < 0) continue;
        kill(child.pid, SIGTERM);
        kill(child.pid, SIGCONT);  // one that was stopped would not hear it
      }
    } else if (StopRequest::is_impatient(signal, now - asked_at_)) {
      kill_all(SIGKILL);
    } else {
      return;
    }
    ++asked_;
  }

  void kill_all(int signal) {
    kill_at_.reset();
    for (const Child& child : places_) {
      if (child.pid >= 0) kill(-child.pid, signal);
    }
  }

  const std::vector<ChildCommand>& commands_;
  const ChildrenOptions& options_;
  const SteadyClock clock_;
  SignalFd signals_;
  const Shares shares_;
  std::vector<Child> places_;
  std::size_t next_ = 0;
  int asked_ = 0;
  Duration asked_at_{};
  std::optional<Duration> kill_at_;
};

}  // namespace

std::string in_words(const ChildEnding& ending) {
  if (!ending.error.empty()) return fmt::format("it could not be started: {}", ending.error);
  return fmt::format("{} {}", ending.signalled ? "signal" : "exit code", ending.number);
}

Result<int> run_children(const std::vector<ChildCommand>& commands, const ChildrenOptions& options) {
  TROUPE_ASSIGN(SignalFd signals, SignalFd::make({SIGINT, SIGTERM, SIGHUP, SIGCHLD}));
  return Children(commands, options, std::move(signals)).run();
}

}  // namespace troupe::apps
