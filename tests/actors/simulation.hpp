#pragma once
// A whole run on simulated hosts, in one thread and virtual time: real chief, nodes and roles, each process with an
// actor system of its own, and a network that delays, cuts and breaks. Everything that happens follows from one seed,
// so a run that fails is repeated by its seed, bit for bit. Used by simulation_test.cpp, which makes the faults.
//
// What a process writes (shards of cuts, the chief's journal) outlives it; what it has sent may arrive after its death.
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <troupe/actors/control/chief_journal.hpp>
#include <troupe/actors/control/committed_cuts.hpp>
#include <troupe/actors/control/membership.hpp>
#include <troupe/actors/control/placement.hpp>
#include <troupe/actors/runtime/protocol.hpp>
#include <troupe/actors/runtime/topology.hpp>
#include <troupe/core/rng.hpp>

namespace troupe::actors::testing {

struct SimulationOptions {
  std::uint64_t seed = 0;
  const Topology* topology = nullptr;
  std::vector<PlacedNode> placement;
  std::int64_t elastic_instances = 1;  ///< that a node which was not planned offers to host
  MembershipOptions membership;
  Duration cut_deadline = std::chrono::seconds(2);
  Duration checkpoint_period = std::chrono::seconds(1);
  Duration orphaned_after = std::chrono::seconds(6);
  Duration report_period = std::chrono::seconds(1);
  Duration least_delay = std::chrono::microseconds(50);
  Duration most_delay = std::chrono::milliseconds(2);
  bool same_ports = false;          ///< a node's next process has an earlier one's address, as of a name that moves
  std::filesystem::path directory;  ///< instances' own folders are made in it, real ones; empty: they have none
};

/// What processes have said to each other, in all.
struct SimulatedTraffic {
  std::uint64_t control = 0;  ///< messages between chief and nodes
  std::uint64_t entries = 0;  ///< in their lists
  std::uint64_t data = 0;     ///< messages between instances
};

/// What survives processes.
struct SimulatedDisk {
  ChiefJournal journal;
  std::map<std::string, std::map<std::uint64_t, std::shared_ptr<const Cut>>> shards;  ///< by node and number
  std::vector<CommittedCut> cuts;                                ///< committed, newest first; two are kept
  std::set<std::pair<std::string, std::uint64_t>> damaged = {};  ///< shards that do not verify
  std::uint64_t committed() const { return cuts.empty() ? 0 : cuts.front().number; }
};

class Simulation {
 public:
  Simulation(SimulationOptions options, SimulatedDisk disk);
  ~Simulation();

  Duration now() const { return now_; }
  const SimulatedDisk& disk() const { return disk_; }
  /// A number that two runs share only when they delivered the same messages at the same times.
  std::uint64_t trace() const { return trace_; }
  /// Violations that the simulation itself has seen, in words.
  const std::vector<std::string>& findings() const { return findings_; }
  const SimulatedTraffic& traffic() const { return traffic_; }
  /// Called with all shards of a cut when the chief commits it.
  std::function<void(const std::vector<std::shared_ptr<const Cut>>&)> on_commit;
  /// All instances start from the newest cut that is whole.
  bool resume = false;
  /// The cuts that instances were restored from, in order.
  const std::vector<std::pair<std::string, std::uint64_t>>& loads() const { return loads_; }
  /// The chief's process dies as soon as it has committed its next cut, before its journal says so.
  void kill_chief_after_commit(Duration pause) { dies_after_commit_ = pause; }

  /// Lets time pass. Processes that end by themselves are started again after a moment, unless the run is over.
  void run_until(Duration time);
  void at(Duration time, std::function<void()> event);

  // Processes. A node has at most one process that was started for it and has not been killed, but for replace().
  void start(const std::string& node);
  /// Kill -9 and, after `pause`, a new process; < 0: none.
  void kill(const std::string& node, Duration pause);
  /// SIGSTOP and SIGCONT.
  void stop(const std::string& node);
  void resume_process(const std::string& node);
  /// A stopped process stays, and another one is started for its node. It wakes up after `pause`.
  void replace(const std::string& node, Duration pause);
  /// Kills what replace() has left alive of the node.
  void reap(const std::string& node);
  /// SIGTERM: the node leaves in good order.
  void leave(const std::string& node);
  /// The processes of all nodes that are to run.
  std::vector<std::string> nodes() const;

  // The network. A blocked direction holds back what is sent there.
  void block(const std::string& from, const std::string& to, bool blocked);
  void heal();
  /// Every control connection of the node breaks, and is made again.
  void reset(const std::string& node);
  void set_delays(Duration least, Duration most);

  /// Who knows whom, and what waits, for people.
  std::string describe() const;

  // The disk.
  void fail_writes(const std::string& node, bool fail);
  void damage(const std::string& node, std::uint64_t cut) { disk_.damaged.insert({node, cut}); }
  /// The node's process dies while it writes its next part of a cut, of which all or nothing is there then.
  void kill_in_write(const std::string& node, Duration pause) { dies_in_write_[node] = pause; }

  // The run, at the chief's process of this moment.
  void checkpoint(std::function<void(const CheckpointDone&)> done);
  void status(std::function<void(const std::string&)> done);
  /// What `troupe stop` ends in.
  void end();
  /// Whether the chief has said that the run is over; its error, if any.
  const std::optional<RunEnded>& ended() const { return ended_; }
  /// Processes that live; a node may have two for a while, see replace().
  std::size_t alive(const std::string& node) const;
  std::size_t alive() const;

 private:
  struct Process;
  class ProcessNetwork;
  struct Lane;
  struct ControlLine;

  Process* current(const std::string& node);
  Process* at_port(const std::string& node, std::uint16_t port);
  void spawn(const std::string& node);
  void tell(Process& process);
  void tell_chief(Process& process);
  void exit(Process& process);
  /// A process ends by itself, in a moment; whoever looks after it starts another one.
  void end_by_itself(std::uint64_t birth);
  void run(Process& process);
  void settle();
  void send(Process& from, const std::string& node, RemoteMessage message);
  void transmit(Lane& lane);
  void pump(std::uint64_t lane);
  void deliver(Process& to, const std::string& from, RemoteMessage message);
  ControlLine& line(Process& from, const std::string& node, std::uint16_t port, std::uint64_t birth);
  void watch(ControlLine& line);
  /// Of every connection of the node and what waits on it, after something about the node has changed.
  void watch_node(const std::string& node);
  /// The process has something to do at this moment.
  void wake(Process& process);
  /// When the process's next timer is due, after it has run.
  void note_timer(Process& process);
  void remove(const Lane& lane);
  bool blocked(const std::string& from, const std::string& to) const { return blocks_.contains({from, to}); }
  bool reachable(const Process& from, const Process* to) const;
  void note(std::string_view what, std::uint64_t a, std::uint64_t b);
  Duration random(Duration least, Duration most);

  SimulationOptions options_;
  SimulatedDisk disk_;
  Rng rng_;
  Duration now_{};
  std::uint64_t sequence_ = 0;
  std::uint64_t trace_ = 14695981039346656037ULL;
  std::map<std::pair<Duration, std::uint64_t>, std::function<void()>> events_;
  std::map<std::uint64_t, std::unique_ptr<Process>> processes_;  ///< by birth, so in the order of their starts
  std::map<std::string, std::uint64_t> current_;                 ///< newest process of a node
  std::map<std::pair<std::string, std::uint16_t>, std::set<std::uint64_t>> ports_;  ///< who lives and listens there
  std::set<std::uint64_t> awake_;                        ///< processes with something to do now
  std::set<std::pair<Duration, std::uint64_t>> timers_;  ///< the next one of each process
  std::map<std::uint64_t, std::unique_ptr<Lane>> lanes_;
  std::map<std::uint64_t, std::unique_ptr<ControlLine>> lines_;
  std::map<std::string, std::set<std::uint64_t>> lanes_of_, lines_of_;  ///< by the node at either end
  std::set<std::pair<std::string, std::string>> blocks_;
  std::set<std::string> failing_disks_;
  std::map<std::string, Duration> dies_in_write_;
  std::set<std::string> wanted_;  ///< nodes whose process is started again when it ends
  std::vector<std::string> findings_;
  std::vector<std::pair<std::string, std::uint64_t>> loads_;
  std::optional<Duration> dies_after_commit_;
  std::optional<RunEnded> ended_;
  SimulatedTraffic traffic_;
  std::uint16_t next_port_ = 1000;
  bool over_ = false;
};

}  // namespace troupe::actors::testing
