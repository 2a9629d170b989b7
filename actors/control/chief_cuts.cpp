// The chief's part in consistent cuts: orders them, waits for all nodes, commits them.
#include <troupe/actors/control/chief_actor.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <string_view>
#include <utility>

#include <troupe/actors/control/detail/first_names.hpp>
#include <troupe/core/log.hpp>

namespace troupe::actors {
namespace {

using messages::Control;
using messages::ControlKind;

constexpr Duration kCutRetry = std::chrono::milliseconds(10);
/// The next process of a node is there by then, if there is one; a cut is not held up for longer by an instance that it
/// can do without.
constexpr Duration kAwayPatience = std::chrono::seconds(2);
/// How long a run that goes on waits for nodes to say which cuts they have whole.
constexpr Duration kChoicePatience = std::chrono::seconds(30);
constexpr Duration kSayEvery = std::chrono::seconds(10);

}  // namespace

void ChiefActor::begin_cut(std::vector<caf::response_promise> promises, Duration patience) {
  cut_ = PendingCut();
  cut_->number = ++journal_.cuts_begun;
  cut_->promises = std::move(promises);
  cut_->begun = clock_.now();
  cut_->give_up = cut_->begun + patience;
  // A number that was used once must not be used again: old markers bear it.
  if (keep_journal()) return order_cut();
  if (cut_) end_cut(Error{Code::kUnavailable, "cut: " + journal_trouble()});
}

caf::response_promise ChiefActor::ask_cut(Duration patience) {
  auto promise = make_response_promise();
  if (cut_) {
    next_cut_.push_back(promise);
    if (!cut_->ordered) cut_->give_up = std::min(cut_->give_up, clock_.now() + patience);
  } else {
    begin_cut({promise}, patience);
  }
  return promise;
}

void ChiefActor::periodic_cut() {
  if (stopping_) return;
  delayed_send(this, options_.checkpoint_period, checkpoint_atom::value, true);
  if (!cut_) return begin_cut({}, options_.cut_deadline);
  if (cut_->captured) {
    log::warn("TRP-W602 checkpoint {} is still being written; one is skipped", called(cut_->number));
  }
}

bool ChiefActor::dispensable(const Instance& instance) const {
  if (instance.state == State::kQuarantined || instance.elastic) return true;
  const std::string& role = instance.id.role;
  // The others of its group have all that it had.
  if (instance.spec->group) {
    return std::ranges::any_of(instances_, [&](const Instance& other) {
      return other.id.role == role && other.state == State::kUp && membership_.up(other.node);
    });
  }
  // A run may go on without it, it begins with nothing when it comes back, and no frame waits for it alone.
  const bool consumes = std::ranges::any_of(topology_.channels, [&](const ChannelSpec& channel) {
    const auto& inlets = instance.spec->inlets;
    const auto port = std::ranges::find(inlets, channel.to_port, &Port::name);
    return channel.to_role == role && port != inlets.end() && port->kind == ChannelKind::kStream;
  });
  return instance.spec->restart.quarantine && instance.spec->restart.from == RestartFrom::kNothing && !consumes;
}

const ChiefActor::Instance* ChiefActor::missing_in_cut() const {
  const Duration now = clock_.now();
  for (const Instance& instance : instances_) {
    const bool node_up = membership_.up(instance.node);
    if ((instance.state == State::kUp && node_up) || instance.state == State::kQuarantined || instance.elastic)
      continue;
    const Duration until = node_up ? cut_->give_up : std::min(cut_->give_up, cut_->begun + kAwayPatience);
    if (now >= until && dispensable(instance)) continue;
    return &instance;
  }
  return nullptr;
}

void ChiefActor::order_cut() {
  if (failed_since_end_) return end_cut(failed_since_end_);
  if (const Instance* const missing = missing_in_cut()) {
    if (clock_.now() >= cut_->give_up) {
      if (!missing->resumed && !missing->gone) {
        return end_cut(Error{Code::kNotFound, fmt::format("cut: {} has not come up yet", missing->name)});
      }
      const std::string why = missing->error.empty() ? "" : fmt::format(" ({})", missing->error);
      return end_cut(Error{Code::kUnavailable, fmt::format("cut: {} is being restarted{}", missing->name, why)});
    }
    delayed_send(this, kCutRetry, retry_atom::value, cut_->number, true);
    return;
  }
  std::set<std::string> without;
  for (const Instance& instance : instances_) {
    if (instance.state == State::kUp && membership_.up(instance.node)) {
      if (!instance.elastic) cut_->expected.push_back(instance.name);
    } else if (!instance.elastic) {
      without.insert(instance.name);
    }
  }
  if (without != without_ && !without.empty()) {
    log::info("checkpoint {} is taken without {}", called(cut_->number), first_names(without));
  }
  without_ = std::move(without);
  cut_->ordered = true;
  cut_->said_at = clock_.now();
  for (const auto& [name, node] : membership_.nodes()) {
    if (node.state == Membership::State::kUp) cut_->nodes.insert(name);
  }
  cut_->capturing = cut_->nodes;
  cut_->writing = cut_->nodes;
  // The nodes have the shorter deadline and name who held them up; this one is for a node that is silent altogether.
  delayed_send(this, 2 * options_.cut_deadline, expire_atom::value, cut_->number, false);
  for (const std::string& node : cut_->nodes) {
    Control cut = order(ControlKind::kCut);
    cut.number = cut_->number;
    add_kept(cut);
    for (const std::string& name : neighbours(node)) {
      if (cut_->nodes.contains(name)) cut.nodes.push_back({name, 0, "", 0});
    }
    to_node(node, std::move(cut));
  }
}

void ChiefActor::cut_answer(const Control& message, const std::string& node) {
  if (!cut_ || cut_->number != message.number) return;
  if (message.failed) return end_cut(Error{message.code, message.text});
  if (message.kind == ControlKind::kCaptured) {
    cut_->capturing.erase(node);
    if (!cut_->capturing.empty() || cut_->captured) return;
    cut_->captured = true;
    delayed_send(this, kWriteDeadline, expire_atom::value, cut_->number, true);
    resume_nodes();
  } else {
    cut_->writing.erase(node);
    cut_->counters.insert(cut_->counters.end(), message.counters.begin(), message.counters.end());
    cut_->parts.push_back({node, message.text, message.texts});
  }
  if (cut_->captured && cut_->writing.empty()) end_cut(std::nullopt);
}

void ChiefActor::say_how_far() {
  const Duration now = clock_.now();
  if (!cut_ || !cut_->ordered || now - cut_->said_at < kSayEvery) return;
  cut_->said_at = now;
  const std::set<std::string>& due = cut_->captured ? cut_->writing : cut_->capturing;
  log::info("checkpoint {}: {} of {} nodes have {} their part; to come: {}", cut_->number,
            cut_->nodes.size() - due.size(), cut_->nodes.size(), cut_->captured ? "written" : "captured",
            first_names(due));
}

void ChiefActor::resume_nodes() {
  Control resume = order(ControlKind::kResume);
  resume.number = cut_->number;
  for (const std::string& node : cut_->nodes) to_node(node, resume);
  cut_->captured = true;  // nobody is paused for it any more
  regroup_all();
}

void ChiefActor::end_cut(std::optional<Error> error) {
  if (cut_->ordered && !cut_->captured) resume_nodes();
  PendingCut cut = std::move(*cut_);
  cut_.reset();
  if (!error && superseded()) error = Error{Code::kCancelled, "cut: another chief leads the run"};
  if (!error) {
    if (Status committed = commit(cut); !committed.ok()) error = committed.error();
  }
  CheckpointDone done{error, std::move(cut.counters)};
  if (error) {
    log::error("TRP-E601 checkpoint {} not written: {}; last good is {}", called(cut.number), error->message,
               last_.number == 0 ? "none" : called(last_.number));
  } else {
    keep_journal();  // the cut itself is on disk already
    Control commit = order(ControlKind::kCommit);
    commit.number = cut.number;
    add_kept(commit);
    for (const std::string& node : cut.nodes) to_node(node, commit);
  }
  for (caf::response_promise& promise : cut.promises) promise.deliver(done);
  if (next_cut_.empty()) return;
  begin_cut(std::exchange(next_cut_, {}), options_.cut_deadline);
}

std::string ChiefActor::called(std::uint64_t cut) const {
  return options_.node.network != nullptr ? cut_name(cut) : std::to_string(cut);
}

Status ChiefActor::commit(const PendingCut& cut) {
  CommittedCut whole{cut.number, cut.parts};
  std::ranges::sort(whole.parts, {}, &CutPart::node);
  std::set<std::string_view> saved;
  for (const CutPart& part : whole.parts) saved.insert(part.instances.begin(), part.instances.end());
  for (const std::string& instance : cut.expected) {
    if (saved.contains(instance)) continue;
    return Error{Code::kUnavailable, fmt::format("cut: {} is in no node's part", instance)};
  }
  const Status committed = options_.chief.commit ? options_.chief.commit(whole) : Status{};
  if (options_.chief.kept)
    kept_ = options_.chief.kept();  // also after an error, which may be that of the very last sync
  if (!committed.ok()) return committed;
  last_ = std::move(whole);
  journal_.last_cut = last_.number;
  return {};
}

void ChiefActor::add_kept(Control& order) const {
  for (const std::uint64_t number : kept_) order.counters.push_back({"", static_cast<std::int64_t>(number)});
  if (last_.number != 0) order.counters.push_back({"", static_cast<std::int64_t>(last_.number)});
}

// ---- the cut that a run goes on from ----

void ChiefActor::begin_choice() {
  Choice choice{{}, {}, clock_.now() + kChoicePatience};
  for (const CommittedCut& cut : options_.chief.resume_from) {
    for (const CutPart& part : cut.parts) {
      const bool placed =
          std::ranges::find(options_.chief.placement, part.node, &PlacedNode::name) != options_.chief.placement.end();
      if (!part.here && placed && remote(part.node)) choice.due.insert(part.node);
    }
  }
  if (!choice.due.empty()) choice_ = std::move(choice);
}

void ChiefActor::ask_parts(const std::string& node) {
  if (!choice_ || !choice_->due.contains(node)) return;
  Control check = order(ControlKind::kCheck);
  for (const CommittedCut& cut : options_.chief.resume_from) {
    for (const CutPart& part : cut.parts) {
      if (part.node == node) check.counters.push_back({part.id, static_cast<std::int64_t>(cut.number)});
    }
  }
  to_node(node, std::move(check));
}

void ChiefActor::parts_checked(const Control& message, const std::string& node) {
  if (!choice_ || choice_->due.erase(node) == 0) return;
  for (const CommittedCut& cut : options_.chief.resume_from) {
    const bool has_part = std::ranges::find(cut.parts, node, &CutPart::node) != cut.parts.end();
    const bool whole = std::ranges::any_of(message.counters, [&](const messages::Counter& counter) {
      return counter.value == static_cast<std::int64_t>(cut.number);
    });
    if (!has_part || whole) continue;
    choice_->damaged.emplace(
        cut.number, fmt::format("part of node {}: {}", node, message.text.empty() ? "is not there" : message.text));
  }
  if (choice_->due.empty()) choose();
}

void ChiefActor::choose() {
  const Choice choice = choice_ ? std::move(*choice_) : Choice{};
  choice_.reset();
  if (ended_) return;
  if (!choice.due.empty()) {
    log::warn("TRP-W606 nodes {} have not come within {:.0f} s to say whether they have their parts of the checkpoint",
              first_names(choice.due), seconds(kChoicePatience));
  }
  std::string wrong;
  for (const CommittedCut& cut : options_.chief.resume_from) {
    const auto damaged = choice.damaged.find(cut.number);
    if (damaged == choice.damaged.end()) {
      resume_cut_ = cut;
      break;
    }
    wrong += fmt::format("; {}: {}", cut_name(cut.number), damaged->second);
    log::warn("TRP-W603 checkpoint {} is damaged and not used: {}", cut_name(cut.number), damaged->second);
  }
  if (resume_cut_.number == 0) return end_run({Error{Code::kCorrupt, "no checkpoint is whole" + wrong}});
  if (options_.node.network != nullptr) log::info("resuming from checkpoint {}", cut_name(resume_cut_.number));
  last_ = resume_cut_;
  journal_.last_cut = last_.number;
  if (options_.chief.resumed_from) {
    if (const Status done = options_.chief.resumed_from(last_.number); !done.ok()) return end_run({done.error()});
  }
  if (options_.chief.kept) kept_ = options_.chief.kept();
  keep_journal();
  for (Instance& instance : instances_) {
    if (instance.state == State::kStarting && membership_.up(instance.node)) spawn(instance);
  }
}

}  // namespace troupe::actors
