#pragma once
// The head of a run: knows which nodes there are, places instances on them, wires them to each other, restarts what
// died, takes consistent cuts, answers for the state of it all and ends the run. It never touches data. One for each
// run, on the node named "chief"; in a run within one process it leads that one node.
//
// It may die and come back: what it must not forget (term, incarnations, the last cut) is in its journal, and the nodes
// tell the rest when they join again. Data goes on meanwhile.
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include <troupe/actors/control/chief_journal.hpp>
#include <troupe/actors/control/membership.hpp>
#include <troupe/actors/control/run_status.hpp>
#include <troupe/actors/control/runtime_options.hpp>
#include <troupe/actors/runtime/protocol.hpp>
#include <troupe/actors/runtime/topology.hpp>
#include <troupe/core/clock.hpp>

namespace troupe::actors {

/// Understands control_atom from nodes, checkpoint_atom (answered with CheckpointDone), status_atom (answered with
/// JSON) and stop_atom (ends all nodes, then itself). Sends ended_atom to its listener when the run is over.
class ChiefActor final : public caf::event_based_actor {
 public:
  /// What is passed by reference outlives the actor. `earlier`: what the journal held when the process began.
  ChiefActor(caf::actor_config& config, const RuntimeOptions& options, const Topology& topology, const Clock& clock,
             ChiefJournal earlier, caf::actor listener);

  caf::behavior make_behavior() override;
  void on_exit() override;
  const char* name() const override { return "troupe.chief"; }

 private:
  static messages::Control order(messages::ControlKind kind);

  enum class State { kWaitingForNode, kStarting, kUp, kRestarting, kQuarantined };
  struct Instance {
    messages::ControlInstance id;
    std::string name;
    std::string node;
    const RoleSpec* spec = nullptr;
    State state = State::kWaitingForNode;
    int restarts = 0;              ///< in all, for the status
    std::vector<Duration> recent;  ///< times of the restarts that still count
    int lost = 0;                  ///< how often in a row its device was lost without a cut between
    std::uint64_t lost_after = 0;  ///< the newest cut when it was lost last
    std::string error;
    bool elastic = false;
    std::optional<std::uint32_t> gone;  ///< newest incarnation that went down under this chief
    Duration away_since{};              ///< while its node is not up
    bool resumed = false;               ///< has been up in this run, so that resume_cut_ is behind it
    bool from_cut = false;              ///< was told to start from one
    std::optional<InstanceStatus> own, before;
  };
  struct PendingCut {
    std::vector<caf::response_promise> promises;
    std::uint64_t number = 0;
    std::set<std::string> nodes, capturing, writing;
    Duration give_up{};    ///< when instances that are not up are not waited for any longer
    bool ordered = false;  ///< the nodes have been told
    Duration said_at{};    ///< when somebody was told last how far it is
    bool captured = false;
    std::vector<messages::Counter> counters;
    Duration begun{};
    std::vector<std::string> expected;  ///< instances without which it would be none of the whole
    std::vector<CutPart> parts;
  };
  /// Which cut the run goes on from, while nodes have still to say whether they have their parts of it.
  struct Choice {
    std::set<std::string> due;                     ///< nodes
    std::map<std::uint64_t, std::string> damaged;  ///< why, by number
    Duration give_up{};
  };

  // Nodes.
  /// Says all that a node must know, and repeats what it may have missed while its connection was broken.
  void bring_up_to_date(const std::string& node);
  void from_node(const std::string& node, const messages::Control& message);
  void from_operator(const messages::Control& message);
  /// Those who ask to join at the same time are let in together, so that the journal is written once for all of them.
  struct Joining {
    std::string node;
    messages::Control request;
    caf::actor hands;    ///< the NodeActor when it is of this process
    bool again = false;  ///< the process was in already
    Membership::Verdict verdict = {};
  };
  void join(const std::string& node, const messages::Control& message);
  void let_in();
  /// Whether the node is in; else it has been told why not. `news`: the journal has changed.
  bool admit(Joining& joining, bool& news);
  /// Why a process that asks to join has no place in this run, whenever it comes; empty: it has one.
  std::optional<Error> misfit(const std::string& node, const messages::Control& join) const;
  /// False: it has been told why it is none now, or the answer to this request is on its way already.
  bool becomes_member(Joining& joining);
  void refuse(const std::string& node, std::uint64_t birth, Error why, bool fenced = false);
  /// The journal cannot be written: the node asks again.
  void put_off(const Joining& joining);
  void welcome(const Joining& joining);
  /// The instance as the process that joins has it already; null: it has not.
  static const messages::ControlInstance* running_in(const messages::Control& join, const Instance& instance);
  /// Whether the journal has changed.
  bool note_incarnation(const Instance& instance);
  static std::string declared_dead(const std::string& node, std::uint32_t incarnation);
  /// What welcomed nodes are told.
  std::uint64_t heartbeat_ms() const;
  void to_node(const std::string& node, messages::Control message);
  void node_gone(const std::string& node, const std::string& why);
  void has_left(const std::string& node);
  /// The nodes with instances that those of `node` exchange something with. No other node hears of it, so that what is
  /// said grows with the edges, not with the square of the nodes.
  std::set<std::string> neighbours(const std::string& node) const;
  /// What is to be said of a node to its neighbours; none when it has gone.
  std::optional<messages::ControlNode> whereabouts(const std::string& node) const;
  void tell_neighbours_of(const std::string& node);
  void tell_of_neighbours(const std::string& node);
  void tick();
  bool remote(const std::string& node) const { return node != kChiefNode; }

  // Instances.
  Instance* find(const messages::ControlInstance& id);
  const std::vector<std::size_t>& on_node(const std::string& node) const;
  Instance& add_instance(const std::string& role, std::uint32_t index, const std::string& node);
  /// The elastic roles in the certificate of a node that is not in the placement: it may host instances of these.
  std::vector<const RoleSpec*> elastic_roles(const messages::Control& join) const;
  /// One more instance on this node, in the place of one that has gone if there is any.
  void add_elastic(const RoleSpec& role, const std::string& node);
  /// What it is called in the run: the same for every chief, in whatever order nodes join.
  std::uint32_t elastic_number(const RoleSpec& role, std::uint32_t index) const;
  void spawn(Instance& instance);
  void came_up(Instance& instance);
  /// Wires an instance that is up to all others, and starts it. Repeating it does no harm.
  void introduce(const Instance& instance);
  /// A node says that an instance is up, done or has failed.
  void instance_changed(const messages::Control& message, const std::string& node);
  /// Decides what follows, by the role's RestartPolicy. After Code::kLost the node's next process runs the instance,
  /// unless several processes in a row have not brought the run to another cut. Our own node has no next process: there
  /// the run ends, or the instance is quarantined.
  void went_down(Instance& instance, const Error& error, bool with_its_node);
  /// The instance goes down when the run is over already: decides whether the last cut can be without it.
  void stays_down(Instance& instance, const Error& error);
  /// `futile`: it would fail again at once.
  void plan_restart(Instance& instance, const Error& error, bool futile, bool with_its_node);
  /// It was restarted too often: the run goes on without it where it may, or ends. `budget`: how often, in words.
  void give_up(Instance& instance, const Error& error, const std::string& budget);
  void restart(std::uint32_t number);
  void finished(const Instance& instance);
  /// Whether the end of the run need not wait for it: it is done, or the run goes on without it.
  bool awaits_no_more(const Instance& instance) const;
  /// Ends the run once some role of each part has done all that it had to do.
  void end_if_complete();
  messages::Control live() const;
  void tell_live();
  /// Calls each(other instance, edge, whether the other one produces) for every edge of an instance.
  template <typename Each>
  void for_each_edge(const Instance& self, Each each) const;

  // Groups.
  struct Group {
    bool formed = false;  ///< under this chief
    std::optional<Duration> first_up;
    std::uint64_t epochs = 0;
    messages::Control view;  ///< the newest
    std::string broke;       ///< what the members said of the last epoch that failed
  };
  /// Gives the role's group a new epoch of those that are up, unless it has none, they are not all there yet at the
  /// start, or a cut has them paused: resume_nodes() does it then.
  void regroup(const RoleSpec& role);
  void regroup_all();
  void epoch_broke(const messages::Control& message);
  /// Says once, and keeps for the status, that members could share memory and do not see each other's.
  void note_apart(const std::string& role, const std::vector<messages::ControlNode>& members);

  // Cuts.
  void begin_cut(std::vector<caf::response_promise> promises, Duration patience);
  caf::response_promise ask_cut(Duration patience);
  void periodic_cut();
  /// The nodes have been told to pause, and not all have saved.
  bool in_cut() const { return cut_ && cut_->ordered && !cut_->captured; }
  /// Whether a cut without this instance, which is not up, would do.
  bool dispensable(const Instance& instance) const;
  /// The instance that this cut must still wait for; null: none.
  const Instance* missing_in_cut() const;
  void order_cut();
  void cut_answer(const messages::Control& message, const std::string& node);
  void resume_nodes();
  /// Logs a line about a cut that takes long: whoever looks after this process gives it time as long as lines come.
  void say_how_far();
  void end_cut(std::optional<Error> error);
  Status commit(const PendingCut& cut);
  /// The name of the cut's parts on disk. A run within one process names its checkpoints otherwise: then the number.
  std::string called(std::uint64_t cut) const;
  /// kCut and kCommit also say which parts nodes are to keep.
  void add_kept(messages::Control& order) const;
  void begin_choice();
  void ask_parts(const std::string& node);
  void parts_checked(const messages::Control& message, const std::string& node);
  void choose();

  static constexpr Duration kStatusPeriod = std::chrono::seconds(1);
  void ask_status();
  void periodic_status();
  void status_of(const messages::Control& message, const std::string& node);
  void finish_status();
  std::string status();
  /// Writes the journal. False: it is not written, and nothing that only it may promise (a term, an incarnation, the
  /// number of a cut) may be said to anybody. Then it is tried again until it is written, and meanwhile each call is
  /// false without a look at the disk.
  bool keep_journal();
  bool write_journal();
  std::string journal_trouble() const;
  /// Whether another chief leads the run now; then this one has ended it for its own process.
  bool superseded();
  void end_run(RunEnded ended);
  void stop();
  /// The run has failed, or its last checkpoint is there: nobody is let in or started any more. A run that is complete
  /// still takes back who was down when it became so, for a last checkpoint of the whole.
  bool closing() const { return stopping_ || failed_; }

  const RuntimeOptions& options_;
  const Topology& topology_;
  const Clock& clock_;
  caf::actor listener_;
  Membership membership_;
  ChiefJournal journal_;
  std::string unkept_;      ///< why the journal cannot be written; empty: it is
  bool term_kept_ = false;  ///< our term is in the journal on disk
  Duration checked_at_{};   ///< when superseded() looked last
  std::vector<Joining> joining_;
  caf::actor own_node_;  ///< the NodeActor of this process, once it has joined
  std::map<std::string, messages::ControlNode> addresses_;
  std::map<std::string, std::pair<std::uint64_t, std::uint64_t>> answered_;  ///< by node: birth and number of its kJoin
  std::set<std::string> unconfirmed_;  ///< nodes that may not have got their welcome: they have not been alive since
  std::set<std::string> broken_;       ///< nodes whose connection was lost: what they were told since may not have come
  std::vector<Instance> instances_;
  std::map<std::string, std::map<std::uint32_t, std::size_t>> by_role_;  ///< places in instances_, by role and index
  std::map<std::string, std::vector<std::size_t>> on_node_;              ///< places in instances_
  std::set<std::string> planned_nodes_;                                  ///< in the placement
  std::uint32_t planned_ = 0;                 ///< how many of them are in the placement; those that joined follow
  std::vector<std::string> live_;             ///< as last told
  std::map<std::string, Group> groups_;       ///< by role
  std::map<std::string, std::string> hosts_;  ///< by node: as in its kJoin's text
  CommittedCut resume_cut_;                   ///< that all instances start from; number 0: none
  CommittedCut last_;                         ///< the newest that is committed
  std::vector<std::uint64_t> kept_;
  std::optional<Choice> choice_;
  std::map<std::string, std::vector<std::string>> troubles_;  ///< by node or group: for the status
  std::optional<PendingCut> cut_;
  std::set<std::string> without_;                ///< instances that the newest cut was taken without
  std::vector<caf::response_promise> next_cut_;  ///< asked for during one; at most as many as there are callers
  std::vector<caf::response_promise> status_promises_;
  bool operator_waits_ = false;
  std::set<std::string> status_due_;
  std::uint64_t status_round_ = 0;
  Duration status_at_{}, status_before_{};
  bool status_shifts_ = true;  ///< the round under way is late enough after the last for rates
  Duration last_tick_{};
  std::string over_ = "stopped";  ///< for the journal, once the nodes are told of the end
  bool any_done_ = false;         ///< of those whose end completes the run
  bool ended_ = false;
  bool failed_ = false;  ///< and it has ended with an error
  bool stopping_ = false;
  std::optional<Error> failed_since_end_;  ///< an instance that the last cut needs: the answer to every cut
  std::set<std::string> leaving_;          ///< nodes that may not have heard of the end yet
};

template <typename Each>
void ChiefActor::for_each_edge(const Instance& self, Each each) const {
  const auto instances_of = [&](const std::string& role, auto call) {
    const auto found = by_role_.find(role);
    if (found == by_role_.end()) return;
    for (const auto& [index, place] : found->second) call(instances_[place]);
  };
  for (std::uint32_t c = 0; c < topology_.channels.size(); ++c) {
    const ChannelSpec& channel = topology_.channels[c];
    if (channel.to_role == self.id.role) {
      instances_of(channel.from_role, [&](const Instance& other) {
        each(other, EdgeId{c, other.id.index, self.id.index}, true);
      });
    }
    if (channel.from_role == self.id.role) {
      instances_of(channel.to_role, [&](const Instance& other) {
        each(other, EdgeId{c, self.id.index, other.id.index}, false);
      });
    }
  }
  const auto& reports = topology_.reports;
  if (!reports) return;
  if (self.id.role == reports->role) {
    for (const Instance& other : instances_) each(other, EdgeId{kReportChannel, other.id.number, 0}, true);
  }
  instances_of(reports->role, [&](const Instance& other) {
    each(other, EdgeId{kReportChannel, self.id.number, 0}, false);
  });
}

}  // namespace troupe::actors
