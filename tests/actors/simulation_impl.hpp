#pragma once
// What is inside of a Simulation: simulation.cpp has time and processes, simulation_network.cpp what is between them.
// Internal to these two.
#include <deque>

#include <caf/scheduler/test_coordinator.hpp>

#include <troupe/actors/control/groups.hpp>
#include <troupe/actors/control/runtime_options.hpp>
#include <troupe/actors/runtime/routes.hpp>
#include <troupe/tests/actors/simulation.hpp>

namespace troupe::actors::testing {

inline constexpr std::uint16_t kChiefPort = 1;

class SimulatedClock final : public Clock {
 public:
  explicit SimulatedClock(const Simulation& simulation) : simulation_(simulation) {}
  Duration now() const override { return simulation_.now(); }

 private:
  const Simulation& simulation_;
};

/// Messages from one process to another: in order, and held back while that cannot be reached.
struct Simulation::Lane {
  std::uint64_t id = 0;
  std::uint64_t from = 0;  ///< birth
  std::string from_node;
  std::string node;
  std::uint64_t to = 0;            ///< birth; of control: see `control`
  ControlLine* control = nullptr;  ///< of a control lane, which leads to whoever answers at a port
  bool orphan = false;             ///< its process is dead: what was on its way may still arrive
  std::deque<std::pair<Duration, RemoteMessage>> queue;
};

/// The connection of a control lane. Where it breaks, what was on it is lost.
struct Simulation::ControlLine {
  std::uint64_t id = 0;
  std::uint64_t from = 0;  ///< birth
  std::string node;
  std::uint16_t port = 0;
  std::uint64_t birth = 0;      ///< of whom the chief means; 0: a node's own line to the chief
  std::uint64_t connected = 0;  ///< birth of the process at the other end; 0: none
  bool connecting = false;
  bool losing = false;
  Lane* lane = nullptr;
};

class Simulation::ProcessNetwork final : public Network {
 public:
  ProcessNetwork(Simulation& simulation, Process& process) : simulation_(simulation), process_(process) {}
  void start(std::uint64_t, NetworkEvents) override {}
  void send(const std::string& node, RemoteMessage message) override;
  void know(const std::vector<messages::ControlNode>& nodes) override;
  void know_more(const std::vector<messages::ControlNode>& nodes, const std::vector<std::string>& gone) override;
  void stop() override {}

 private:
  Simulation& simulation_;
  Process& process_;
};

struct Simulation::Process {
  Process(Simulation& simulation, std::string name_in, std::uint64_t birth_in, std::uint16_t port_in)
      : name(std::move(name_in)),
        birth(birth_in),
        port(port_in),
        clock(simulation),
        system(config.set("scheduler.policy", caf::atom("testing")).set("logger.console", caf::atom("none"))),
        routes(*simulation.options_.topology),
        network(simulation, *this),
        groups(*simulation.options_.topology, name, &network, pool) {
    scheduler().clock().current_time = caf::actor_clock::time_point(simulation.now_);
  }
  ~Process() { system.clock().cancel_all(); }

  caf::scheduler::test_coordinator& scheduler() {
    return dynamic_cast<caf::scheduler::test_coordinator&>(system.scheduler());
  }

  const std::string name;
  const std::uint64_t birth;
  const std::uint16_t port;
  bool alive = true;
  bool stopped = false;
  bool dying = false;             ///< what it says or writes from now on goes nowhere
  std::optional<Duration> timer;  ///< as in timers_
  RuntimeOptions options;
  SimulatedClock clock;
  messages::FramePool pool;
  caf::actor_system_config config;
  caf::actor_system system;
  Routes routes;
  ProcessNetwork network;
  Groups groups;
  caf::actor chief, hands, listener;
  std::map<std::string, messages::ControlNode> known;
  std::map<std::pair<std::string, int>, std::uint64_t> lanes;            ///< of data
  std::map<std::pair<std::string, std::uint64_t>, std::uint64_t> lines;  ///< of control, by node and birth
  std::function<void(const CheckpointDone&)> checkpoint_done;
  std::function<void(const std::string&)> status_done;
};

}  // namespace troupe::actors::testing
