// The chief's part in consistent cuts: orders them, waits for all nodes, commits them.
#include <troupe/actors/chief_actor.hpp>

#include <fmt/format.h>

#include <algorithm>

#include <troupe/core/log.hpp>

namespace troupe::actors {
namespace {

using messages::Control;
using messages::ControlKind;

constexpr Duration kCutRetry = std::chrono::milliseconds(10);
constexpr Duration kSayEvery = std::chrono::seconds(10);
constexpr std::size_t kNamesMost = 5;

}  // namespace

void ChiefActor::begin_cut(std::optional<caf::response_promise> promise, Duration patience) {
  cut_.emplace();
  cut_->number = ++journal_.cuts_begun;
  save_journal_now();  // a number that was used once must not be used again: old markers bear it
  if (promise) cut_->promises.push_back(std::move(*promise));
  cut_->give_up = options_.clock->now() + patience;
  order_cut();
}

void ChiefActor::order_cut() {
  if (failed_since_end_) return end_cut(failed_since_end_);
  // Without one of them it would be no cut of the whole: wait for instances that are coming up, within the deadline.
  for (const Instance& instance : instances_) {
    if (instance.state == State::kUp || instance.state == State::kQuarantined || instance.elastic) continue;
    if (options_.clock->now() >= cut_->give_up) {
      return end_cut(Error{Code::kUnavailable, fmt::format("cut: {} is being restarted", instance.name)});
    }
    delayed_send(this, kCutRetry, retry_atom::value, cut_->number, true);
    return;
  }
  cut_->ordered = true;
  cut_->said_at = options_.clock->now();
  for (const auto& [name, node] : membership_.nodes()) {
    if (node.state == Membership::State::kUp) cut_->nodes.insert(name);
  }
  cut_->capturing = cut_->nodes;
  cut_->writing = cut_->nodes;
  // The nodes have the shorter deadline and name who held them up; this one is for a node that is silent altogether.
  delayed_send(this, 2 * options_.cut_deadline, expire_atom::value, cut_->number);
  for (const std::string& node : cut_->nodes) {
    Control cut = order(ControlKind::kCut);
    cut.number = cut_->number;
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
    delayed_send(this, options_.write_deadline, expire_atom::value, cut_->number);
    resume_nodes();
  } else {
    cut_->writing.erase(node);
    cut_->counters.insert(cut_->counters.end(), message.counters.begin(), message.counters.end());
  }
  if (cut_->captured && cut_->writing.empty()) end_cut(std::nullopt);
}

void ChiefActor::say_how_far() {
  const Duration now = options_.clock->now();
  if (!cut_ || !cut_->ordered || now - cut_->said_at < kSayEvery) return;
  cut_->said_at = now;
  const std::set<std::string>& due = cut_->captured ? cut_->writing : cut_->capturing;
  std::vector<std::string> names(due.begin(), due.end());
  const std::size_t more = names.size() - std::min(names.size(), kNamesMost);
  names.resize(names.size() - more);
  log::info("checkpoint {}: {} of {} nodes have {} their part; to come: {}{}", cut_->number,
            cut_->nodes.size() - due.size(), cut_->nodes.size(), cut_->captured ? "written" : "captured",
            fmt::join(names, ", "), more == 0 ? "" : fmt::format(" and {} more", more));
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
  if (!error && options_.commit) {
    std::vector<std::string> nodes(cut.nodes.begin(), cut.nodes.end());
    if (Status committed = options_.commit(cut.number, nodes); !committed.ok()) error = committed.error();
  }
  CheckpointDone done{error, std::move(cut.counters)};
  if (error) {
    log::error("TRP-E601 checkpoint {} not written: {}; last good is {}", cut.number, error->message,
               journal_.last_cut);
  } else {
    journal_.last_cut = cut.number;
    save_journal_now();
    Control commit = order(ControlKind::kCommit);
    commit.number = cut.number;
    for (const std::string& node : cut.nodes) to_node(node, commit);
  }
  for (caf::response_promise& promise : cut.promises) promise.deliver(done);
  if (next_cut_.empty()) return;
  std::vector<caf::response_promise> next = std::move(next_cut_);
  next_cut_.clear();
  caf::response_promise first = std::move(next.front());
  next.erase(next.begin());
  begin_cut(std::move(first), options_.cut_deadline);
  if (cut_) {
    cut_->promises.insert(cut_->promises.end(), next.begin(), next.end());
  } else {
    next_cut_ = std::move(next);
  }
}

}  // namespace troupe::actors
