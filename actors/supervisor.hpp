#pragma once
// The supervisor spawns every instance of a topology, watches it, restarts what may be restarted, takes consistent cuts
// and ends the run. It never touches data. One for each runtime; spawned by it.
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <troupe/actors/protocol.hpp>
#include <troupe/actors/role_actor.hpp>
#include <troupe/actors/topology.hpp>
#include <troupe/core/clock.hpp>

namespace troupe::actors {

struct SupervisorActorOptions {
  const Topology* topology = nullptr;
  const Clock* clock = nullptr;
  messages::FramePool* pool = nullptr;
  std::uint64_t seed = 0;
  Duration report_period{};
  /// No threads: everything on the scheduler that the runtime drives.
  bool single_threaded = false;
  /// How long all instances together may take to pause and save, before a cut fails naming who did not answer.
  Duration cut_deadline = std::chrono::seconds(30);
  std::shared_ptr<const Cut> resume_from;  ///< null: a fresh run
};

/// Sent to `listener` when the run is over: complete, or the error that ended it.
struct RunEnded {
  std::optional<Error> error;
};

/// Understands cut_atom (answered with CutMessage) and stop_atom (ends all instances, then itself).
class Supervisor final : public caf::event_based_actor {
 public:
  Supervisor(caf::actor_config& config, SupervisorActorOptions options, caf::actor listener);

  caf::behavior make_behavior() override;
  void on_exit() override;
  const char* name() const override { return "troupe.supervisor"; }

 private:
  struct Instance {
    RoleIdentity identity;
    const RoleSpec* spec = nullptr;
    caf::actor actor;
    int restarts = 0;
    bool done = false;
    bool up = false;
    std::optional<Error> failure;  ///< of the incarnation that is going down
  };
  /// A cut under way.
  struct PendingCut {
    caf::response_promise promise;
    std::uint64_t number = 0;
    bool saving = false;
    std::vector<bool> answered;
    Cut cut;
  };

  void spawn_instance(std::uint32_t number, std::shared_ptr<const InstanceState> state,
                      std::shared_ptr<const std::vector<EdgeId>> under_way);
  void start_all();
  std::vector<std::uint32_t> instances_of(const std::string& role) const;
  Wiring wiring_of(std::uint32_t number) const;
  void went_down(const caf::actor_addr& address, const caf::error& reason);
  void restart(std::uint32_t number);
  void finished(std::uint32_t number);
  void begin_cut();
  void instance_paused(std::uint32_t number);
  void instance_saved(const SavedMessage& message);
  void end_cut(std::optional<Error> error);
  void end_run(std::optional<Error> error);

  SupervisorActorOptions options_;
  caf::actor listener_;
  std::vector<Instance> instances_;
  std::optional<PendingCut> cut_;
  std::uint64_t cuts_ = 0;
  bool ended_ = false;
};

}  // namespace troupe::actors

CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::actors::RunEnded)
