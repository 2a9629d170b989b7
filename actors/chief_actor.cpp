#include <troupe/actors/chief_actor.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include <troupe/core/check.hpp>
#include <troupe/core/log.hpp>

namespace troupe::actors {
namespace {

using messages::Control;
using messages::ControlKind;

constexpr Duration kStatusPeriod = std::chrono::seconds(1);

/// How long a chief that ends waits for the nodes to have heard of it.
constexpr Duration kLeaveDeadline = std::chrono::seconds(3);

Control order(ControlKind kind) {
  Control control;
  control.kind = kind;
  return control;
}

Control refusal(Code code, std::string text) {
  Control control = order(ControlKind::kRefuse);
  control.code = code;
  control.text = std::move(text);
  return control;
}

}  // namespace

ChiefActor::ChiefActor(caf::actor_config& config, ChiefOptions options, caf::actor listener)
    : caf::event_based_actor(config),
      options_(std::move(options)),
      listener_(std::move(listener)),
      membership_(options_.membership),
      journal_(options_.earlier) {
  ++journal_.term;
  journal_.last_cut = std::max(journal_.last_cut, options_.resume_cut);
  journal_.cuts_begun = std::max(journal_.cuts_begun, journal_.last_cut);
  for (const PlacedNode& node : options_.placement) {
    const auto known = journal_.nodes.find(node.name);
    membership_.expect(node.name, known == journal_.nodes.end() ? 0 : known->second);
    for (const auto& share : node.shares) {
      for (const std::uint32_t index : share.indices) add_instance(share.role, index, node.name);
    }
  }
}

caf::behavior ChiefActor::make_behavior() {
  save_journal_now();
  if (options_.checkpoint_period > Duration::zero()) {
    delayed_send(this, options_.checkpoint_period, checkpoint_atom::value, true);
  }
  if (options_.network != nullptr) {
    delayed_send(this, options_.membership.heartbeat, tick_atom::value);
    delayed_send(this, kStatusPeriod, status_atom::value, true);
  }
  return {
      [this](control_atom, const std::string& node, const Control& message) { from_node(node, message); },
      [this](lost_atom, const std::string& node) {
        membership_.lost(node, options_.clock->now());
        has_left(node);
      },
      [this](found_atom, const std::string&) {},  // it joins
      [this](tick_atom) { tick(); },
      [this](retry_atom, std::uint32_t number) { restart(number); },
      [this](retry_atom, std::uint64_t cut, bool) {
        if (cut_ && cut_->number == cut && !cut_->ordered) order_cut();
      },
      [this](checkpoint_atom) {
        auto promise = make_response_promise();
        if (cut_) {
          next_cut_.push_back(promise);
        } else {
          begin_cut(promise);
        }
        return promise;
      },
      [this](checkpoint_atom, bool) {
        delayed_send(this, options_.checkpoint_period, checkpoint_atom::value, true);
        if (cut_ && cut_->captured)
          log::warn("TRP-W602 checkpoint {} is still being written; one is skipped", cut_->number);
        if (cut_) return;
        begin_cut(std::nullopt);
      },
      [this](expire_atom, std::uint64_t number) {
        if (!cut_ || cut_->number != number) return;
        const auto& due = cut_->captured ? cut_->writing : cut_->capturing;
        end_cut(Error{Code::kDeadlineExceeded, fmt::format("cut: no answer from node {}", fmt::join(due, ", "))});
      },
      [this](status_atom) {
        auto promise = make_response_promise();
        status_promises_.push_back(promise);
        ask_status();
        return promise;
      },
      [this](status_atom, bool) {
        if (status_due_.empty()) ask_status();
        delayed_send(this, kStatusPeriod, status_atom::value, true);
      },
      [this](status_atom, std::uint64_t round) {
        if (round == status_round_) finish_status();
      },
      [this](stop_atom) {
        if (std::exchange(stopping_, true)) return;
        ended_ = true;
        for (const auto& [name, node] : membership_.nodes()) {
          if (node.state != Membership::State::kUp) continue;
          to_node(name, order(ControlKind::kEnd));
          if (remote(name)) leaving_.insert(name);
        }
        // Until they have heard it, or are gone: the network ends with us.
        delayed_send(this, kLeaveDeadline, stop_atom::value, true);
        has_left({});
      },
      [this](stop_atom, bool) { quit(); },
  };
}

void ChiefActor::on_exit() {
  instances_.clear();
  cut_.reset();
  own_node_ = nullptr;
  listener_ = nullptr;
}

void ChiefActor::save_journal_now() {
  if (options_.journal.empty()) return;
  if (Status saved = save_journal(options_.journal, journal_); !saved.ok()) {
    log::error("TRP-E503 the chief's journal cannot be written: {}", saved.error().message);
  }
}

void ChiefActor::end_run(RunEnded ended) {
  if (ended_) return;
  ended_ = true;
  if (cut_ && ended.error) end_cut(Error{Code::kCancelled, "cut: the run has failed"});
  send(listener_, ended_atom::value, std::move(ended));
}

// ---- nodes ----

void ChiefActor::to_node(const std::string& node, Control message) {
  message.term = journal_.term;
  if (!remote(node)) {
    if (own_node_) send(own_node_, control_atom::value, options_.node, std::move(message));
  } else if (options_.network != nullptr) {
    options_.network->send(node, std::move(message));
  }
}

void ChiefActor::from_node(const std::string& node, const Control& message) {
  const Duration now = options_.clock->now();
  if (node == kOperator) {
    if (message.kind == ControlKind::kAskStatus) {
      operator_waits_ = true;
      ask_status();
    } else if (message.kind == ControlKind::kEnd) {
      log::info("TRP-I001 stopping: {}", message.text);
      send(listener_, ended_atom::value, RunEnded{std::nullopt, true});
      to_node(kOperator, order(ControlKind::kEnd));
    }
    return;
  }
  if (message.kind == ControlKind::kJoin) return join(node, message);
  const Membership::Node* const known = membership_.find(node);
  if (known == nullptr || known->state != Membership::State::kUp || known->incarnation != message.incarnation) {
    // It does not know yet that it was declared dead, or a newer process has its name.
    if (known != nullptr && known->state == Membership::State::kDead && remote(node)) {
      Control fenced = refusal(Code::kCancelled, fmt::format("TRP-F111 this process was declared dead (incarnation {} "
                                                             "of {}); exiting so that it cannot write",
                                                             message.incarnation, node));
      fenced.fenced = true;
      to_node(node, std::move(fenced));
    }
    return;
  }
  membership_.heard(node, now);
  switch (message.kind) {
    case ControlKind::kAlive: {
      Control heard = order(ControlKind::kHeard);
      heard.number = message.number;
      return to_node(node, std::move(heard));
    }
    case ControlKind::kUp:
    case ControlKind::kDone:
    case ControlKind::kFailed: {
      if (message.instances.empty()) return;
      Instance* const instance = find(message.instances.front());
      if (instance == nullptr || instance->node != node ||
          instance->id.incarnation != message.instances.front().incarnation) {
        return;
      }
      if (message.kind == ControlKind::kUp) return came_up(*instance);
      if (message.kind == ControlKind::kFailed) {
        return went_down(*instance, Error{message.code, message.text}, false);
      }
      instance->id.done = true;
      tell_live();
      return finished(*instance);
    }
    case ControlKind::kCaptured:
    case ControlKind::kWritten:
      return cut_answer(message, node);
    case ControlKind::kStatus: {
      auto statuses = statuses_from_json(message.text);
      if (!statuses.ok()) return log::warn("status of node {}: {}", node, statuses.error().message);
      for (InstanceStatus& status : *statuses) {
        for (Instance& instance : instances_) {
          if (instance.name != status.instance || instance.node != node) continue;
          if (status_shifts_) instance.before = std::move(instance.own);
          instance.own = std::move(status);
          break;
        }
      }
      status_due_.erase(node);
      if (status_due_.empty()) finish_status();
      return;
    }
    case ControlKind::kLeave:
      membership_.left(node);
      has_left(node);
      log::info("node {} has left", node);
      return node_gone(node, "it has left");
    default:
      return;
  }
}

void ChiefActor::join(const std::string& node, const Control& message) {
  const Duration now = options_.clock->now();
  if (message.protocol != messages::kControlProtocol) {
    return to_node(node, refusal(Code::kInvalidArgument,
                                 fmt::format("TRP-E160 peer speaks protocol {}, this node {}: upgrade one of them",
                                             message.protocol, messages::kControlProtocol)));
  }
  if (message.config_hash != options_.config_hash) {
    return to_node(node, refusal(Code::kInvalidArgument,
                                 fmt::format("TRP-E162 node {} has another configuration than the run (hash {:016x}, "
                                             "expected {:016x}): start it with the run's config.toml",
                                             node, message.config_hash, options_.config_hash)));
  }
  const bool placed = std::any_of(options_.placement.begin(), options_.placement.end(),
                                  [&](const PlacedNode& p) { return p.name == node; });
  if (!placed && (options_.elastic_role.empty() || std::find(message.texts.begin(), message.texts.end(),
                                                             options_.elastic_role) == message.texts.end())) {
    return to_node(node,
                   refusal(Code::kInvalidArgument, fmt::format("TRP-E163 node {} is not part of this run", node)));
  }
  switch (membership_.join(node, message.birth, message.incarnation, now)) {
    case Membership::Verdict::kFenced: {
      Control fenced = refusal(Code::kCancelled,
                               fmt::format("TRP-F111 this process was declared dead (incarnation {} of {}); exiting so "
                                           "that it cannot write",
                                           message.incarnation, node));
      fenced.fenced = true;
      return to_node(node, std::move(fenced));
    }
    case Membership::Verdict::kTaken: {
      const auto& holder = addresses_[node];
      return to_node(node, refusal(Code::kUnavailable,
                                   fmt::format("TRP-E161 node id {} is already in use by {}:{} (incarnation {})", node,
                                               holder.host, holder.port, membership_.find(node)->incarnation)));
    }
    case Membership::Verdict::kNew:
    case Membership::Verdict::kAgain:
      break;
  }
  const std::uint32_t incarnation = membership_.find(node)->incarnation;
  if (!message.nodes.empty()) addresses_[node] = message.nodes.front();
  addresses_[node].name = node;
  addresses_[node].incarnation = incarnation;
  if (!remote(node)) own_node_ = caf::actor_cast<caf::actor>(current_sender());
  journal_.nodes[node] = incarnation;
  if (!placed &&
      std::none_of(instances_.begin(), instances_.end(), [&](const Instance& i) { return i.node == node; })) {
    // A node that was not planned: it gets the next free index of the elastic role.
    std::uint32_t index = 0;
    for (const Instance& instance : instances_) {
      if (instance.id.role == options_.elastic_role) index = std::max(index, instance.id.index + 1);
    }
    add_instance(options_.elastic_role, index, node).elastic = true;
  }
  for (Instance& instance : instances_) {
    if (instance.node != node) continue;
    const auto running =
        std::find_if(message.instances.begin(), message.instances.end(), [&](const messages::ControlInstance& id) {
          return id.role == instance.id.role && id.index == instance.id.index;
        });
    if (running == message.instances.end()) continue;
    // A chief that has just come back would spawn it with the next incarnation, but it lives: it keeps its own.
    const bool adopted = !instance.resumed && running->incarnation + 1 == instance.id.incarnation;
    instance.id.incarnation = adopted ? running->incarnation : std::max(instance.id.incarnation, running->incarnation);
    instance.id.number = running->number;
    instance.id.done = running->done;
    instance.resumed = true;
    journal_.instances[instance.name] = instance.id.incarnation;
  }
  save_journal_now();
  Control welcome = order(ControlKind::kWelcome);
  welcome.incarnation = incarnation;
  to_node(node, std::move(welcome));
  tell_nodes();
  for (Instance& instance : instances_) {
    if (instance.node != node) continue;
    const bool runs = std::any_of(message.instances.begin(), message.instances.end(), [&](const auto& id) {
      return id.role == instance.id.role && id.index == instance.id.index;
    });
    if (runs) {
      came_up(instance);
      if (instance.id.done) finished(instance);
    } else if (instance.state == State::kWaitingForNode || instance.state == State::kStarting) {
      spawn(instance);
    } else if (instance.state == State::kUp) {
      // It died there while we did not hear of it.
      went_down(instance, Error{Code::kUnavailable, instance.name + ": ended while the chief was away"}, false);
    }
  }
  if (remote(node)) log::info("node {} has joined (incarnation {})", node, incarnation);
}

void ChiefActor::has_left(const std::string& node) {
  leaving_.erase(node);
  if (stopping_ && leaving_.empty()) quit();
}

void ChiefActor::tell_nodes() {
  if (options_.network == nullptr) return;
  Control nodes = order(ControlKind::kNodes);
  for (const auto& [name, node] : membership_.nodes()) {
    if (node.state == Membership::State::kUp) nodes.nodes.push_back(addresses_[name]);
    // A chief that has just come back has not heard of all nodes yet: what they have among themselves must stay.
    if (node.state == Membership::State::kExpected && node.incarnation > 0) {
      nodes.nodes.push_back({name, node.incarnation, "", 0});
    }
  }
  for (const messages::ControlNode& node : nodes.nodes) {
    if (node.port != 0 || !remote(node.name)) to_node(node.name, nodes);
  }
}

void ChiefActor::tick() {
  if (ended_) return;
  delayed_send(this, options_.membership.heartbeat, tick_atom::value);
  const Duration now = options_.clock->now();
  membership_.heard(options_.node, now);
  for (const Membership::Death& death : membership_.tick(now)) {
    const std::string why = death.closed ? std::string("its connection closed")
                                         : fmt::format("silent for {:.2f} s (limit {:.2f} s)", death.silent_s,
                                                       seconds(options_.membership.dead_after));
    std::string names;
    for (const Instance& instance : instances_) {
      if (instance.node == death.name) names += (names.empty() ? "" : ", ") + instance.name;
    }
    log::warn("{} node {} is dead: {}; waiting for its next process to run {}", death.closed ? "TRP-E101" : "TRP-E110",
              death.name, why, names);
    node_gone(death.name, why);
  }
}

void ChiefActor::node_gone(const std::string& node, const std::string& why) {
  for (Instance& instance : instances_) {
    if (instance.node != node || instance.state == State::kWaitingForNode) continue;
    went_down(instance, Error{Code::kUnavailable, fmt::format("{}: its node died: {}", instance.name, why)}, true);
  }
  status_due_.erase(node);
  if (cut_ && cut_->nodes.contains(node))
    end_cut(Error{Code::kUnavailable, fmt::format("cut: node {} went down", node)});
  tell_nodes();
}

// ---- instances ----

ChiefActor::Instance& ChiefActor::add_instance(const std::string& role, std::uint32_t index, const std::string& node) {
  const RoleSpec* const spec = options_.topology->find(role);
  TROUPE_CHECK(spec != nullptr, "placement: no role {}", role);
  Instance instance;
  instance.id = {role, index, 0, static_cast<std::uint32_t>(instances_.size()), false};
  instance.name = RoleIdentity{role, index, spec->count}.name();
  instance.node = node;
  instance.spec = spec;
  const auto known = journal_.instances.find(instance.name);
  if (known != journal_.instances.end()) instance.id.incarnation = known->second + 1;
  instances_.push_back(std::move(instance));
  return instances_.back();
}

ChiefActor::Instance* ChiefActor::find(const messages::ControlInstance& id) {
  for (Instance& instance : instances_) {
    if (instance.id.role == id.role && instance.id.index == id.index) return &instance;
  }
  return nullptr;
}

void ChiefActor::spawn(Instance& instance) {
  instance.state = State::kStarting;
  journal_.instances[instance.name] = instance.id.incarnation;
  save_journal_now();
  Control spawn = order(ControlKind::kSpawn);
  spawn.instances = {instance.id};
  if (options_.resume_cut != 0 && !instance.resumed) {
    spawn.number = options_.resume_cut;
    spawn.resume = true;
  } else if (instance.id.incarnation > 0 && instance.spec->restart.from == RestartFrom::kLastCut) {
    spawn.number = journal_.last_cut;
  }
  instance.resumed = true;
  to_node(instance.node, std::move(spawn));
}

template <typename Each>
void ChiefActor::for_each_edge(const Instance& self, Each each) const {
  for (const Instance& other : instances_) {
    if (other.state != State::kUp) continue;
    for (std::uint32_t c = 0; c < options_.topology->channels.size(); ++c) {
      const ChannelSpec& channel = options_.topology->channels[c];
      if (channel.to_role == self.id.role && channel.from_role == other.id.role) {
        each(other, EdgeId{c, other.id.index, self.id.index}, true);
      }
      if (channel.from_role == self.id.role && channel.to_role == other.id.role) {
        each(other, EdgeId{c, self.id.index, other.id.index}, false);
      }
    }
    if (const auto& reports = options_.topology->reports) {
      if (self.id.role == reports->role) each(other, EdgeId{kReportChannel, other.id.number, 0}, true);
      if (other.id.role == reports->role) each(other, EdgeId{kReportChannel, self.id.number, 0}, false);
    }
  }
}

namespace {

messages::ControlEdge edge_to(const messages::ControlInstance& peer, const std::string& node, const EdgeId& edge,
                              bool peer_produces) {
  return {edge.channel, edge.producer, edge.consumer, peer_produces, peer.incarnation, node, peer.role};
}

}  // namespace

void ChiefActor::wire(const Instance& instance) {
  Control own = order(ControlKind::kWire);
  own.instances = {instance.id};
  for_each_edge(instance, [&](const Instance& other, const EdgeId& edge, bool other_produces) {
    own.edges.push_back(edge_to(other.id, other.node, edge, other_produces));
    if (&other == &instance) return;
    Control theirs = order(ControlKind::kWire);
    theirs.instances = {other.id};
    theirs.edges = {edge_to(instance.id, instance.node, edge, !other_produces)};
    to_node(other.node, std::move(theirs));
  });
  to_node(instance.node, std::move(own));
}

void ChiefActor::came_up(Instance& instance) {
  instance.state = State::kUp;
  wire(instance);
  tell_live();
  Control start = order(ControlKind::kStart);
  start.instances = {instance.id};
  to_node(instance.node, std::move(start));
}

void ChiefActor::went_down(Instance& instance, const Error& error, bool with_its_node) {
  if (ended_) return;
  const bool was_up = instance.state == State::kUp;
  instance.state = State::kWaitingForNode;
  instance.error = error.message;
  instance.own.reset();
  if (was_up) {
    for_each_edge(instance, [&](const Instance& other, const EdgeId& edge, bool other_produces) {
      Control theirs = order(ControlKind::kUnwire);
      theirs.instances = {other.id};
      theirs.edges = {edge_to(instance.id, instance.node, edge, !other_produces)};
      to_node(other.node, std::move(theirs));
    });
    tell_live();
  }
  if (cut_ && cut_->ordered && !cut_->captured) {
    end_cut(Error{Code::kUnavailable, fmt::format("cut: {} went down", instance.name)});
  }
  if (membership_.find(instance.node)->state == Membership::State::kLeft && instance.elastic) return;

  const RestartPolicy& policy = instance.spec->restart;
  const Duration now = options_.clock->now();
  std::erase_if(instance.recent, [&](Duration at) { return now - at > policy.window; });
  const int recent = static_cast<int>(instance.recent.size());
  if (recent >= policy.max_restarts) {
    const std::string budget = policy.max_restarts == 0 ? "" : fmt::format(" (after {} restarts)", recent);
    const bool others = std::any_of(instances_.begin(), instances_.end(), [&](const Instance& other) {
      return &other != &instance && other.id.role == instance.id.role && other.state != State::kQuarantined;
    });
    if (!policy.quarantine || !others) return end_run({Error{error.code, error.message + budget}});
    instance.state = State::kQuarantined;
    log::error("TRP-E151 {} is quarantined: {}{}; the run goes on without it", instance.name, error.message, budget);
    return;
  }
  instance.recent.push_back(now);
  ++instance.restarts;
  ++instance.id.incarnation;
  instance.id.done = false;
  if (with_its_node) return;  // the node's next process runs it at once
  // Doubling stops early, before it could overflow.
  Duration backoff = policy.first_backoff;
  for (int i = 0; i < recent && backoff < policy.max_backoff; ++i) backoff *= 2;
  backoff = std::min(backoff, policy.max_backoff);
  instance.state = State::kRestarting;
  log::warn("TRP-E101 {}; restarting it as incarnation {} in {:.1f} s ({} of {})", error.message,
            instance.id.incarnation, seconds(backoff), recent + 1, policy.max_restarts);
  delayed_send(this, backoff, retry_atom::value, instance.id.number);
}

void ChiefActor::restart(std::uint32_t number) {
  if (ended_) return;
  const auto found = std::find_if(instances_.begin(), instances_.end(),
                                  [&](const Instance& instance) { return instance.id.number == number; });
  if (found == instances_.end() || found->state != State::kRestarting) return;
  if (cut_ && cut_->ordered && !cut_->captured) {
    // Coming up in the middle of a cut it would be neither paused nor saved: wait until the cut is over.
    delayed_send(this, std::chrono::milliseconds(10), retry_atom::value, number);
    return;
  }
  if (!membership_.up(found->node)) {
    found->state = State::kWaitingForNode;
    return;
  }
  spawn(*found);
}

void ChiefActor::finished(const Instance& instance) {
  if (!instance.spec->completes_run) return;
  const bool all = std::all_of(instances_.begin(), instances_.end(), [&](const Instance& other) {
    return other.id.role != instance.id.role || other.id.done || other.elastic || other.state == State::kQuarantined;
  });
  if (all) end_run({});
}

void ChiefActor::tell_live() {
  std::set<std::string> roles;
  for (const Instance& instance : instances_) {
    if (instance.state == State::kUp && !instance.id.done) roles.insert(instance.id.role);
  }
  Control live = order(ControlKind::kLive);
  live.texts.assign(roles.begin(), roles.end());
  if (live.texts == live_) return;
  live_ = live.texts;
  for (const auto& [name, node] : membership_.nodes()) {
    if (node.state == Membership::State::kUp) to_node(name, live);
  }
}

}  // namespace troupe::actors
