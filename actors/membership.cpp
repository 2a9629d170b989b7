#include <troupe/actors/membership.hpp>

#include <algorithm>

namespace troupe::actors {
namespace {

/// Births that are remembered as dead, for each node. One that is forgotten still has an old incarnation, and what it
/// sends on a channel is dropped for that.
constexpr std::size_t kDeadBirths = 16;

}  // namespace

void Membership::expect(const std::string& name, std::uint32_t incarnation) {
  Node& node = nodes_[name];
  node.name = name;
  node.incarnation = std::max(node.incarnation, incarnation);
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
  node.state = State::kUp;
  node.last_heard = now;
  node.lost_at = Duration{-1};
  return known || adopted ? Verdict::kAgain : Verdict::kNew;
}

void Membership::heard(const std::string& name, Duration now, std::uint32_t running) {
  const auto found = nodes_.find(name);
  if (found == nodes_.end() || found->second.state != State::kUp) return;
  found->second.last_heard = now;
  found->second.knows |= running != 0 && running == found->second.incarnation;
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
  if (found != nodes_.end()) found->second.state = State::kLeft;
}

std::vector<Membership::Death> Membership::tick(Duration now) {
  const Duration late = last_tick_ < Duration::zero() ? Duration::zero() : now - last_tick_ - options_.heartbeat;
  last_tick_ = now;
  std::vector<Death> deaths;
  for (auto& [name, node] : nodes_) {
    if (node.state != State::kUp) continue;
    if (late > options_.heartbeat) {
      node.last_heard += late;
      if (node.lost_at >= Duration::zero()) node.lost_at += late;
    }
    const bool closed = node.lost_at >= Duration::zero() && now - node.lost_at >= options_.back_within;
    if (!closed && now - node.last_heard < options_.dead_after) continue;
    deaths.push_back({name, seconds(now - node.last_heard), closed});
    node.state = State::kDead;
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
