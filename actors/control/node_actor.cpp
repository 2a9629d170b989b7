#include <troupe/actors/control/node_actor.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <thread>

#include <troupe/actors/control/detail/node_answers.hpp>
#include <troupe/actors/runtime/last_resort.hpp>
#include <troupe/core/log.hpp>
#include <troupe/core/rng.hpp>
#include <troupe/core/thread_priority.hpp>

namespace troupe::actors {
namespace {

using messages::Control;
using messages::ControlKind;

/// A request to join is repeated after so long, then less and less often: a chief that is slow to answer many nodes
/// must not get more to do by that. After kJoinAfresh it is a new request, which is answered even if an answer is under
/// way.
constexpr Duration kJoinAgain = std::chrono::milliseconds(200);
constexpr Duration kJoinAgainMost = std::chrono::seconds(1);
constexpr Duration kJoinAfresh = std::chrono::seconds(10);
/// The chief counts as lost after that many heartbeats without an answer, at the least.
constexpr int kMissedAnswers = 5;
/// A chief that starts at the same time is there by then.
constexpr Duration kFirstWord = std::chrono::seconds(5);
/// How long a node that is asked to leave stays for a cut under way. Runtime::stop() waits longer.
constexpr Duration kLeaveWithin = std::chrono::seconds(50);
/// How long what was said last may take on its way, when this process is about to end at once.
constexpr Duration kLastWords = std::chrono::milliseconds(200);

std::optional<Error> error_of(const Control& control) {
  return control.failed ? std::optional<Error>(Error{control.code, control.text}) : std::nullopt;
}

}  // namespace

NodeActor::NodeActor(caf::actor_config& config, const RuntimeOptions& options, const NodeTools& tools, caf::actor chief,
                     caf::actor listener)
    : caf::event_based_actor(config),
      options_(options),
      tools_(tools),
      chief_(std::move(chief)),
      listener_(std::move(listener)) {
  end_process_on_exception(*this);
  set_down_handler([this](const caf::down_msg& down) { went_down(down.source, down.reason); });
}

caf::behavior NodeActor::make_behavior() {
  if (!options_.deterministic) take_short_slices();
  period_ = options_.membership.heartbeat;
  if (options_.write_cut) {
    writer_ = options_.deterministic ? spawn<CutWriter>(options_) : spawn<CutWriter, caf::detached>(options_);
  }
  chief_heard_ = tools_.clock.now();
  if (own_.network != nullptr) delayed_send(this, options_.membership.heartbeat, tick_atom::value);
  if (chief_) request_join();
  return {
      [this](control_atom, const std::string&, const Control& message) { control(message); },
      [this](marker_atom, const std::string& from, std::uint64_t number) {
        std::uint64_t& newest = markers_[from];
        newest = std::max(newest, number);
        advance_cut();
      },
      [this](found_atom, const std::string& node, std::uint64_t) {
        if (node != kChiefNode) return;
        connected_ = true;
        request_join();
      },
      [this](lost_atom, const std::string& node, std::uint64_t) {
        if (node == kChiefNode) member_ = connected_ = false;
      },
      [this](tick_atom) { tick(); },
      [this](expire_atom, std::uint64_t cut_number) { cut_timed_out(cut_number); },
      [this](up_atom, const std::string& name) {
        if (Instance* const instance = named(name)) {
          instance->up = true;
          to_chief(about(ControlKind::kUp, *instance));
        }
      },
      [this](done_atom, const std::string& name) {
        if (Instance* const instance = named(name)) {
          instance->id.done = true;
          to_chief(about(ControlKind::kDone, *instance));
        }
      },
      [this](group_atom, const std::string& name, std::uint64_t epoch, const std::string& why) {
        if (const Instance* const instance = named(name)) {
          Control regroup = about(ControlKind::kRegroup, *instance);
          regroup.number = epoch;
          regroup.text = why;
          to_chief(std::move(regroup));
        }
      },
      [this](failed_atom, const Failure& failure) {
        if (Instance* const instance = named(failure.instance)) {
          instance->failure = failure.error;
          if (failure.error.code == Code::kLost) lose(failure.error.message);
        }
      },
      [this](lost_atom, const std::string& why) {
        own_.on_lost ? own_.on_lost(why) : end(Error{Code::kLost, why});
      },
      [this](paused_atom, const std::string& name) { paused(name); },
      [this](const SavedMessage& message) { instance_saved(message); },
      [this](saved_atom, const SavedMessage& message) { instance_saved(message); },
      [this](written_atom, const WrittenMessage& message) { part_written(message); },
      [this](check_atom, const PartsChecked& message) { parts_checked(message); },
      [this](const InstanceStatus& message) { status(message); },
      [this](status_atom, std::uint64_t round) {
        if (round == status_round_) answer_status();
      },
      [this](stop_atom) { leave(); },
      [this](stop_atom, bool) { end(std::nullopt); },
  };
}

void NodeActor::on_exit() {
  instances_.clear();
  cut_.reset();
  if (writer_) anon_send(writer_, stop_atom::value);
  tools_.routes.clear();
  chief_ = nullptr;
  listener_ = nullptr;
  writer_ = nullptr;
}

// ---- the chief ----

void NodeActor::to_chief(Control control) {
  control.node = own_.self.node;
  control.birth = own_.birth;
  control.term = term_;
  control.incarnation = incarnation_;
  if (chief_) return send(chief_, control_atom::value, own_.self.node, std::move(control));
  // With the connection comes the join, so all that follows on it finds the chief informed, welcome or not yet.
  if (connected_) own_.network->send(kChiefNode, std::move(control));
}

void NodeActor::request_join() {
  ++joins_;
  requested_ = tools_.clock.now();
  join_pause_ = kJoinAgain;
  join();
}

void NodeActor::join() {
  member_ = false;
  last_join_ = tools_.clock.now();
  Control join;
  join.kind = ControlKind::kJoin;
  join.number = joins_;
  join.protocol = messages::kControlProtocol;
  join.config_hash = own_.config_hash;
  join.nodes = {own_.address};
  join.texts = own_.self.roles;
  join.text = own_.host;
  join.counters = {{"instances", own_.elastic_instances}};
  for (const auto& [name, instance] : instances_) {
    if (instance.up) join.instances.push_back(instance.id);
  }
  to_chief(std::move(join));
}

void NodeActor::tick() {
  if (ended_) return;
  const Duration now = tools_.clock.now();
  const Duration late =
      last_tick_ < Duration::zero() ? Duration::zero() : now - last_tick_ - options_.membership.heartbeat;
  last_tick_ = now;
  delayed_send(this, options_.membership.heartbeat, tick_atom::value);
  if (late > options_.membership.heartbeat) chief_heard_ += late;  // we were held up: the silence is ours
  if (late > 5 * options_.membership.heartbeat) {
    log::warn("TRP-W171 this node's timer was {:.1f} s late; peer timeouts extended", seconds(late));
  }
  for (const auto& [name, instance] : instances_) {
    const Duration began{instance.step_began->load(std::memory_order_relaxed)};
    if (own_.step_timeout > Duration::zero() && began >= Duration::zero() && now - began > own_.step_timeout) {
      own_.on_hang(name);
    }
  }
  if (chief_) {
    if (!member_ && now - last_join_ >= kJoinAgain) join();  // the journal could not be written
    return;
  }
  const Duration silent = now - chief_heard_;
  if (silent > own_.orphaned_after) {
    return end(Error{Code::kUnavailable, fmt::format("TRP-E121 no chief for {:.0f} s; ending", seconds(silent))});
  }
  if (incarnation_ == 0 && silent > kFirstWord && !std::exchange(unanswered_, true)) {
    log::warn("TRP-E120 no chief has answered for {:.0f} s; trying on for {:.0f} s", seconds(silent),
              seconds(own_.orphaned_after - silent));
  }
  late_ = std::max(late_, late);
  const bool missed = silent > std::max(options_.membership.dead_after, kMissedAnswers * period_) + 2 * late_;
  if (missed && !chief_missed_ && incarnation_ != 0) {
    log::warn("TRP-E501 chief lost (silent for {:.2f} s); training continues; control commands paused",
              seconds(silent));
  }
  if (!missed && chief_missed_ && incarnation_ != 0) log::info("TRP-I502 the chief is back, term {}", term_);
  chief_missed_ = missed;
  if (missed && cut_) spoil_cut(fmt::format("no word from the chief for {:.2f} s", seconds(silent)));
  if (member_) {
    if (now < next_beat_) return;
    next_beat_ = now + period_ - options_.membership.heartbeat / 2;  // the tick that comes next to it
    Control alive;
    alive.kind = ControlKind::kAlive;
    alive.number = ++beats_;
    alive.late_ms = static_cast<std::uint32_t>(
        std::chrono::duration_cast<std::chrono::milliseconds>(std::exchange(late_, Duration::zero())).count());
    to_chief(std::move(alive));
  } else if (connected_ && now - last_join_ >= join_pause_) {
    if (now - requested_ >= kJoinAfresh) return request_join();
    join_pause_ = std::min(2 * join_pause_, kJoinAgainMost);
    join();
  }
}

void NodeActor::set_heartbeat(std::uint64_t period_ms) {
  period_ = std::max<Duration>(options_.membership.heartbeat, std::chrono::milliseconds(period_ms));
}

void NodeActor::control(const Control& message) {
  if (ended_ || message.birth != own_.birth) return;
  if (message.term < term_) {
    log::warn("TRP-W112 a chief of term {} speaks, but term {} has begun: ignored", message.term, term_);
    return;
  }
  chief_heard_ = tools_.clock.now();
  // Between a connection and the welcome on it orders may be missing: whatever comes is repeated after the welcome.
  if (!member_ && message.kind != ControlKind::kWelcome && message.kind != ControlKind::kRefuse &&
      message.kind != ControlKind::kEnd) {
    return;
  }
  switch (message.kind) {
    case ControlKind::kWelcome:
      if (cut_) spoil_cut("the connection to the chief broke");
      term_ = message.term;
      incarnation_ = message.incarnation;
      member_ = true;
      put_off_ = false;
      return set_heartbeat(message.number);
    case ControlKind::kHeard:
      return set_heartbeat(message.number);
    case ControlKind::kRefuse:
      if (message.fenced) return end(Error{Code::kCancelled, message.text});
      if (message.code == Code::kUnavailable) {
        if (!std::exchange(put_off_, true)) log::warn("node {} waits: {}", own_.self.node, message.text);
        join_pause_ = kJoinAgain;
        return;
      }
      return end(Error{message.code, message.text});
    case ControlKind::kNodes:
      if (own_.network == nullptr) return;
      return message.resume ? own_.network->know(message.nodes) : own_.network->know_more(message.nodes, message.texts);
    case ControlKind::kSpawn:
      return spawn_instance(message);
    case ControlKind::kWire:
      return wire(message);
    case ControlKind::kUnwire:
      return unwire(message);
    case ControlKind::kStart:
      for (const auto& id : message.instances) {
        if (Instance* instance = find(id.role, id.index); instance != nullptr && !instance->started) {
          instance->started = true;
          if (live_) send(instance->actor, live_atom::value, live_);
          send(instance->actor, start_atom::value);
        }
      }
      return;
    case ControlKind::kCut:
      keep_parts(message);
      return begin_cut(message);
    case ControlKind::kResume:
      if (!cut_ || cut_->number > message.number) return;
      cut_ended_ = cut_->number;
      return end_cut();
    case ControlKind::kLive:
      live_ = std::make_shared<const std::vector<std::string>>(message.texts);
      for (const auto& [name, instance] : instances_) {
        if (instance.started) send(instance.actor, live_atom::value, live_);
      }
      return;
    case ControlKind::kGroup:
      tools_.groups.view(message);
      for (const auto& id : message.instances) {
        if (const Instance* instance = find(id.role, id.index)) send(instance->actor, group_atom::value);
      }
      return;
    case ControlKind::kAskStatus:
      return ask_status();
    case ControlKind::kCommit:
      keep_parts(message);
      committed(message.number);
      return cut_over(message.number);
    case ControlKind::kCheck:
      return check_parts(message);
    case ControlKind::kEnd:
      return end(error_of(message));
    default:
      return;
  }
}

void NodeActor::leave() {
  // A cut fails without us; so does the last one, if all nodes of the run are asked to end at once.
  if (uncommitted_ == 0 || ended_) return end(std::nullopt);
  leaving_ = true;
  delayed_send(this, kLeaveWithin, stop_atom::value, true);
}

void NodeActor::cut_over(std::uint64_t number) {
  if (number < uncommitted_) return;
  uncommitted_ = 0;
  if (leaving_) end(std::nullopt);
}

void NodeActor::end(std::optional<Error> error) {
  if (ended_) return;
  ended_ = *ending_ = true;
  tools_.groups.vacate("the node ends");
  for (const auto& [name, instance] : instances_) send(instance.actor, stop_atom::value);
  if (own_.network != nullptr && !chief_) {
    Control leave;
    leave.kind = ControlKind::kLeave;
    to_chief(std::move(leave));
  }
  const bool stopped = !error;
  if (listener_ && !chief_) send(listener_, ended_atom::value, RunEnded{std::move(error), stopped});
  quit();
}

// ---- instances ----

Control NodeActor::about(ControlKind kind, const Instance& instance) {
  Control control;
  control.kind = kind;
  control.instances = {instance.id};
  return control;
}

NodeActor::Instance* NodeActor::named(const std::string& instance) {
  const auto found = instances_.find(instance);
  return found == instances_.end() ? nullptr : &found->second;
}

NodeActor::Instance* NodeActor::find(const std::string& role, std::uint32_t index) {
  for (auto& [name, instance] : instances_) {
    if (instance.id.role == role && instance.id.index == index) return &instance;
  }
  return nullptr;
}

std::string NodeActor::name_of(const messages::ControlInstance& id) const {
  const RoleSpec* const role = tools_.topology.find(id.role);
  return RoleIdentity{id.role, id.index, role == nullptr ? 0 : role->count}.name();
}

void NodeActor::spawn_instance(const Control& order) {
  const messages::ControlInstance& id = order.instances.front();
  const RoleSpec* const role = tools_.topology.find(id.role);
  if (role == nullptr || lost_) return;
  if (const Instance* running = find(id.role, id.index)) {
    if (running->id.incarnation >= id.incarnation) return;
    send(running->actor, stop_atom::value);
  }
  const std::string name = name_of(id);
  Instance instance;
  instance.id = id;
  instance.step_began = std::make_shared<std::atomic<Duration::rep>>(-1);
  InstanceOptions options;
  options.identity = {id.role,
                      id.index,
                      role->count,
                      id.incarnation,
                      derive_seed(options_.seed, id.role, id.index),
                      own_.directory.empty() ? std::filesystem::path() : own_.directory / name,
                      order.resume,
                      options_.run_directory,
                      tools_.groups.join(id.role, id.index),
                      own_.network != nullptr ? own_.network->frame_memory() : nullptr};
  options.number = id.number;
  options.topology = &tools_.topology;
  options.clock = &tools_.clock;
  options.pool = &tools_.pool;
  options.network = own_.network;
  options.report_period = tools_.topology.reports ? options_.report_period : Duration::zero();
  options.step_began = instance.step_began;
  options.ending = ending_;
  if (order.number != 0 && own_.load) {
    options.load = [load = own_.load, name, cut = order.number,
                    resume = order.resume]() -> Result<std::shared_ptr<const InstanceState>> {
      TROUPE_ASSIGN(auto state, load(name, cut));
      if (state == nullptr || resume) return state;
      // Frames that waited then have been sent again, or replaced by newer ones, since.
      auto alone = std::make_shared<InstanceState>(*state);
      alone->waiting.clear();
      return std::shared_ptr<const InstanceState>(std::move(alone));
    };
  }
  const caf::actor self = caf::actor_cast<caf::actor>(this);
  if (role->execution == Execution::kThread && !options_.deterministic) {
    // More busy threads than processors: the chief, the links and who waits for the data come first.
    options.goes_behind =
        role->goes_behind && own_.network != nullptr && role->count > std::int64_t{std::thread::hardware_concurrency()};
    instance.actor = spawn<RoleActor, caf::detached>(std::move(options), self);
  } else {
    instance.actor = spawn<RoleActor>(std::move(options), self);
  }
  monitor(instance.actor);
  tools_.routes.add(id.role, id.index, id.number, instance.actor);
  instances_[name] = std::move(instance);
}

void NodeActor::went_down(const caf::actor_addr& address, const caf::error& reason) {
  const auto found = std::find_if(instances_.begin(), instances_.end(),
                                  [&](const auto& entry) { return entry.second.actor.address() == address; });
  if (found == instances_.end() || ended_) return;
  Instance& instance = found->second;
  Control failed =
      with_error(ControlKind::kFailed,
                 instance.failure.value_or(
                     Error{Code::kInternal, fmt::format("{} went down: {}", found->first, system().render(reason))}));
  failed.instances = {instance.id};
  tools_.routes.remove(instance.id.role, instance.id.index);
  tools_.groups.leave(instance.id.role, instance.id.index);
  instances_.erase(found);
  to_chief(std::move(failed));
}

void NodeActor::lose(const std::string& why) {
  // The chief's own process is not replaced while the run goes on: the chief ends the run.
  if (chief_ || std::exchange(lost_, true)) return;
  // Not when the instance is gone: what it has of the device may take for ever to be given back.
  delayed_send(this, kLastWords, lost_atom::value, why);
}

void NodeActor::wire(const Control& order) {
  const messages::ControlInstance& whom = order.instances.front();
  Instance* const instance = find(whom.role, whom.index);
  if (instance == nullptr || instance->id.incarnation != whom.incarnation) return;
  std::vector<Peer> peers;
  for (const messages::ControlEdge& edge : order.edges) {
    Peer peer{{edge.channel, edge.producer, edge.consumer}, edge.peer_produces, edge.peer_incarnation, {}};
    if (edge.peer_node == own_.self.node) {
      // A report edge names the producer by its number; its consumer is the one instance of its role.
      const Instance* local = nullptr;
      for (const auto& [name, other] : instances_) {
        const bool by_number = edge.channel == kReportChannel && edge.peer_produces;
        const std::uint32_t index = edge.channel == kReportChannel ? 0
                                    : edge.peer_produces           ? edge.producer
                                                                   : edge.consumer;
        if (by_number ? other.id.number == edge.producer : other.id.role == edge.peer_role && other.id.index == index) {
          local = &other;
        }
      }
      if (local == nullptr || local->id.incarnation != edge.peer_incarnation) continue;
      peer.address.actor = local->actor;
    } else {
      peer.address.node = edge.peer_node;
      instance->peer_nodes[{peer.edge, edge.peer_produces}] = edge.peer_node;
      tools_.routes.expect(peer.edge, edge.peer_produces, edge.peer_node);
    }
    peers.push_back(std::move(peer));
  }
  send(instance->actor, wire_atom::value, std::move(peers));
}

void NodeActor::unwire(const Control& order) {
  const messages::ControlInstance& whom = order.instances.front();
  Instance* const instance = find(whom.role, whom.index);
  if (instance == nullptr || instance->id.incarnation != whom.incarnation) return;
  for (const messages::ControlEdge& edge : order.edges) {
    const EdgeId id{edge.channel, edge.producer, edge.consumer};
    instance->peer_nodes.erase({id, edge.peer_produces});  // from there no marker will come
    send(instance->actor, unwire_atom::value, id, edge.peer_produces, edge.peer_incarnation);
  }
}

}  // namespace troupe::actors
