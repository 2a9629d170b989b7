#include <troupe/actors/control/membership.hpp>

#include <algorithm>
#include <cmath>

namespace troupe::actors {
namespace {

/// Births that are remembered as dead, for each node. One that is forgotten still has an old incarnation, and what it
/// sends on a channel is dropped for that.
constexpr std::size_t kDeadBirths = 16;

/// The chief hears a heartbeat once in so long, of all nodes together, unless each would then have a longer period than
/// kHeartbeatMost.
constexpr Duration kBetweenHeartbeats = std::chrono::milliseconds(5);
constexpr Duration kHeartbeatMost = std::chrono::seconds(2);
constexpr int kMissedHeartbeats = 5;

/// A delay counts half as much so long after it was measured.
constexpr Duration kDelayHalves = std::chrono::seconds(5);
/// No delay is believed beyond so many times the silence that is death: somebody must be dead at some time.
constexpr int kDelayMost = 5;

}  // namespace

Duration Membership::heartbeat() const {
  const Duration fair = std::min<Duration>(kBetweenHeartbeats * static_cast<std::int64_t>(up_), kHeartbeatMost);
  return std::max(options_.heartbeat, fair);
}

Duration Membership::dead_after() const { return std::max(options_.dead_after, kMissedHeartbeats * heartbeat()); }

void Membership::set_state(Node& node, State state) {
  if (node.state == State::kUp) --up_;
  node.state = state;
  if (node.state == State::kUp) ++up_;
}

void Membership::expect(const std::string& name, std::uint32_t incarnation) {
  Node& node = nodes_[name];
  node.name = name;
  node.incarnation = std::max(node.incarnation, incarnation);
}

void Membership::remember(const std::string& name, std::uint32_t incarnation) {
  if (nodes_.contains(name)) return;
  expect(name, incarnation);
  set_state(nodes_[name], State::kLeft);
}

Membership::Verdict Membership::join(const std::string& name, std::uint64_t birth, std::uint32_t running,
                                     Duration now) {
  Node& node = nodes_[name];
  node.name = name;
  if (std::find(node.dead.begin(), node.dead.end(), birth) != node.dead.end()) return Verdict::kFenced;
  const bool known = node.birth == birth && node.state == State::kUp;
  if (!known && running != 0 && running < node.incarnation) return Verdict::kFenced;
  if (!known && node.state == State::kUp) return Verdict::kTaken;
  if (known && running == 0 && node.knows) {
    // Overtaken by what came on another connection. What it lists is of a time before the process was let in.
    node.last_heard = now;
    return Verdict::kStale;
  }
  // A process that already has an incarnation, at a chief that has not met it: an earlier chief gave it that.
  const bool adopted = !known && running != 0;
  if (!known && adopted) node.incarnation = running;
  if (!known && !adopted && node.state != State::kDead) ++node.incarnation;
  node.birth = birth;
  node.knows = running != 0 && running == node.incarnation;
  set_state(node, State::kUp);
  node.last_heard = now;
  node.lost_at = Duration{-1};
  if (!known) node.delay = Duration::zero();
  return known || adopted ? Verdict::kAgain : Verdict::kNew;
}

void Membership::heard(const std::string& name, Duration now, std::uint32_t running, Duration late) {
  const auto found = nodes_.find(name);
  if (found == nodes_.end() || found->second.state != State::kUp) return;
  Node& node = found->second;
  node.knows |= running != 0 && running == node.incarnation;
  const Duration gap = now - node.last_heard;
  node.last_heard = now;
  const double kept = std::exp2(-seconds(gap) / seconds(kDelayHalves));
  const Duration measured = std::max({gap - heartbeat(), late, Duration::zero()});
  node.delay = std::min(std::max(measured, from_seconds(seconds(node.delay) * kept)), kDelayMost * dead_after());
}

bool Membership::lost(const std::string& name, std::uint64_t birth, Duration now) {
  const auto found = nodes_.find(name);
  if (found == nodes_.end() || found->second.state != State::kUp || found->second.birth != birth) return false;
  if (found->second.lost_at < Duration::zero()) found->second.lost_at = now;
  return true;
}

bool Membership::found(const std::string& name, std::uint64_t birth) {
  const auto found = nodes_.find(name);
  if (found == nodes_.end() || found->second.state != State::kUp || found->second.birth != birth) return false;
  found->second.lost_at = Duration{-1};
  return true;
}

void Membership::left(const std::string& name) {
  const auto found = nodes_.find(name);
  if (found != nodes_.end()) set_state(found->second, State::kLeft);
}

std::vector<Membership::Death> Membership::tick(Duration now) {
  const Duration late = last_tick_ < Duration::zero() ? Duration::zero() : now - last_tick_ - options_.heartbeat;
  last_tick_ = now;
  std::vector<Death> deaths;
  const Duration limit = dead_after();  // of this moment: with each death the heartbeats may be closer again
  for (auto& [name, node] : nodes_) {
    if (node.state != State::kUp) continue;
    if (late > options_.heartbeat) {
      node.last_heard += late;
      if (node.lost_at >= Duration::zero()) node.lost_at += late;
    }
    const bool closed = node.lost_at >= Duration::zero() && now - node.lost_at >= options_.back_within + node.delay;
    if (!closed && now - node.last_heard < limit + 2 * node.delay) continue;
    deaths.push_back({name, seconds(now - node.last_heard), seconds(limit + 2 * node.delay), closed});
    set_state(node, State::kDead);
    ++node.incarnation;
    node.dead.push_back(node.birth);
    if (node.dead.size() > kDeadBirths) node.dead.erase(node.dead.begin());
  }
  return deaths;
}

bool Membership::up(const std::string& name) const {
  const Node* const node = find(name);
  return node != nullptr && node->state == State::kUp;
}

const Membership::Node* Membership::find(const std::string& name) const {
  const auto found = nodes_.find(name);
  return found == nodes_.end() ? nullptr : &found->second;
}

}  // namespace troupe::actors
