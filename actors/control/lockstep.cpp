#include <troupe/actors/control/lockstep.hpp>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <charconv>
#include <utility>

#include <troupe/core/log.hpp>

namespace troupe::actors {
namespace {

using messages::Control;
using messages::ControlKind;
using std::chrono::steady_clock;

/// What keeps its order among itself; the lanes of one node are delivered in this order.
std::size_t lane_of_message(const RemoteMessage& message) {
  if (std::holds_alternative<Control>(message)) return 0;
  if (std::holds_alternative<CreditMessage>(message)) return 1;
  return std::holds_alternative<GroupMessage>(message) ? 3 : 2;
}

}  // namespace

Lockstep::Lockstep(LockstepOptions options) : options_(std::move(options)), waits_since_(steady_clock::now()) {
  for (const std::string& node : options_.all) {
    if (node != options_.node) peers_[node];
  }
}

void Lockstep::start(std::uint64_t birth, NetworkEvents events) {
  birth_ = birth;
  events_ = std::move(events);
  waits_since_ = steady_clock::now();
  options_.network->start(
      birth,
      {.received = [this](const std::string& from, RemoteMessage message) { received(from, std::move(message)); },
       .refused = [this](const std::string& from,
                         const RemoteMessage& message) { keep(from, lane_of_message(message), std::nullopt); },
       .found = [this](const std::string& node, std::uint64_t) { found(node); },
       .lost = [this](const std::string& node, std::uint64_t) { lost(node); }});
}

void Lockstep::send(const std::string& node, RemoteMessage message) {
  if (node != kOperator) {
    const std::lock_guard lock(mutex_);
    ++peers_[node].sent[lane_of_message(message)];
  }
  options_.network->send(node, std::move(message));
}

void Lockstep::fail(Error error) {
  const std::lock_guard lock(mutex_);
  if (!failure_ && !released_) failure_ = std::move(error);
  changed_.notify_all();
}

// ---- on the network's threads ----

void Lockstep::received(const std::string& from, RemoteMessage message) {
  if (auto* control = std::get_if<Control>(&message)) {
    if (control->kind == ControlKind::kRound || control->kind == ControlKind::kRoundEnded) {
      return round_message(from, *control);
    }
    if (control->fenced) return fail({Code::kCancelled, control->text});
    if (control->kind == ControlKind::kRefuse && !has_begun()) return fail({control->code, control->text});
    if (from == kOperator) {
      const std::lock_guard lock(mutex_);
      if (asked_.size() == kAskedMax) asked_.pop_front();
      return asked_.push_back(std::move(*control));
    }
  }
  const std::size_t lane = lane_of_message(message);
  keep(from, lane, std::move(message));
}

void Lockstep::keep(const std::string& from, std::size_t lane, std::optional<RemoteMessage> message) {
  const std::lock_guard lock(mutex_);
  auto& waiting = peers_[from].waiting[lane];
  if (waiting.size() == kWaitingMax && !failure_) {
    failure_ = Error{Code::kInternal, fmt::format("TRP-E125 node {} has sent {} messages that no round of this "
                                                  "deterministic run has counted yet, and no more are kept",
                                                  from, kWaitingMax)};
  }
  if (waiting.size() < kWaitingMax) waiting.push_back(std::move(message));
  changed_.notify_all();
}

bool Lockstep::takes_part(const std::string& from, const Control& control) {
  Control refusal;
  if (!options_.all.contains(from)) {
    refusal.text =
        fmt::format("TRP-E163 node {} is not part of this run, and a deterministic one takes in nobody else", from);
  } else if (control.number == 0 && control.config_hash != options_.config_hash) {
    refusal.text = fmt::format(
        "TRP-E162 node {} has another configuration than the run (hash {:016x}, expected "
        "{:016x}): start it with the run's config.toml",
        from, control.config_hash, options_.config_hash);
  } else {
    return true;
  }
  refusal.kind = ControlKind::kRefuse;
  refusal.birth = control.birth;
  refusal.code = Code::kInvalidArgument;
  options_.network->send(from, std::move(refusal));
  return false;
}

void Lockstep::round_message(const std::string& from, const Control& control) {
  const std::lock_guard lock(mutex_);
  if (leads() && !takes_part(from, control)) return;
  if (control.resume && !leads()) {
    released_ = true;
    return changed_.notify_all();
  }
  if (leads() && peers_[from].ended.value_or(0) > control.number) return;
  if (!leads() && (control.number != round_ || begun_)) return;  // said once more
  for (const messages::Counter& counter : control.counters) {
    const std::size_t slash = counter.name.rfind('/');
    std::size_t lane = kLanes;
    if (slash != std::string::npos) {
      (void)std::from_chars(counter.name.data() + slash + 1, counter.name.data() + counter.name.size(), lane);
    }
    if (lane >= kLanes) continue;
    const std::string node = counter.name.substr(0, slash);
    if (leads() && !options_.all.contains(node)) continue;
    (leads() ? peers_[from].sent_to[node] : peers_[node].due)[lane] = static_cast<std::uint64_t>(counter.value);
  }
  if (leads()) {
    peers_[from].ended = control.number;
    // The first word of a node, which has no other way to learn that it was heard.
    if (control.number == 0) options_.network->send(from, counts(ControlKind::kRound, {}));
    begin_if_all_ended();
  } else {
    begun_ = true;
  }
  changed_.notify_all();
}

void Lockstep::found(const std::string& node) {
  const std::lock_guard lock(mutex_);
  if (leads()) {
    if (!options_.all.contains(node)) return;
    peers_[node].found = true;
    if (round_ == 0) options_.network->send(node, counts(ControlKind::kRound, {}));
    begin_if_all_ended();
  } else if (node == kChiefNode && round_ == 0) {
    Control here;
    here.kind = ControlKind::kRoundEnded;
    here.birth = birth_;
    here.nodes = {options_.address};
    here.config_hash = options_.config_hash;
    options_.network->send(kChiefNode, std::move(here));
  }
  changed_.notify_all();
}

void Lockstep::lost(const std::string& node) {
  std::uint64_t round = 0;
  {
    const std::lock_guard lock(mutex_);
    if (released_) return;
    if (round_ == 0) {
      peers_[node].found = false;
      return;
    }
    round = round_;
  }
  fail({Code::kUnavailable, fmt::format("TRP-E125 node {} is lost in round {}: a deterministic run ends with it, since "
                                        "what another process did in its place could not be repeated",
                                        node, round)});
}

// ---- rounds ----

Control Lockstep::counts(ControlKind kind, const std::map<std::string, Counts>& of) const {
  Control control;
  control.kind = kind;
  control.birth = birth_;
  control.number = round_;
  for (const auto& [node, counts] : of) {
    for (std::size_t lane = 0; lane < kLanes; ++lane) {
      if (counts[lane] == 0) continue;
      control.counters.push_back({fmt::format("{}/{}", node, lane), static_cast<std::int64_t>(counts[lane])});
    }
  }
  return control;
}

bool Lockstep::has_begun() const {
  const std::lock_guard lock(mutex_);
  return round_ > 0;
}

bool Lockstep::has_ended(const Peer& peer) const {
  // Who was heard before all others were there has begun the first round already.
  return peer.ended && *peer.ended >= round_ && (round_ > 0 || peer.found);
}

bool Lockstep::all_here() const {
  for (const auto& [name, peer] : peers_) {
    if (options_.all.contains(name) && !has_ended(peer)) return false;
  }
  return true;
}

void Lockstep::begin_if_all_ended() {
  if (!ended_ || begun_ || !all_here()) return;
  begun_ = true;
  if (round_ == 0) return;  // they have been told one by one, and nothing is due
  for (auto& [name, peer] : peers_) {
    if (const auto to_us = peer.sent_to.find(options_.node); to_us != peer.sent_to.end()) peer.due = to_us->second;
    std::map<std::string, Counts> due = {{options_.node, peer.sent}};
    for (const auto& [other, sender] : peers_) {
      if (const auto sent = sender.sent_to.find(name); sent != sender.sent_to.end()) due[other] = sent->second;
    }
    options_.network->send(name, counts(ControlKind::kRound, due));
  }
}

void Lockstep::end_round() {
  ended_ = true;
  waits_since_ = steady_clock::now();
  if (leads()) return begin_if_all_ended();
  if (round_ == 0) return;  // found() says so
  std::map<std::string, Counts> sent;
  for (const auto& [name, peer] : peers_) sent[name] = peer.sent;
  options_.network->send(kChiefNode, counts(ControlKind::kRoundEnded, sent));
}

std::string Lockstep::missing() const {
  if (!leads() && !begun_) return kChiefNode;
  std::vector<std::string> names;
  for (const auto& [name, peer] : peers_) {
    const bool late = leads() && options_.all.contains(name) && !has_ended(peer);
    bool owes = false;
    for (std::size_t lane = 0; begun_ && lane < kLanes; ++lane) {
      owes |= peer.delivered[lane] + peer.waiting[lane].size() < peer.due[lane];
    }
    if (late || owes) names.push_back(name);
  }
  return fmt::format("{}", fmt::join(names, ", "));
}

Result<bool> Lockstep::next_round(Duration wait) {
  std::vector<std::pair<std::string, RemoteMessage>> all;
  bool is_first = false;
  {
    std::unique_lock lock(mutex_);
    if (!ended_) end_round();
    const auto complete = [this] {
      if (!begun_) return false;
      for (const auto& [name, peer] : peers_) {
        for (std::size_t lane = 0; lane < kLanes; ++lane) {
          if (peer.delivered[lane] + peer.waiting[lane].size() < peer.due[lane]) return false;
        }
      }
      return true;
    };
    const bool ready = changed_.wait_for(lock, wait, [&] { return failure_ || released_ || complete(); }) && complete();
    if (failure_) return *failure_;
    if (released_) return false;
    if (!ready) {
      if (steady_clock::now() - waits_since_ < kPatience) return false;
      return Error{Code::kDeadlineExceeded,
                   fmt::format("TRP-E125 round {} of this deterministic run has not ended for {:.0f} s: waits for "
                               "node {}",
                               round_, seconds(kPatience), missing())};
    }
    is_first = round_ == 0;
    ++round_;
    ended_ = begun_ = false;
    for (Control& question : std::exchange(asked_, {})) all.emplace_back(kOperator, std::move(question));
    for (auto& [name, peer] : peers_) {
      for (std::size_t lane = 0; lane < kLanes; ++lane) {
        for (; peer.delivered[lane] < peer.due[lane]; ++peer.delivered[lane]) {
          if (auto& message = peer.waiting[lane].front()) all.emplace_back(name, *std::move(message));
          peer.waiting[lane].pop_front();
        }
      }
    }
  }
  if (is_first && !leads()) events_.found(kChiefNode, 0);
  for (auto& [from, message] : all) events_.received(from, std::move(message));
  return true;
}

void Lockstep::release() {
  std::vector<std::string> nodes;
  Control over;
  {
    const std::lock_guard lock(mutex_);
    if (std::exchange(released_, true) || !leads()) return;
    for (const auto& [name, peer] : peers_) nodes.push_back(name);
    over = counts(ControlKind::kRound, {});
    over.resume = true;
  }
  for (const std::string& node : nodes) options_.network->send(node, over);
}

bool Lockstep::released() const {
  const std::lock_guard lock(mutex_);
  return released_;
}

void Lockstep::drain() {
  std::vector<std::pair<std::string, RemoteMessage>> all;
  {
    const std::lock_guard lock(mutex_);
    for (Control& question : std::exchange(asked_, {})) all.emplace_back(kOperator, std::move(question));
    for (auto& [name, peer] : peers_) {
      for (auto& lane : peer.waiting) {
        for (std::optional<RemoteMessage>& message : std::exchange(lane, {})) {
          if (message && std::holds_alternative<Control>(*message)) all.emplace_back(name, *std::move(message));
        }
      }
    }
  }
  for (auto& [from, message] : all) events_.received(from, std::move(message));
}

}  // namespace troupe::actors
