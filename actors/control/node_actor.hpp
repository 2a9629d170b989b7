#pragma once
// The hands of a node: spawns the instances that the chief places here, watches them, wires them, pauses and saves them
// for a cut, and tells the chief what happened. Decides nothing itself. One in every node, the chief's own included; in
// a run within one process it is the only one.
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <troupe/actors/control/cut_writer.hpp>
#include <troupe/actors/control/groups.hpp>
#include <troupe/actors/control/runtime_options.hpp>
#include <troupe/actors/runtime/protocol.hpp>
#include <troupe/actors/runtime/role_actor.hpp>
#include <troupe/actors/runtime/routes.hpp>
#include <troupe/actors/runtime/topology.hpp>
#include <troupe/core/clock.hpp>

namespace troupe::actors {

/// What a node actor works with; all of it outlives the actor.
struct NodeTools {
  const Topology& topology;
  const Clock& clock;
  messages::FramePool& pool;
  Routes& routes;
  Groups& groups;
};

class NodeActor final : public caf::event_based_actor {
 public:
  /// `chief`: the ChiefActor when it is on this node, else invalid and reached through the network. `listener` gets
  /// ended_atom when this node must end: told so by the chief, fenced, refused or orphaned.
  /// `options` outlives the actor.
  NodeActor(caf::actor_config& config, const RuntimeOptions& options, const NodeTools& tools, caf::actor chief,
            caf::actor listener);

  caf::behavior make_behavior() override;
  void on_exit() override;
  const char* name() const override { return "troupe.node"; }

 private:
  struct Instance {
    messages::ControlInstance id;
    caf::actor actor;
    bool up = false;
    bool started = false;
    /// Other nodes that it has edges with, by the edge and whether it is from there.
    std::map<std::pair<EdgeId, bool>, std::string> peer_nodes;
    std::optional<Error> failure;  ///< of an instance that is going down
    std::shared_ptr<std::atomic<Duration::rep>> step_began;
  };
  /// A cut under way here.
  struct PendingCut {
    std::uint64_t number = 0;
    std::set<std::string> pausing;      ///< instances that have not answered
    std::set<std::string> markers_due;  ///< nodes whose marker has not come
    std::set<std::string> saving;
    bool save_asked = false;
    Duration give_up{};  ///< when the cut fails
    Cut cut;
    std::optional<messages::Control> written;  ///< to be said when the chief has ended the cut
  };

  void to_chief(messages::Control control);
  void control(const messages::Control& control);
  /// Asks to be welcomed; repeated until the chief answers. It answers each request once.
  void join();
  void request_join();
  /// The chief says how often it wants to hear of us.
  void set_heartbeat(std::uint64_t period_ms);
  void tick();
  void spawn_instance(const messages::Control& order);
  void wire(const messages::Control& order);
  void unwire(const messages::Control& order);
  void went_down(const caf::actor_addr& address, const caf::error& reason);
  /// A device is lost to this process, which is to end once the chief has heard why.
  void lose(const std::string& why);
  void begin_cut(const messages::Control& order);
  void paused(const std::string& instance);
  void advance_cut();
  void instance_saved(const SavedMessage& message);
  void part_written(const WrittenMessage& message);
  void end_cut();
  /// Goes on although the chief has not ended the cut: it counts no more.
  void spoil_cut(const std::string& why);
  void cut_timed_out(std::uint64_t number);
  /// The cut counts: the instances may let go of what only older ones need.
  void committed(std::uint64_t number);
  /// The chief says which cuts are to stay.
  void keep_parts(const messages::Control& order);
  void check_parts(const messages::Control& order);
  void parts_checked(const PartsChecked& message);
  void leave();
  void captured(std::uint64_t number, std::optional<Error> error);
  void ask_status();
  void status(const InstanceStatus& status);
  /// Answers the chief, for those who are in a long step as well: they could not say anything themselves.
  void answer_status();
  void cut_over(std::uint64_t number);
  void end(std::optional<Error> error);
  Instance* find(const std::string& role, std::uint32_t index);
  Instance* named(const std::string& instance);
  static messages::Control about(messages::ControlKind kind, const Instance& instance);
  std::string name_of(const messages::ControlInstance& id) const;

  const RuntimeOptions& options_;
  const NodeOptions& own_ = options_.node;
  const NodeTools tools_;
  caf::actor chief_;
  caf::actor listener_;
  caf::actor writer_;
  std::map<std::string, Instance> instances_;  ///< by name
  std::optional<PendingCut> cut_;
  std::uint64_t uncommitted_ = 0;  ///< cut that was ordered and may need us still; 0: none
  std::uint64_t captured_ = 0;     ///< cut that the instances were saved for last
  bool leaving_ = false;
  bool lost_ = false;                             ///< see lose()
  std::uint64_t cut_ended_ = 0;                   ///< newest that the chief has ended
  std::map<std::string, std::uint64_t> markers_;  ///< newest cut that each node has sent a marker of
  LiveRoles live_;
  std::uint64_t term_ = 0;  ///< newest of a chief that we have heard; older ones are ignored
  std::uint32_t incarnation_ = 0;
  bool connected_ = false;  ///< to the chief
  bool member_ = false;     ///< the chief has welcomed this connection
  std::uint64_t beats_ = 0;
  Duration chief_heard_{};
  Duration last_tick_{-1};
  Duration period_{};  ///< of our heartbeats
  Duration next_beat_{};
  Duration late_{};          ///< most that a tick was late since the last heartbeat
  std::uint64_t joins_ = 0;  ///< requests
  Duration last_join_{-1};
  Duration join_pause_{};  ///< until it is repeated
  Duration requested_{};   ///< when the request was made first
  bool chief_missed_ = false;
  bool put_off_ = false;     ///< the log says why the chief does not let this node in yet
  bool unanswered_ = false;  ///< somebody has been told that no chief has answered yet
  std::uint64_t status_round_ = 0;
  std::set<std::string> status_due_;                ///< who has not answered the request under way
  std::map<std::string, InstanceStatus> statuses_;  ///< the newest of each
  bool ended_ = false;
  const std::shared_ptr<std::atomic<bool>> ending_ = std::make_shared<std::atomic<bool>>(false);  ///< for instances
};

}  // namespace troupe::actors
