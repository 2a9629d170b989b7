#include <troupe/actors/chief_actor.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include <troupe/actors/last_resort.hpp>
#include <troupe/core/check.hpp>
#include <troupe/core/log.hpp>
#include <troupe/core/thread_priority.hpp>

namespace troupe::actors {
namespace {

using messages::Control;
using messages::ControlKind;

/// Between two rounds of questions for the status: so long for each node, but never less than a second.
constexpr Duration kStatusPeriod = std::chrono::seconds(1);
/// After which a journal that cannot be written is tried again.
constexpr Duration kJournalRetry = std::chrono::milliseconds(200);
constexpr Duration kStatusPerNode = std::chrono::milliseconds(8);

/// How long a chief that ends waits for the nodes to have heard of it.
constexpr Duration kLeaveDeadline = std::chrono::seconds(3);

std::string declared_dead(const std::string& node, std::uint32_t incarnation) {
  return fmt::format("TRP-F111 this process was declared dead (incarnation {} of {}); exiting so that it cannot write",
                     incarnation, node);
}

std::uint64_t in_ms(Duration duration) {
  return static_cast<std::uint64_t>(std::chrono::duration_cast<std::chrono::milliseconds>(duration).count());
}

}  // namespace

Control ChiefActor::order(ControlKind kind) {
  Control control;
  control.kind = kind;
  return control;
}

ChiefActor::ChiefActor(caf::actor_config& config, ChiefOptions options, caf::actor listener)
    : caf::event_based_actor(config),
      options_(std::move(options)),
      listener_(std::move(listener)),
      membership_(options_.membership),
      journal_(options_.earlier) {
  end_process_on_exception(*this);
  ++journal_.term;
  journal_.over.clear();
  // A chief that died between the commit of a cut and its journal has committed it all the same.
  last_ = options_.resume_from.empty() ? options_.committed : options_.resume_from.front();
  if (options_.kept) kept_ = options_.kept();
  for (const std::uint64_t number : kept_) journal_.cuts_begun = std::max(journal_.cuts_begun, number);
  journal_.cuts_begun = std::max({journal_.cuts_begun, journal_.last_cut, last_.number});
  journal_.last_cut = last_.number;
  for (const PlacedNode& node : options_.placement) {
    const auto known = journal_.nodes.find(node.name);
    membership_.expect(node.name, known == journal_.nodes.end() ? 0 : known->second);
    planned_nodes_.insert(node.name);
    for (const auto& share : node.shares) {
      for (const std::uint32_t index : share.indices) add_instance(share.role, index, node.name);
    }
  }
  planned_ = static_cast<std::uint32_t>(instances_.size());
  for (const auto& [node, index] : journal_.joined) {
    const auto known = journal_.nodes.find(node);
    membership_.expect(node, known == journal_.nodes.end() ? 0 : known->second);
    add_instance(options_.elastic_role, index, node);
  }
  if (!options_.resume_from.empty()) begin_choice();
}

caf::behavior ChiefActor::make_behavior() {
  if (!options_.single_threaded) take_short_slices();
  keep_journal();
  last_tick_ = options_.clock->now();
  if (!options_.resume_from.empty() && !choice_) choose();
  if (options_.checkpoint_period > Duration::zero()) {
    delayed_send(this, options_.checkpoint_period, checkpoint_atom::value, true);
  }
  if (options_.network != nullptr) {
    delayed_send(this, options_.membership.heartbeat, tick_atom::value);
    delayed_send(this, kStatusPeriod, status_atom::value, true);
  }
  return {
      [this](control_atom, const std::string& node, const Control& message) { from_node(node, message); },
      [this](lost_atom, const std::string& node, std::uint64_t birth) {
        if (!membership_.lost(node, birth, options_.clock->now())) return;
        broken_.insert(node);
        has_left(node);
      },
      [this](found_atom, const std::string& node, std::uint64_t birth) {
        if (!membership_.found(node, birth)) return;
        if (!ended_ && broken_.contains(node)) return bring_up_to_date(node);
        if (stopping_) to_node(node, order(ControlKind::kEnd));
      },
      [this](tick_atom) { tick(); },
      [this](write_atom) { let_in(); },
      [this](retry_atom, std::uint32_t number) { restart(number); },
      [this](journal_atom) {
        if (!unkept_.empty()) write_journal();
      },
      [this](group_atom, const std::string& role) {
        if (!groups_[role].formed) regroup(*options_.topology->find(role));
      },
      [this](retry_atom, std::uint64_t cut, bool) {
        if (cut_ && cut_->number == cut && !cut_->ordered) order_cut();
      },
      [this](checkpoint_atom, caf::timespan patience) {
        auto promise = make_response_promise();
        if (cut_) {
          next_cut_.push_back(promise);
          if (!cut_->ordered) cut_->give_up = std::min(cut_->give_up, options_.clock->now() + patience);
        } else {
          begin_cut({promise}, patience);
        }
        return promise;
      },
      [this](checkpoint_atom, bool) {
        delayed_send(this, options_.checkpoint_period, checkpoint_atom::value, true);
        if (cut_ && cut_->captured)
          log::warn("TRP-W602 checkpoint {} is still being written; one is skipped", called(cut_->number));
        if (cut_) return;
        begin_cut({}, options_.cut_deadline);
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
        if (superseded()) return;
        if (status_due_.empty()) ask_status();
        const auto nodes = static_cast<std::int64_t>(membership_.up_count());
        delayed_send(this, std::max(kStatusPeriod, nodes * kStatusPerNode), status_atom::value, true);
      },
      [this](status_atom, std::uint64_t round) {
        if (round == status_round_) finish_status();
      },
      [this](stop_atom) {
        if (std::exchange(stopping_, true)) return;
        const bool leads = !superseded();
        ended_ = true;
        journal_.over = over_;
        write_journal();
        for (const auto& [name, node] : membership_.nodes()) {
          if (node.state != Membership::State::kUp || (remote(name) && !leads)) continue;
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

bool ChiefActor::keep_journal() { return unkept_.empty() && write_journal(); }

bool ChiefActor::write_journal() {
  if (!options_.save_journal) return true;
  if (superseded()) return false;
  const Status saved = options_.save_journal(journal_);
  const bool had_trouble = !unkept_.empty();
  unkept_ = saved.ok() ? "" : saved.error().message;
  term_kept_ |= saved.ok();
  if (!saved.ok()) delayed_send(this, kJournalRetry, journal_atom::value);
  if (saved.ok() && had_trouble) log::info("TRP-I503 the chief's journal is written again");
  if (!saved.ok() && !had_trouble) {
    log::error("{}; until it can, no node is let in, no instance is started and no checkpoint is taken",
               journal_trouble());
  }
  return saved.ok();
}

std::string ChiefActor::journal_trouble() const {
  return unkept_.empty() ? "" : fmt::format("TRP-E503 the chief's journal cannot be written: {}", unkept_);
}

bool ChiefActor::superseded() {
  if (!options_.load_journal) return false;
  checked_at_ = options_.clock->now();
  const auto kept = options_.load_journal();
  // A term that we could not write yet may be another chief's by now.
  const std::uint64_t ours = journal_.term - (term_kept_ ? 0 : 1);
  if (!kept.ok() || kept->term <= ours) return false;
  end_run({Error{Code::kCancelled,
                 fmt::format("TRP-F111 a chief of term {} leads this run now (this one: {}); exiting so that this one "
                             "cannot write",
                             kept->term, journal_.term)}});
  return true;
}

void ChiefActor::end_run(RunEnded ended) {
  if (ended_) return;
  ended_ = true;
  failed_ = ended.error.has_value();
  over_ = ended.error ? ended.error->message : "complete";
  if (cut_ && ended.error) end_cut(Error{Code::kCancelled, "cut: the run has failed"});
  send(listener_, ended_atom::value, std::move(ended));
}

// ---- nodes ----

void ChiefActor::to_node(const std::string& node, Control message) {
  message.term = journal_.term;
  // A new process may listen where the one before did: it must not take to heart what that one was told.
  if (const Membership::Node* const known = membership_.find(node); known != nullptr && message.birth == 0) {
    message.birth = known->birth;
  }
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
  // This process may have slept, and another chief may have taken over: then not one order more.
  const Duration awake = std::max(last_tick_, checked_at_);
  if (options_.network != nullptr && now - awake > options_.membership.dead_after && superseded()) return;
  if (message.kind == ControlKind::kJoin) return join(node, message);
  if (std::ranges::find(joining_, node, &Joining::node) != joining_.end()) let_in();  // what it says comes after that
  const Membership::Node* const known = membership_.find(node);
  if (known == nullptr || known->state != Membership::State::kUp || known->incarnation != message.incarnation) {
    // It does not know yet that it was declared dead.
    if (known != nullptr && message.incarnation < known->incarnation && remote(node)) {
      Control fenced = order(ControlKind::kRefuse);
      fenced.birth = message.birth;
      fenced.code = Code::kCancelled;
      fenced.text = declared_dead(node, message.incarnation);
      fenced.fenced = true;
      to_node(node, std::move(fenced));
    }
    return;
  }
  membership_.heard(node, now, message.incarnation, std::chrono::milliseconds(message.late_ms));
  switch (message.kind) {
    case ControlKind::kAlive: {
      unconfirmed_.erase(node);
      Control heard = order(ControlKind::kHeard);
      heard.number = in_ms(membership_.heartbeat());
      return to_node(node, std::move(heard));
    }
    case ControlKind::kRegroup: {
      const std::string& role = message.instances.front().role;
      const auto group = groups_.find(role);
      if (group == groups_.end() || group->second.view.number != message.number) return;  // it has another one already
      if (ended_ || (cut_ && cut_->ordered && !cut_->captured))
        return;  // that is what broke it, and its end brings the next one
      log::warn("group {}: epoch {}.{} broke at {}: {}; another one follows", role, message.number >> 32,
                message.number & 0xffffffff, message.node, message.text);
      group->second.broke =
          fmt::format("epoch {}.{}: {}", message.number >> 32, message.number & 0xffffffff, message.text);
      return regroup(*options_.topology->find(role));
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
    case ControlKind::kChecked:
      return parts_checked(message, node);
    case ControlKind::kStatus: {
      auto statuses = statuses_from_json(message.text);
      if (!statuses.ok()) return log::warn("status of node {}: {}", node, statuses.error().message);
      for (InstanceStatus& status : *statuses) {
        for (const std::size_t place : on_node(node)) {
          Instance& instance = instances_[place];
          if (instance.name != status.instance) continue;
          if (status_shifts_) instance.before = std::move(instance.own);
          instance.own = std::move(status);
          break;
        }
      }
      troubles_[node] = message.texts;
      troubles_[node].resize(std::min(message.texts.size(), kTroublesMax));
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
  if (joining_.empty()) send(this, write_atom::value);  // comes after all that has arrived already
  std::erase_if(joining_,
                [&](const Joining& other) { return other.node == node && other.request.birth == message.birth; });
  joining_.push_back({node, message, remote(node) ? caf::actor() : caf::actor_cast<caf::actor>(current_sender())});
}

void ChiefActor::let_in() {
  std::vector<Joining> all = std::exchange(joining_, {});
  bool news = false;
  std::erase_if(all, [&](Joining& joining) { return !admit(joining, news); });
  const bool kept = !news || keep_journal();
  for (const Joining& joining : all) {
    if (closing()) return;
    kept ? welcome(joining) : put_off(joining);
  }
}

void ChiefActor::refuse(const Joining& joining, Code code, std::string text, bool fenced) {
  Control refusal = order(ControlKind::kRefuse);
  refusal.birth = joining.request.birth;
  refusal.code = code;
  refusal.text = std::move(text);
  refusal.fenced = fenced;
  to_node(joining.node, std::move(refusal));
}

bool ChiefActor::admit(Joining& joining, bool& news) {
  const std::string& node = joining.node;
  const Control& message = joining.request;
  const Duration now = options_.clock->now();
  const auto refuse = [&](Code code, std::string text, bool fenced = false) {
    this->refuse(joining, code, std::move(text), fenced);
    return false;
  };
  if (message.protocol != messages::kControlProtocol) {
    return refuse(Code::kInvalidArgument, fmt::format("TRP-E160 peer speaks protocol {}, this node {}: upgrade one of "
                                                      "them",
                                                      message.protocol, messages::kControlProtocol));
  }
  if (message.config_hash != options_.config_hash) {
    return refuse(Code::kInvalidArgument,
                  fmt::format("TRP-E162 node {} has another configuration than the run (hash {:016x}, "
                              "expected {:016x}): start it with the run's config.toml",
                              node, message.config_hash, options_.config_hash));
  }
  const bool placed = planned_nodes_.contains(node);
  if (!placed && (options_.elastic_role.empty() || std::find(message.texts.begin(), message.texts.end(),
                                                             options_.elastic_role) == message.texts.end())) {
    return refuse(Code::kInvalidArgument, fmt::format("TRP-E163 node {} is not part of this run", node));
  }
  if (remote(node)) {
    for (const std::size_t place : on_node(node)) {
      const Instance& instance = instances_[place];
      if (std::ranges::find(message.texts, instance.id.role) != message.texts.end()) continue;
      return refuse(Code::kInvalidArgument,
                    fmt::format("TRP-E164 node {} is to run {}, but its certificate is for the roles {}", node,
                                instance.name, fmt::join(message.texts, "+")));
    }
  }
  if (!unkept_.empty()) {
    put_off(joining);
    return false;
  }
  const Membership::Node* const before = membership_.find(node);
  joining.again = before != nullptr && before->state == Membership::State::kUp && before->birth == message.birth;
  joining.verdict = membership_.join(node, message.birth, message.incarnation, now);
  switch (joining.verdict) {
    case Membership::Verdict::kFenced:
      return refuse(Code::kCancelled, declared_dead(node, message.incarnation), true);
    case Membership::Verdict::kTaken: {
      const auto& holder = addresses_[node];
      return refuse(Code::kUnavailable,
                    fmt::format("TRP-E161 node id {} is already in use by {}:{} (incarnation {})", node, holder.host,
                                holder.port, membership_.find(node)->incarnation));
    }
    case Membership::Verdict::kStale:
      return false;  // the join that counts is on its way
    case Membership::Verdict::kNew:
    case Membership::Verdict::kAgain:
      break;
  }
  // It asks again because we are slow, or it is. The answer is on its way; if that breaks, found_atom repeats it.
  const std::pair request(message.birth, message.number);
  const auto answered = answered_.find(node);
  if (joining.again && answered != answered_.end() && answered->second == request && !broken_.contains(node)) {
    return false;
  }
  answered_[node] = request;
  unconfirmed_.insert(node);
  const std::uint32_t incarnation = membership_.find(node)->incarnation;
  if (!message.nodes.empty()) addresses_[node] = message.nodes.front();
  hosts_[node] = message.text;
  addresses_[node].name = node;
  addresses_[node].incarnation = incarnation;
  if (!remote(node)) own_node_ = joining.hands;
  news |= std::exchange(journal_.nodes[node], incarnation) != incarnation;
  if (!placed && on_node(node).empty()) {
    add_elastic(node);
    news = true;
  }
  for (const std::size_t place : on_node(node)) {
    Instance& instance = instances_[place];
    if (const auto* const running = running_in(message, instance)) {
      // An earlier chief started it: we know only that incarnations up to this one have been given.
      instance.id.incarnation = running->incarnation;
      instance.id.done = running->done;
      instance.resumed = true;
    }
    news |= note_incarnation(instance);
  }
  return true;
}

void ChiefActor::put_off(const Joining& joining) {
  membership_.heard(joining.node, options_.clock->now(), joining.request.incarnation);
  answered_.erase(joining.node);
  refuse(joining, Code::kUnavailable, journal_trouble());
}

const messages::ControlInstance* ChiefActor::running_in(const Control& join, const Instance& instance) {
  const auto found = std::ranges::find_if(join.instances, [&](const messages::ControlInstance& id) {
    return id.role == instance.id.role && id.index == instance.id.index &&
           (!instance.gone || id.incarnation > *instance.gone) &&
           // What we have started ourselves is of one incarnation only: others are from before that order.
           (instance.state == State::kWaitingForNode || id.incarnation == instance.id.incarnation);
  });
  return found == join.instances.end() ? nullptr : &*found;
}

bool ChiefActor::note_incarnation(const Instance& instance) {
  const auto [kept, fresh] = journal_.instances.try_emplace(instance.name, instance.id.incarnation);
  return std::exchange(kept->second, instance.id.incarnation) != instance.id.incarnation || fresh;
}

void ChiefActor::welcome(const Joining& joining) {
  const std::string& node = joining.node;
  tell_neighbours_of(node);
  std::set<const RoleSpec*> adopted;
  for (const std::size_t place : on_node(node)) {
    Instance& instance = instances_[place];
    if (const auto* const running = running_in(joining.request, instance)) {
      instance.state = State::kUp;
      adopted.insert(instance.spec);
      if (running->done) finished(instance);
    } else if (instance.state == State::kWaitingForNode ||
               (instance.elastic && joining.verdict == Membership::Verdict::kNew)) {
      instance.state = State::kStarting;
    } else if (instance.state == State::kUp) {
      // It died there while we did not hear of it.
      went_down(instance, Error{Code::kUnavailable, instance.name + ": ended while the chief was away"}, false);
    }
  }
  bring_up_to_date(node);
  ask_parts(node);
  for (const RoleSpec* const role : adopted) {
    if (!groups_[role->name].formed) regroup(*role);
  }
  if (!remote(node)) return;
  joining.again ? log::debug("node {} is connected again", node)
                : log::info("node {} has joined (incarnation {})", node, membership_.find(node)->incarnation);
}

void ChiefActor::bring_up_to_date(const std::string& node) {
  if (cut_ && cut_->ordered && cut_->writing.contains(node)) {
    end_cut(Error{Code::kUnavailable, fmt::format("cut: the connection to node {} broke", node)});
  }
  broken_.erase(node);
  if (unconfirmed_.contains(node)) {
    Control welcome = order(ControlKind::kWelcome);
    welcome.incarnation = membership_.find(node)->incarnation;
    welcome.number = in_ms(membership_.heartbeat());
    to_node(node, std::move(welcome));
  }
  tell_of_neighbours(node);
  Control resume = order(ControlKind::kResume);
  resume.number = journal_.cuts_begun;
  if (!cut_ || !cut_->ordered) to_node(node, std::move(resume));
  if (last_.number != 0 && remote(node)) {  // it may not have heard of the commit
    Control commit = order(ControlKind::kCommit);
    commit.number = last_.number;
    add_kept(commit);
    to_node(node, std::move(commit));
  }
  tell_live();
  to_node(node, live());
  for (const std::size_t place : on_node(node)) {
    Instance& instance = instances_[place];
    if (instance.state == State::kStarting) spawn(instance);
    if (instance.state == State::kUp) introduce(instance);
  }
  for (const auto& [role, group] : groups_) {
    const auto& nodes = group.view.nodes;
    if (std::ranges::find(nodes, node, &messages::ControlNode::name) != nodes.end()) to_node(node, group.view);
  }
}

void ChiefActor::has_left(const std::string& node) {
  leaving_.erase(node);
  if (stopping_ && leaving_.empty()) quit();
}

std::set<std::string> ChiefActor::neighbours(const std::string& node) const {
  std::set<std::string> names;
  for (const std::size_t place : on_node(node)) {
    const Instance& instance = instances_[place];
    for_each_edge(instance, [&](const Instance& other, const EdgeId&, bool) { names.insert(other.node); });
    if (!instance.spec->group) continue;
    for (const auto& [index, member] : by_role_.at(instance.id.role)) names.insert(instances_[member].node);
  }
  names.erase(node);
  return names;
}

std::optional<messages::ControlNode> ChiefActor::whereabouts(const std::string& name) const {
  const Membership::Node* const node = membership_.find(name);
  if (node == nullptr) return std::nullopt;
  if (node->state == Membership::State::kUp) return addresses_.at(name);
  // A chief that has just come back has not heard of all nodes yet: what they have among themselves must stay.
  if (node->state == Membership::State::kExpected && node->incarnation > 0) {
    return messages::ControlNode{name, node->incarnation, "", 0};
  }
  return std::nullopt;
}

void ChiefActor::tell_neighbours_of(const std::string& name) {
  if (options_.network == nullptr) return;
  Control change = order(ControlKind::kNodes);
  if (const auto there = whereabouts(name)) {
    change.nodes = {*there};
  } else {
    change.texts = {name};
  }
  std::set<std::string> whom = neighbours(name);
  if (remote(name)) whom.insert(options_.node);  // our own network knows all
  for (const std::string& node : whom) {
    if (membership_.up(node)) to_node(node, change);
  }
}

void ChiefActor::tell_of_neighbours(const std::string& node) {
  if (options_.network == nullptr) return;
  Control all = order(ControlKind::kNodes);
  all.resume = true;
  std::set<std::string> of = neighbours(node);
  if (!remote(node)) {
    for (const auto& [name, other] : membership_.nodes()) of.insert(name);
    of.erase(node);
  }
  for (const std::string& name : of) {
    if (auto there = whereabouts(name)) all.nodes.push_back(*std::move(there));
  }
  to_node(node, std::move(all));
}

void ChiefActor::tick() {
  if (closing()) return;
  delayed_send(this, options_.membership.heartbeat, tick_atom::value);
  const Duration now = options_.clock->now();
  if (now - last_tick_ > options_.membership.dead_after && superseded()) return;
  last_tick_ = now;
  membership_.heard(options_.node, now);
  if (choice_ && now >= choice_->give_up) choose();
  say_how_far();
  for (const Membership::Death& death : membership_.tick(now)) {
    const std::string why = death.closed
                                ? std::string("its connection closed")
                                : fmt::format("silent for {:.2f} s (limit {:.2f} s)", death.silent_s, death.limit_s);
    std::string names;
    for (const std::size_t place : on_node(death.name)) {
      names += (names.empty() ? "" : ", ") + instances_[place].name;
    }
    log::warn("{} node {} is dead: {}; waiting for its next process to run {}", death.closed ? "TRP-E101" : "TRP-E110",
              death.name, why, names);
    // The next chief must not take it back either.
    journal_.nodes[death.name] = membership_.find(death.name)->incarnation;
    keep_journal();
    if (closing()) return;
    node_gone(death.name, why);
  }
}

void ChiefActor::node_gone(const std::string& node, const std::string& why) {
  broken_.erase(node);
  answered_.erase(node);
  unconfirmed_.erase(node);
  for (const std::size_t place : on_node(node)) {
    Instance& instance = instances_[place];
    if (instance.state == State::kWaitingForNode) continue;
    went_down(instance, Error{Code::kUnavailable, fmt::format("{}: its node died: {}", instance.name, why)}, true);
  }
  status_due_.erase(node);
  troubles_.erase(node);
  if (cut_ && cut_->nodes.contains(node))
    end_cut(Error{Code::kUnavailable, fmt::format("cut: node {} went down", node)});
  tell_neighbours_of(node);
}

}  // namespace troupe::actors
