#include <troupe/actors/control/chief_actor.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <optional>
#include <utility>

#include <troupe/actors/control/detail/first_names.hpp>
#include <troupe/actors/runtime/last_resort.hpp>
#include <troupe/core/check.hpp>
#include <troupe/core/log.hpp>
#include <troupe/core/thread_priority.hpp>

namespace troupe::actors {
namespace {

using messages::Control;
using messages::ControlKind;

/// After which a journal that cannot be written is tried again.
constexpr Duration kJournalRetry = std::chrono::milliseconds(200);

/// How long a chief that ends waits for the nodes to have heard of it.
constexpr Duration kLeaveDeadline = std::chrono::seconds(3);

/// Which one of the role's further instances is called so.
std::optional<std::uint32_t> index_in(const RoleSpec& role, const std::string& instance) {
  if (!instance.starts_with(role.name + "-")) return std::nullopt;
  std::uint32_t index = 0;
  const char* const begin = instance.data() + role.name.size() + 1;
  const char* const end = instance.data() + instance.size();
  const auto [parsed, error] = std::from_chars(begin, end, index);
  if (error != std::errc() || parsed != end || std::int64_t{index} < role.count) return std::nullopt;
  return index;
}

}  // namespace

Control ChiefActor::order(ControlKind kind) {
  Control control;
  control.kind = kind;
  return control;
}

ChiefActor::ChiefActor(caf::actor_config& config, const RuntimeOptions& options, const Topology& topology,
                       const Clock& clock, ChiefJournal earlier, caf::actor listener)
    : caf::event_based_actor(config),
      options_(options),
      topology_(topology),
      clock_(clock),
      listener_(std::move(listener)),
      membership_(options_.membership),
      journal_(std::move(earlier)) {
  end_process_on_exception(*this);
  ++journal_.term;
  journal_.over.clear();
  // A chief that died between the commit of a cut and its journal has committed it all the same.
  last_ = options_.chief.resume_from.empty() ? options_.chief.committed : options_.chief.resume_from.front();
  if (options_.chief.kept) kept_ = options_.chief.kept();
  for (const std::uint64_t number : kept_) journal_.cuts_begun = std::max(journal_.cuts_begun, number);
  journal_.cuts_begun = std::max({journal_.cuts_begun, journal_.last_cut, last_.number});
  journal_.last_cut = last_.number;
  for (const PlacedNode& node : options_.chief.placement) {
    const auto known = journal_.nodes.find(node.name);
    membership_.expect(node.name, known == journal_.nodes.end() ? 0 : known->second);
    planned_nodes_.insert(node.name);
    for (const auto& share : node.shares) {
      for (const std::uint32_t index : share.indices) add_instance(share.role, index, node.name);
    }
  }
  planned_ = static_cast<std::uint32_t>(instances_.size());
  for (const RoleSpec& role : topology_.roles) {
    for (const auto& [instance, node] : journal_.joined) {
      const auto index = role.elastic ? index_in(role, instance) : std::nullopt;
      if (!index) continue;  // the role's, unless it is not elastic any more
      const auto known = journal_.nodes.find(node);
      membership_.expect(node, known == journal_.nodes.end() ? 0 : known->second);
      add_instance(role.name, *index, node);
    }
  }
  for (const auto& [node, incarnation] : journal_.nodes) membership_.remember(node, incarnation);
  if (!options_.chief.resume_from.empty()) begin_choice();
}

caf::behavior ChiefActor::make_behavior() {
  if (!options_.deterministic) take_short_slices();
  keep_journal();
  last_tick_ = clock_.now();
  if (!options_.chief.resume_from.empty() && !choice_) choose();
  if (options_.write_cut && options_.checkpoint_period > Duration::zero()) {
    delayed_send(this, options_.checkpoint_period, checkpoint_atom::value, true);
  }
  if (options_.node.network != nullptr) {
    delayed_send(this, options_.membership.heartbeat, tick_atom::value);
    delayed_send(this, kStatusPeriod, status_atom::value, true);
  }
  return {
      [this](control_atom, const std::string& node, const Control& message) { from_node(node, message); },
      [this](lost_atom, const std::string& node, std::uint64_t birth) {
        if (!membership_.lost(node, birth, clock_.now())) return;
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
        if (!groups_[role].formed) regroup(*topology_.find(role));
      },
      [this](retry_atom, std::uint64_t cut, bool) {
        if (cut_ && cut_->number == cut && !cut_->ordered) order_cut();
      },
      [this](checkpoint_atom, caf::timespan patience) { return ask_cut(patience); },
      [this](checkpoint_atom, bool) { periodic_cut(); },
      [this](expire_atom, std::uint64_t number, bool writing) {
        if (!cut_ || cut_->number != number || cut_->captured != writing) return;
        const auto& due = writing ? cut_->writing : cut_->capturing;
        end_cut(Error{Code::kDeadlineExceeded, fmt::format("cut: no answer from node {}", first_names(due))});
      },
      [this](status_atom) {
        auto promise = make_response_promise();
        status_promises_.push_back(promise);
        ask_status();
        return promise;
      },
      [this](status_atom, bool) { periodic_status(); },
      [this](status_atom, std::uint64_t round) {
        if (round == status_round_) finish_status();
      },
      [this](stop_atom) { stop(); },
      [this](stop_atom, bool) { quit(); },
  };
}

void ChiefActor::stop() {
  if (std::exchange(stopping_, true)) return;
  const bool leads = !superseded();
  ended_ = true;
  // One that was begun because it was time: nobody waits for it, and the nodes that leave now have not failed it.
  if (cut_ && cut_->promises.empty() && next_cut_.empty()) cut_.reset();
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
}

void ChiefActor::on_exit() {
  instances_.clear();
  cut_.reset();
  status_promises_.clear();  // each holds this actor, which would never be destroyed
  own_node_ = nullptr;
  listener_ = nullptr;
}

bool ChiefActor::keep_journal() { return unkept_.empty() && write_journal(); }

bool ChiefActor::write_journal() {
  if (!options_.chief.journal.save) return true;
  if (superseded()) return false;
  const Status saved = options_.chief.journal.save(journal_);
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
  if (!options_.chief.journal.load) return false;
  checked_at_ = clock_.now();
  const auto kept = options_.chief.journal.load();
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
    if (own_node_) send(own_node_, control_atom::value, kChiefNode, std::move(message));
  } else if (options_.node.network != nullptr) {
    options_.node.network->send(node, std::move(message));
  }
}

void ChiefActor::from_node(const std::string& node, const Control& message) {
  const Duration now = clock_.now();
  if (node == kOperator) return from_operator(message);
  // This process may have slept, and another chief may have taken over: then not one order more.
  const Duration awake = std::max(last_tick_, checked_at_);
  if (options_.node.network != nullptr && now - awake > options_.membership.dead_after && superseded()) return;
  if (message.kind == ControlKind::kJoin) return join(node, message);
  if (std::ranges::find(joining_, node, &Joining::node) != joining_.end()) let_in();  // what it says comes after that
  const Membership::Node* const known = membership_.find(node);
  if (known == nullptr || known->state != Membership::State::kUp || known->incarnation != message.incarnation) {
    // It does not know yet that it was declared dead.
    if (known != nullptr && message.incarnation < known->incarnation && remote(node)) {
      refuse(node, message.birth, Error{Code::kCancelled, declared_dead(node, message.incarnation)}, true);
    }
    return;
  }
  membership_.heard(node, now, message.incarnation, std::chrono::milliseconds(message.late_ms));
  switch (message.kind) {
    case ControlKind::kAlive: {
      unconfirmed_.erase(node);
      Control heard = order(ControlKind::kHeard);
      heard.number = heartbeat_ms();
      return to_node(node, std::move(heard));
    }
    case ControlKind::kRegroup:
      return epoch_broke(message);
    case ControlKind::kUp:
    case ControlKind::kDone:
    case ControlKind::kFailed:
      return instance_changed(message, node);
    case ControlKind::kCaptured:
    case ControlKind::kWritten:
      return cut_answer(message, node);
    case ControlKind::kChecked:
      return parts_checked(message, node);
    case ControlKind::kStatus:
      return status_of(message, node);
    case ControlKind::kLeave:
      membership_.left(node);
      has_left(node);
      log::info("node {} has left", node);
      return node_gone(node, "it has left");
    default:
      return;
  }
}

void ChiefActor::from_operator(const Control& message) {
  if (message.kind == ControlKind::kAskStatus) {
    operator_waits_ = true;
    ask_status();
  } else if (message.kind == ControlKind::kEnd) {
    log::info("TRP-I001 stopping: {}", message.text);
    send(listener_, ended_atom::value, RunEnded{std::nullopt, true});
    to_node(kOperator, order(ControlKind::kEnd));
  }
}

void ChiefActor::instance_changed(const Control& message, const std::string& node) {
  if (message.instances.empty()) return;
  Instance* const instance = find(message.instances.front());
  if (instance == nullptr || instance->node != node ||
      instance->id.incarnation != message.instances.front().incarnation) {
    return;
  }
  if (message.kind == ControlKind::kUp) return came_up(*instance);
  if (message.kind == ControlKind::kFailed) return went_down(*instance, Error{message.code, message.text}, false);
  instance->id.done = true;
  tell_live();
  finished(*instance);
}

void ChiefActor::tick() {
  if (closing()) return;
  delayed_send(this, options_.membership.heartbeat, tick_atom::value);
  const Duration now = clock_.now();
  if (now - last_tick_ > options_.membership.dead_after && superseded()) return;
  last_tick_ = now;
  membership_.heard(kChiefNode, now);
  if (choice_ && now >= choice_->give_up) choose();
  say_how_far();
  for (const Membership::Death& death : membership_.tick(now)) {
    const std::string why = death.closed
                                ? std::string("its connection closed")
                                : fmt::format("silent for {:.2f} s (limit {:.2f} s)", death.silent_s, death.limit_s);
    std::vector<std::string> names;
    for (const std::size_t place : on_node(death.name)) names.push_back(instances_[place].name);
    log::warn("{} node {} is dead: {}; waiting for its next process to run {}", death.closed ? "TRP-E101" : "TRP-E110",
              death.name, why, first_names(names));
    // The next chief must not take it back either.
    journal_.nodes[death.name] = membership_.find(death.name)->incarnation;
    keep_journal();
    if (closing()) return;
    node_gone(death.name, why);
  }
  if (any_done_ && !ended_) end_if_complete();  // some may have stayed away for long enough
}

void ChiefActor::node_gone(const std::string& node, const std::string& why) {
  broken_.erase(node);
  answered_.erase(node);
  unconfirmed_.erase(node);
  for (const std::size_t place : on_node(node)) {
    Instance& instance = instances_[place];
    instance.away_since = clock_.now();
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
