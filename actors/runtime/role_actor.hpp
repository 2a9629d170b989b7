#pragma once
// The shell around a role: mailbox, ports, credits, pausing and reports. One class for all roles; what differs is the
// Role inside. Spawned and watched by the NodeActor of its node; its peers are actors of the same node or instances on
// other nodes, which it reaches through the network without noticing.
#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <troupe/actors/runtime/ports.hpp>
#include <troupe/actors/runtime/protocol.hpp>
#include <troupe/actors/runtime/role.hpp>
#include <troupe/actors/runtime/topology.hpp>

namespace troupe::actors {

/// What an instance is made with. Pointers outlive the actor system.
struct InstanceOptions {
  RoleIdentity identity;
  std::uint32_t number = 0;  ///< in the run; names the edge of its reports
  const Topology* topology = nullptr;
  const Clock* clock = nullptr;
  messages::FramePool* pool = nullptr;
  Network* network = nullptr;  ///< null: there are no other nodes
  Duration report_period{};    ///< 0: no reports
  /// The state to start from; called on the instance's own thread. Empty or null: a fresh start.
  std::function<Result<std::shared_ptr<const InstanceState>>()> load;
  /// Set when the node ends: an instance that has not been made by then is not made any more.
  std::shared_ptr<const std::atomic<bool>> ending;
  /// When the step in progress began, in the clock's time; < 0: none is. For whoever watches for steps that hang.
  std::shared_ptr<std::atomic<Duration::rep>> step_began;
  bool goes_behind = false;  ///< as of RoleSpec; the instance has a thread of its own
};

class RoleActor final : public caf::event_based_actor, private RoleContext {
 public:
  RoleActor(caf::actor_config& config, InstanceOptions options, caf::actor node);
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
  std::function<void()> waker() override;
  bool alive(std::string_view role) const override;
  void refuse(std::string_view port, const Error& why) override;

  PortSender make_sender();
  /// Whether a frame has a size that its channel's registered type allows. Else the instance fails after this step: the
  /// other side, which may be of another node, would refuse it again and again.
  bool may_be_sent(std::uint32_t channel, const Frame& frame, bool is_answer = false);
  /// Makes the role and gives it its state; says `up` or fails.
  void make_role();
  void wire(const std::vector<Peer>& peers);
  void wire(const Peer& peer);
  void unwire(const EdgeId& edge, bool peer_produces, std::uint32_t incarnation);
  /// Something has changed: step unless a step is coming anyway.
  void poke();
  void step();
  void count_waits();
  void fail(Error error);
  /// Once all that was sent is on its way.
  void answer_pause();
  void save();
  void report();
  InstanceStatus status() const;
  void warn_when_stalled();

  InstanceOptions options_;
  const RoleSpec& spec_;
  const std::string name_;
  caf::actor node_;
  PortSender sender_;
  std::unique_ptr<Role> role_;
  // Few ports a role: a linear search by name is faster than a map.
  std::vector<std::unique_ptr<InletPort>> inlets_;
  std::vector<std::unique_ptr<OutletPort>> outlets_;
  std::vector<std::unique_ptr<CallerPort>> callers_;
  std::vector<std::unique_ptr<ServerPort>> servers_;
  std::unique_ptr<OutletPort> reports_;
  LiveRoles live_;

  bool running_ = false;
  bool paused_ = false;
  bool pause_due_ = false;  ///< the node waits for the answer to `pause`
  bool done_ = false;
  bool step_coming_ = false;  ///< a step_atom is in the mailbox
  std::uint64_t wake_generation_ = 0;
  std::optional<Duration> expire_armed_;  ///< when the timer for calls' deadlines fires
  Duration idle_since_{-1};               ///< < 0: not idle
  Duration stall_warned_{-1};
  std::uint64_t refused_ = 0;  ///< frames; see refuse()
  std::optional<Error> unsendable_;
};

}  // namespace troupe::actors
