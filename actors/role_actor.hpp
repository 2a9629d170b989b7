#pragma once
// The shell around a role: mailbox, ports, credits, pausing and reports. One class for all roles; what differs is the
// Role inside. Spawned and watched by the supervisor.
#include <memory>
#include <string>
#include <vector>

#include <troupe/actors/ports.hpp>
#include <troupe/actors/protocol.hpp>
#include <troupe/actors/role.hpp>
#include <troupe/actors/topology.hpp>

namespace troupe::actors {

/// What an instance is made with. Pointers outlive the actor system.
struct InstanceOptions {
  std::uint32_t instance = 0;  ///< number in the supervisor's list
  RoleIdentity identity;
  const Topology* topology = nullptr;
  const Clock* clock = nullptr;
  messages::FramePool* pool = nullptr;
  Duration report_period{};  ///< 0: no reports
  /// State to start from; null: a fresh start.
  std::shared_ptr<const InstanceState> state;
  /// Credits already spent, by edge, because a restored consumer holds the frames.
  std::shared_ptr<const std::vector<EdgeId>> frames_under_way;
};

class RoleActor final : public caf::event_based_actor, private RoleContext {
 public:
  RoleActor(caf::actor_config& config, InstanceOptions options, caf::actor supervisor);
  ~RoleActor() override;

  caf::behavior make_behavior() override;
  /// Peers hold each other: without letting go of them here no actor of a topology would ever be destroyed.
  void on_exit() override;
  const char* name() const override { return "troupe.role"; }

 private:
  // RoleContext
  Inlet& in(std::string_view port) override;
  Outlet& out(std::string_view port) override;
  Caller& caller(std::string_view port) override;
  Server& server(std::string_view port) override;
  const Clock& clock() const override { return *options_.clock; }
  messages::FramePool& pool() override { return *options_.pool; }
  void wake_after(Duration delay) override;

  void wire(const Wiring& wiring);
  void rewire(const EdgeId& edge, const caf::actor& actor);
  void start();
  /// Something has changed: step unless a step is coming anyway.
  void poke();
  void step();
  void count_waits();
  void fail(Error error);
  void save();
  void report();
  void warn_when_stalled();
  std::int64_t capacity(const EdgeId& edge) const;

  InstanceOptions options_;
  const RoleSpec& spec_;
  caf::actor supervisor_;
  PortSender sender_;
  std::unique_ptr<Role> role_;
  // Few ports a role: a linear search by name is faster than a map.
  std::vector<std::unique_ptr<InletPort>> inlets_;
  std::vector<std::unique_ptr<OutletPort>> outlets_;
  std::vector<std::unique_ptr<CallerPort>> callers_;
  std::vector<std::unique_ptr<ServerPort>> servers_;
  std::unique_ptr<OutletPort> reports_;

  bool running_ = false;
  bool paused_ = false;
  bool done_ = false;
  bool step_coming_ = false;  ///< a step_atom is in the mailbox
  std::uint64_t wake_generation_ = 0;
  std::optional<Duration> expire_armed_;  ///< when the timer for calls' deadlines fires
  Duration idle_since_{-1};               ///< < 0: not idle
  Duration stall_warned_{-1};
};

}  // namespace troupe::actors
