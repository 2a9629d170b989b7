// The chief's part in the life of instances: places, introduces and restarts them.
#include <troupe/actors/control/chief_actor.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include <troupe/core/check.hpp>
#include <troupe/core/log.hpp>

namespace troupe::actors {

using messages::Control;
using messages::ControlKind;

namespace {

/// How many new processes an instance may need for a lost device without getting as far as the next cut: they would all
/// fail. Fewer than a launcher starts in its window, after which the run would wait for an instance that never comes.
constexpr int kMaxLost = 3;
/// How long an instance waits that the journal has no room for.
constexpr Duration kSpawnRetry = std::chrono::milliseconds(100);
/// A run in which all others are done waits so long for an instance whose node is away: longer than launchers wait
/// before they start a process again.
constexpr Duration kEndPatience = std::chrono::seconds(10);

/// Far below what fits into a control message.
constexpr std::size_t kEdgesMost = 1000;

}  // namespace

ChiefActor::Instance& ChiefActor::add_instance(const std::string& role, std::uint32_t index, const std::string& node) {
  const RoleSpec* const spec = topology_.find(role);
  TROUPE_CHECK(spec != nullptr, "placement: no role {}", role);
  Instance instance;
  const auto count = static_cast<std::uint32_t>(spec->count);
  instance.elastic = index >= count;
  const auto number = instance.elastic ? elastic_number(*spec, index) : static_cast<std::uint32_t>(instances_.size());
  instance.id = {role, index, 0, number, false};
  instance.name = RoleIdentity{role, index, spec->count}.name();
  instance.node = node;
  instance.spec = spec;
  instance.away_since = clock_.now();
  const auto known = journal_.instances.find(instance.name);
  if (known != journal_.instances.end()) instance.id.incarnation = known->second + 1;
  by_role_[role][index] = instances_.size();
  on_node_[node].push_back(instances_.size());
  instances_.push_back(std::move(instance));
  return instances_.back();
}

std::uint32_t ChiefActor::elastic_number(const RoleSpec& role, std::uint32_t index) const {
  std::uint32_t roles = 0, before = 0;
  for (const RoleSpec& other : topology_.roles) {
    if (&other == &role) before = roles;
    if (other.elastic) ++roles;
  }
  return planned_ + (index - static_cast<std::uint32_t>(role.count)) * roles + before;
}

std::vector<const RoleSpec*> ChiefActor::elastic_roles(const Control& join) const {
  std::vector<const RoleSpec*> roles;
  for (const RoleSpec& role : topology_.roles) {
    const bool certified = std::ranges::find(join.texts, role.name) != join.texts.end();
    if (role.elastic && certified) roles.push_back(&role);
  }
  return roles;
}

void ChiefActor::add_elastic(const RoleSpec& role, const std::string& node) {
  // The place of one that has gone, else the next index: those that come and go must not add up.
  auto index = static_cast<std::uint32_t>(role.count);
  for (const auto& [taken, place] : by_role_[role.name]) {
    Instance& instance = instances_[place];
    index = std::max(index, taken + 1);
    const Membership::Node* const before = membership_.find(instance.node);
    if (!instance.elastic || instance.state != State::kWaitingForNode || before == nullptr) continue;
    if (before->state != Membership::State::kLeft && before->state != Membership::State::kDead) continue;
    journal_.joined[instance.name] = node;
    std::erase(on_node_[instance.node], place);
    on_node_[node].push_back(place);
    instance.node = node;
    instance.recent.clear();
    instance.restarts = 0;
    return;
  }
  const Instance& added = add_instance(role.name, index, node);
  journal_.joined[added.name] = node;
}

ChiefActor::Instance* ChiefActor::find(const messages::ControlInstance& id) {
  const auto role = by_role_.find(id.role);
  if (role == by_role_.end()) return nullptr;
  const auto found = role->second.find(id.index);
  return found == role->second.end() ? nullptr : &instances_[found->second];
}

const std::vector<std::size_t>& ChiefActor::on_node(const std::string& node) const {
  static const std::vector<std::size_t> kNone;
  const auto found = on_node_.find(node);
  return found == on_node_.end() ? kNone : found->second;
}

void ChiefActor::spawn(Instance& instance) {
  if (choice_) {
    instance.state = State::kStarting;  // choose() does it
    return;
  }
  if (note_incarnation(instance) ? !keep_journal() : !unkept_.empty()) {
    // The number would be given again by a chief that does not know of it. The journal has it when it is written.
    instance.state = State::kRestarting;
    delayed_send(this, kSpawnRetry, retry_atom::value, instance.id.number);
    return;
  }
  instance.state = State::kStarting;
  Control spawn = order(ControlKind::kSpawn);
  spawn.instances = {instance.id};
  // One that a cut was taken without starts afresh.
  if (resume_cut_.number != 0 && !instance.resumed) {
    if (resume_cut_.has(instance.name)) spawn.number = resume_cut_.number;
    spawn.resume = spawn.number != 0;
  } else if (instance.id.incarnation > 0 && instance.spec->restart.from == RestartFrom::kLastCut) {
    if (last_.has(instance.name)) spawn.number = last_.number;
  }
  instance.from_cut = spawn.number != 0;
  to_node(instance.node, std::move(spawn));
}

namespace {

messages::ControlEdge edge_to(const messages::ControlInstance& peer, const std::string& node, const EdgeId& edge,
                              bool peer_produces) {
  return {edge.channel, edge.producer, edge.consumer, peer_produces, peer.incarnation, node, peer.role};
}

/// The same order about at most kEdgesMost edges each: one that everybody reports to has as many as there are nodes.
std::vector<Control> in_parts(Control order) {
  std::vector<Control> parts;
  for (std::size_t begin = 0; begin < order.edges.size(); begin += kEdgesMost) {
    const auto from = order.edges.begin() + static_cast<std::ptrdiff_t>(begin);
    const auto to = order.edges.begin() + static_cast<std::ptrdiff_t>(std::min(begin + kEdgesMost, order.edges.size()));
    Control& part = parts.emplace_back();
    part.kind = order.kind;
    part.instances = order.instances;
    part.edges.assign(from, to);
  }
  return parts;
}

}  // namespace

void ChiefActor::came_up(Instance& instance) {
  instance.state = State::kUp;
  instance.resumed = true;
  tell_live();
  introduce(instance);
  regroup(*instance.spec);
}

void ChiefActor::introduce(const Instance& instance) {
  Control own = order(ControlKind::kWire);
  Control gone = order(ControlKind::kUnwire);
  own.instances = gone.instances = {instance.id};
  for_each_edge(instance, [&](const Instance& other, const EdgeId& edge, bool other_produces) {
    if (other.gone) {
      gone.edges.push_back(edge_to(other.id, other.node, edge, other_produces));
      gone.edges.back().peer_incarnation = *other.gone;
    }
    if (other.state != State::kUp) return;
    own.edges.push_back(edge_to(other.id, other.node, edge, other_produces));
    if (&other == &instance) return;
    Control theirs = order(ControlKind::kWire);
    theirs.instances = {other.id};
    theirs.edges = {edge_to(instance.id, instance.node, edge, !other_produces)};
    to_node(other.node, std::move(theirs));
  });
  for (Control& part : in_parts(std::move(gone))) to_node(instance.node, std::move(part));
  for (Control& part : in_parts(std::move(own))) to_node(instance.node, std::move(part));
  Control start = order(ControlKind::kStart);
  start.instances = {instance.id};
  to_node(instance.node, std::move(start));
}

void ChiefActor::went_down(Instance& instance, const Error& error, bool with_its_node) {
  if (ended_ && (closing() || !with_its_node || instance.spec->restart.quarantine || instance.elastic)) {
    return stays_down(instance, error);
  }
  const bool was_up = instance.state == State::kUp;
  // What it was to start from will not be better the next time.
  const bool futile = instance.state == State::kStarting && instance.from_cut &&
                      (error.code == Code::kCorrupt || error.code == Code::kShapeMismatch);
  instance.state = State::kWaitingForNode;
  instance.error = error.message;
  instance.own.reset();
  if (was_up) {
    for_each_edge(instance, [&](const Instance& other, const EdgeId& edge, bool other_produces) {
      if (other.state != State::kUp) return;
      Control theirs = order(ControlKind::kUnwire);
      theirs.instances = {other.id};
      theirs.edges = {edge_to(instance.id, instance.node, edge, !other_produces)};
      to_node(other.node, std::move(theirs));
    });
    tell_live();
  }
  if (in_cut()) end_cut(Error{Code::kUnavailable, fmt::format("cut: {} went down", instance.name)});
  instance.gone = instance.id.incarnation;
  ++instance.id.incarnation;
  instance.id.done = false;
  if (was_up) regroup(*instance.spec);
  if (instance.elastic && !membership_.up(instance.node)) return;  // it may come back, or not
  if (instance.spec->restart.ends_run == error.code) return end_run({error});
  plan_restart(instance, error, futile, with_its_node);
}

void ChiefActor::stays_down(Instance& instance, const Error& error) {
  if (closing() || instance.elastic || failed_since_end_) return;
  // Nobody starts it again: cuts are without it where a run may be, else none would be one of the whole.
  Error failed{error.code, "cut: " + error.message};
  if (instance.spec->restart.quarantine) {
    instance.state = State::kQuarantined;
    failed.code = Code::kUnavailable;  // try again
  } else {
    failed_since_end_ = failed;
  }
  if (in_cut()) end_cut(std::move(failed));
}

void ChiefActor::plan_restart(Instance& instance, const Error& error, bool futile, bool with_its_node) {
  const RestartPolicy& policy = instance.spec->restart;
  const Duration now = clock_.now();
  std::erase_if(instance.recent, [&](Duration at) { return now - at > policy.window; });
  int recent = static_cast<int>(instance.recent.size());
  int most = futile ? 0 : policy.max_restarts;
  const bool lost = error.code == Code::kLost;
  if (lost) {
    // Another node's process can be replaced; ours has the run, and the next run goes on from the same cut.
    if (std::exchange(instance.lost_after, journal_.last_cut) != journal_.last_cut) instance.lost = 0;
    recent = instance.lost++;
    most = remote(instance.node) ? std::min(most, kMaxLost) : 0;
  }
  if (recent >= most) {
    return give_up(instance, error, most == 0 ? "" : fmt::format(" (after {} restarts)", recent));
  }
  instance.recent.push_back(now);
  ++instance.restarts;
  if (with_its_node) return;  // the node's next process runs it at once
  if (lost) {
    log::warn("TRP-E101 {}; the next process of node {} runs it as incarnation {} ({} of {})", error.message,
              instance.node, instance.id.incarnation, recent + 1, most);
    return;
  }
  // Doubling stops early, before it could overflow.
  Duration backoff = policy.first_backoff;
  for (int i = 0; i < recent && backoff < policy.max_backoff; ++i) backoff *= 2;
  backoff = std::min(backoff, policy.max_backoff);
  instance.state = State::kRestarting;
  log::warn("TRP-E101 {}; restarting it as incarnation {} in {:.1f} s ({} of {})", error.message,
            instance.id.incarnation, seconds(backoff), recent + 1, most);
  delayed_send(this, backoff, retry_atom::value, instance.id.number);
}

void ChiefActor::give_up(Instance& instance, const Error& error, const std::string& budget) {
  const bool others = std::any_of(instances_.begin(), instances_.end(), [&](const Instance& other) {
    return &other != &instance && other.id.role == instance.id.role && other.state != State::kQuarantined;
  });
  if (!(instance.spec->restart.quarantine || instance.elastic) || !others) {
    if (ended_) failed_since_end_ = Error{error.code, "cut: " + error.message + budget};
    return end_run({Error{error.code, error.message + budget}});
  }
  instance.state = State::kQuarantined;
  log::error("TRP-E151 {} is quarantined: {}{}; the run goes on without it", instance.name, error.message, budget);
}

void ChiefActor::restart(std::uint32_t number) {
  if (closing()) return;
  const auto found = std::find_if(instances_.begin(), instances_.end(),
                                  [&](const Instance& instance) { return instance.id.number == number; });
  if (found == instances_.end() || found->state != State::kRestarting) return;
  if (in_cut()) {
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
  any_done_ = true;
  end_if_complete();
}

bool ChiefActor::awaits_no_more(const Instance& instance) const {
  if (instance.id.done || instance.elastic || instance.state == State::kQuarantined) return true;
  return !membership_.up(instance.node) && clock_.now() - instance.away_since >= kEndPatience && dispensable(instance);
}

void ChiefActor::end_if_complete() {
  std::map<std::string, bool> parts;  // whether some role has completed it
  for (const RoleSpec& role : topology_.roles) {
    if (!role.completes_run) continue;
    bool all = true, any = false;
    for (const Instance& instance : instances_) {
      if (instance.id.role != role.name) continue;
      all = all && awaits_no_more(instance);
      any = any || instance.id.done;  // if all are away, nobody has done it
    }
    parts[role.part] = parts[role.part] || (all && any);
  }
  if (std::all_of(parts.begin(), parts.end(), [](const auto& part) { return part.second; })) end_run({});
}

Control ChiefActor::live() const {
  Control live = order(ControlKind::kLive);
  for (const auto& [role, places] : by_role_) {
    const bool works = std::ranges::any_of(places, [&](const auto& entry) {
      const Instance& instance = instances_[entry.second];
      return instance.state == State::kUp && !instance.id.done;
    });
    if (works) live.texts.push_back(role);
  }
  return live;
}

void ChiefActor::tell_live() {
  const Control now = live();
  if (now.texts == live_) return;
  live_ = now.texts;
  for (const auto& [name, node] : membership_.nodes()) {
    if (node.state == Membership::State::kUp) to_node(name, now);
  }
}

}  // namespace troupe::actors
