#pragma once
// A run of many real nodes on this host, each a process with certificates, links, a journal and checkpoints as
// `troupe train --processes` has them, but with roles that do next to nothing: what leading so many costs is all that
// is to be seen. This process forks them, kills some and starts those that end again. Used by many_nodes_slow_test.cpp
// and bench/actors/nodes_bench.cpp.
//
//   chief           leads, and hosts nothing else
//   hub             takes the words and reports of all workers
//   w0, w1, ...     one worker each, which says a word once a second
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include <troupe/actors/control/runtime.hpp>
#include <troupe/actors/network/node_network.hpp>
#include <troupe/core/check.hpp>
#include <troupe/core/log.hpp>
#include <troupe/messages/reports.hpp>
#include <troupe/run/node.hpp>
#include <troupe/tests/actors/test_roles.hpp>
#include <troupe/transport/authority.hpp>

namespace troupe::actors::testing {

inline constexpr int kMostRealNodes = 1024;

/// What the processes tell each other beside the run, in memory that all have. Times are of SteadyClock.
struct RealNodesBoard {
  std::atomic<int> port;  ///< of the chief
  std::atomic<bool> cut_asked;
  std::atomic<bool> finish;
  std::atomic<Duration::rep> cut_took;  ///< < 0: it failed
  std::atomic<int> heard_of;            ///< workers of whom the hub has heard
  struct Heard {
    std::atomic<Duration::rep> at;     ///< when the hub last got a word of this worker
    std::atomic<Duration::rep> gap;    ///< longest between two words of one process of it
    std::atomic<std::int64_t> births;  ///< processes of it whose words came
    std::atomic<std::int64_t> born;    ///< the newest of them
  };
  Heard heard[kMostRealNodes];
};

class RealNodes {
 public:
  /// Before this process has threads. The folder is made, and removed in the end.
  RealNodes(int workers, std::filesystem::path folder) : workers_(workers), folder_(std::move(folder)) {
    TROUPE_CHECK(workers <= kMostRealNodes, "{} workers, at most {}", workers, kMostRealNodes);
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_);
    void* const memory =
        mmap(nullptr, sizeof(RealNodesBoard), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    TROUPE_CHECK(memory != MAP_FAILED, "no shared memory");
    board_ = static_cast<RealNodesBoard*>(memory);
    placement_ = {{kChiefNode, {}}, {"hub", {{"hub", {0}}, {"reports", {0}}}}};
    for (int i = 0; i < workers; ++i) {
      placement_.push_back({fmt::format("w{}", i), {{"worker", {static_cast<std::uint32_t>(i)}}}});
    }
    topology_ = make_topology();
    pids_.resize(placement_.size(), -1);
    started_ = now();
    for (std::size_t i = 0; i < placement_.size(); ++i) start(i);
  }
  ~RealNodes() {
    for (const pid_t pid : pids_) {
      if (pid > 0) ::kill(pid, SIGKILL);
    }
    for (const pid_t pid : pids_) {
      if (pid > 0) waitpid(pid, nullptr, 0);
    }
    munmap(board_, sizeof(RealNodesBoard));
    std::error_code error;
    std::filesystem::remove_all(folder_, error);
  }
  RealNodes(const RealNodes&) = delete;
  RealNodes& operator=(const RealNodes&) = delete;

  const RealNodesBoard& board() const { return *board_; }
  Duration now() const { return clock_.now(); }
  int restarts() const { return restarts_; }

  /// Waits, and starts those that have ended again, until `until` holds or the time is over; whether it holds.
  bool wait(Duration most, const std::function<bool()>& until) {
    const Duration give_up = now() + most;
    while (!until()) {
      if (now() >= give_up) return false;
      look_after();
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    return true;
  }
  void wait(Duration time) {
    wait(time, [] { return false; });
  }

  /// Until the hub has heard of every worker; how long that took since the first fork. < 0: not within `most`.
  Duration until_all_are_in(Duration most) {
    const bool all = wait(most, [&] { return board_->heard_of.load() == workers_; });
    return all ? now() - started_ : Duration{-1};
  }

  /// The part of a processor that the chief's process uses in the time to come.
  double chief_cpu(Duration time) {
    const Duration used = cpu_of(pids_.front()), start = now();
    wait(time);
    return seconds(cpu_of(pids_.front()) - used) / seconds(now() - start);
  }

  /// How long a checkpoint takes. < 0: it failed, or was not there after a minute.
  Duration cut() {
    board_->cut_took = 0;
    board_->cut_asked = true;
    if (!wait(std::chrono::minutes(1), [&] { return board_->cut_took != 0; })) return Duration{-1};
    return Duration(board_->cut_took);
  }

  /// Kill -9 of a worker's process; another one is started at once.
  void kill(int worker) {
    look_after();
    ::kill(pids_[static_cast<std::size_t>(worker) + 2], SIGKILL);
  }
  /// Words of so many processes of the worker have come.
  std::int64_t births(int worker) const { return board_->heard[worker].births; }
  /// The longest silence of a worker between two words of the same process, since forget_gaps().
  Duration longest_gap() const {
    Duration::rep longest = 0;
    for (int i = 0; i < workers_; ++i) longest = std::max<Duration::rep>(longest, board_->heard[i].gap);
    return Duration(longest);
  }
  void forget_gaps() {
    for (int i = 0; i < workers_; ++i) board_->heard[i].gap = 0;
  }

  /// Ends the run in good order; whether all processes have ended by themselves within `most`.
  bool finish(Duration most) {
    ending_ = true;
    board_->finish = true;
    return wait(most, [&] { return std::ranges::all_of(pids_, [](pid_t pid) { return pid < 0; }); });
  }

 private:
  class Worker final : public Role {
   public:
    explicit Worker(std::int64_t index) : index_(index) {}
    Result<Progress> step(RoleContext& context) override {
      const Duration now = context.clock().now();
      if (now >= at_ && context.out("words").ready()) {
        messages::EpisodeReport word{.role = "worker"};
        word.parameters_version = (std::int64_t{getpid()} << 16) | index_;
        TROUPE_ASSIGN(Frame frame, messages::make_episode(context.pool(), word));
        context.out("words").send(std::move(frame));
        at_ = now + std::chrono::seconds(1);
      }
      context.wake_after(std::max(at_ - now, Duration(std::chrono::milliseconds(10))));
      return Progress::kIdle;
    }

   private:
    const std::int64_t index_;
    Duration at_{};
  };

  class Hub final : public Role {
   public:
    explicit Hub(RealNodesBoard& board) : board_(board) {}
    Result<Progress> step(RoleContext& context) override {
      while (!context.in("words").empty()) {
        TROUPE_ASSIGN(const auto report, messages::read_episode(context.in("words").take()));
        const std::int64_t word = report.parameters_version;
        RealNodesBoard::Heard& worker = board_.heard[word & 0xffff];
        const Duration::rep now = clock_.now().count();
        const std::int64_t born = word >> 16;
        if (worker.born == 0) ++board_.heard_of;
        if (worker.born != born) {
          ++worker.births;
        } else {
          worker.gap = std::max<Duration::rep>(worker.gap, now - worker.at);
        }
        worker.born = born;
        worker.at = now;
      }
      if (board_.finish) return Progress::kDone;
      context.wake_after(std::chrono::milliseconds(100));
      return Progress::kIdle;
    }

   private:
    RealNodesBoard& board_;
    const SteadyClock clock_{};
  };

  class Reports final : public Role {
   public:
    Result<Progress> step(RoleContext& context) override {
      while (!context.in("reports").empty()) (void)context.in("reports").take();
      return Progress::kIdle;
    }
  };

  Topology make_topology() {
    RoleSpec worker{.name = "worker", .count = workers_, .outlets = {{"words", "Episode"}}};
    worker.make = factory([](const RoleIdentity& who) { return std::make_unique<Worker>(who.index); });
    RoleSpec hub{.name = "hub", .inlets = {{"words", "Episode"}}};
    hub.make = factory([board = board_](const RoleIdentity&) { return std::make_unique<Hub>(*board); });
    hub.completes_run = true;
    RoleSpec reports{.name = "reports", .inlets = {{"reports", "Metrics"}}};
    reports.make = factory([](const RoleIdentity&) { return std::make_unique<Reports>(); });
    Topology topology;
    topology.roles = {worker, hub, reports};
    for (RoleSpec& role : topology.roles) role.restart.max_restarts = 1000;
    topology.channels = {{"worker", "words", "hub", "words", 2}};
    topology.reports = PortName{"reports", "reports"};
    return topology;
  }

  void start(std::size_t index) {
    const pid_t pid = fork();
    TROUPE_CHECK(pid >= 0, "fork");
    if (pid == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      log::set_level(log::Level::kOff);
      _exit(live(placement_[index]));
    }
    pids_[index] = pid;
  }

  /// What the process has used of processors so far.
  static Duration cpu_of(pid_t pid) {
    clockid_t clock{};
    timespec used{};
    TROUPE_CHECK(clock_getcpuclockid(pid, &clock) == 0 && clock_gettime(clock, &used) == 0, "no clock of {}", pid);
    return std::chrono::seconds(used.tv_sec) + std::chrono::nanoseconds(used.tv_nsec);
  }

  void look_after() {
    for (std::size_t i = 0; i < pids_.size(); ++i) {
      if (pids_[i] < 0 || waitpid(pids_[i], nullptr, WNOHANG) != pids_[i]) continue;
      pids_[i] = -1;
      if (ending_) continue;
      ++restarts_;
      start(i);
    }
  }

  /// What a node's process does; its exit code.
  int live(const PlacedNode& placed) {
    const bool leads = placed.name == kChiefNode;
    const auto wall = std::chrono::system_clock::now();
    NodePlace place;
    place.run_dir = folder_;
    transport::Identity& self = place.network.self;
    self = {"many", {}, placed.name};
    if (leads) self.roles.emplace_back("chief");
    for (const auto& share : placed.shares) self.roles.push_back(share.role);
    place.network.credentials = authority_.issue(self, wall, std::chrono::hours(1)).value();
    place.network.listen = {"127.0.0.1", 0};
    place.advertised_host = "127.0.0.1";
    while (!leads && board_->port == 0) std::this_thread::sleep_for(std::chrono::milliseconds(2));
    if (!leads) place.network.chief = transport::Address{"127.0.0.1", static_cast<std::uint16_t>(board_->port)};
    if (leads) place.runtime.chief.placement = placement_;
    TrainOptions options;
    options.checkpoint.every_s = 1e6;
    const auto network = make_network(place, topology_).value();
    if (leads) board_->port = network->address().port;
    const auto runtime =
        Runtime::make(topology_, node_runtime(place, options, topology_, *network, {}, {}).value()).value();
    for (;;) {
      const auto ended = runtime->run([&] { return leads && board_->cut_asked.load(); });
      if (!ended.ok() || *ended != Runtime::Ended::kInterrupted) {
        runtime->stop();
        return ended.ok() ? 0 : 1;
      }
      board_->cut_asked = false;
      const Duration start = now();
      const auto done = runtime->checkpoint();
      board_->cut_took = done.ok() ? (now() - start).count() : -1;
    }
  }

  const int workers_;
  const std::filesystem::path folder_;
  const SteadyClock clock_{};
  const transport::Authority authority_ =
      transport::Authority::create("many", std::chrono::system_clock::now()).value();
  RealNodesBoard* board_ = nullptr;
  std::vector<PlacedNode> placement_;
  Topology topology_;
  std::vector<pid_t> pids_;
  Duration started_{};
  bool ending_ = false;
  int restarts_ = 0;
};

}  // namespace troupe::actors::testing
