#include <algorithm>

#include <troupe/core/check.hpp>
#include <troupe/tests/actors/simulation_impl.hpp>

namespace troupe::actors::testing {
namespace {

/// After which a connection on which nothing gets through is given up, and what a new one takes.
constexpr Duration kStall = std::chrono::seconds(5);
constexpr Duration kConnectLeast = std::chrono::milliseconds(1);
constexpr Duration kConnectMost = std::chrono::milliseconds(30);
constexpr Duration kResetMost = std::chrono::milliseconds(2);

enum Kind : int { kControlLane, kUrgentLane, kBulkLane, kGroupLane };

int lane_of(const RemoteMessage& message) {
  if (std::holds_alternative<messages::Control>(message)) return kControlLane;
  if (std::holds_alternative<GroupMessage>(message)) return kGroupLane;
  return std::holds_alternative<CreditMessage>(message) ? kUrgentLane : kBulkLane;
}

}  // namespace

void Simulation::ProcessNetwork::send(const std::string& node, RemoteMessage message) {
  if (process_.alive && !process_.dying) simulation_.send(process_, node, std::move(message));
}

void Simulation::ProcessNetwork::know(const std::vector<messages::ControlNode>& nodes) {
  std::set<std::string> gone;
  for (const auto& [name, node] : process_.known) gone.insert(name);
  for (const auto& node : nodes) gone.erase(node.name);
  know_more(nodes, {gone.begin(), gone.end()});
}

void Simulation::ProcessNetwork::know_more(const std::vector<messages::ControlNode>& nodes,
                                           const std::vector<std::string>& gone) {
  const auto drop_lanes = [this](const std::string& node) {
    for (const int kind : {kUrgentLane, kBulkLane, kGroupLane}) {
      const auto lane = process_.lanes.find({node, kind});
      if (lane == process_.lanes.end()) continue;
      if (const auto there = simulation_.lanes_.find(lane->second); there != simulation_.lanes_.end()) {
        simulation_.remove(*there->second);
      }
      process_.lanes.erase(lane);
    }
  };
  for (const messages::ControlNode& node : nodes) {
    if (node.name == process_.name || node.port == 0) continue;
    const auto known = process_.known.find(node.name);
    if (known != process_.known.end() && known->second == node) continue;
    drop_lanes(node.name);
    process_.known[node.name] = node;
  }
  for (const std::string& name : gone) {
    drop_lanes(name);
    process_.known.erase(name);
  }
}

void Simulation::send(Process& from, const std::string& node, RemoteMessage message) {
  const int kind = lane_of(message);
  if (const auto* control = std::get_if<messages::Control>(&message)) {
    ++traffic_.control;
    traffic_.entries +=
        control->nodes.size() + control->edges.size() + control->instances.size() + control->texts.size();
  } else {
    ++traffic_.data;
  }
  if (kind == kControlLane) {
    const auto found = from.lines.find({node, from.chief ? std::get<messages::Control>(message).birth : 0});
    if (found == from.lines.end()) return;
    Lane& lane = *lines_.at(found->second)->lane;
    lane.queue.emplace_back(Duration::zero(), std::move(message));
    return transmit(lane);
  }
  const auto known = from.known.find(node);
  if (known == from.known.end()) return;
  std::uint64_t& id = from.lanes[{node, kind}];
  if (id == 0) {
    id = ++sequence_;
    auto lane = std::make_unique<Lane>();
    lane->id = id;
    lane->from = from.birth;
    lane->from_node = from.name;
    lane->node = node;
    lane->to = known->second.birth;
    lanes_of_[from.name].insert(id);
    lanes_of_[node].insert(id);
    lanes_[id] = std::move(lane);
  }
  Lane& lane = *lanes_.at(id);
  lane.queue.emplace_back(Duration::zero(), std::move(message));
  transmit(lane);
}

/// The newest message of the lane sets out.
void Simulation::transmit(Lane& lane) {
  const Duration before = lane.queue.size() < 2 ? Duration::zero() : lane.queue[lane.queue.size() - 2].first;
  lane.queue.back().first = std::max(before, now_ + random(options_.least_delay, options_.most_delay));
  at(lane.queue.back().first, [this, id = lane.id] { pump(id); });
}

void Simulation::pump(std::uint64_t id) {
  for (;;) {
    const auto found = lanes_.find(id);
    if (found == lanes_.end()) return;
    Lane& lane = *found->second;
    if (lane.queue.empty()) {
      if (lane.orphan) remove(lane);
      return;
    }
    if (lane.queue.front().first > now_ || blocked(lane.from_node, lane.node)) return;
    const auto to = processes_.find(lane.control == nullptr ? lane.to : lane.control->connected);
    if (to == processes_.end() || !to->second->alive || to->second->stopped) return;
    if (!lane.orphan && processes_.at(lane.from)->stopped) return;
    RemoteMessage message = std::move(lane.queue.front().second);
    lane.queue.pop_front();
    note("deliver", to->second->birth, (lane.from << 8) | message.index());
    const std::string from = lane.from_node;
    deliver(*to->second, from, std::move(message));
  }
}

/// As the runtime and the real network do it.
void Simulation::deliver(Process& to, const std::string& from, RemoteMessage message) {
  wake(to);
  if (auto* control = std::get_if<messages::Control>(&message)) {
    if (to.chief && control->kind == messages::ControlKind::kJoin) {
      line(to, from, control->nodes.front().port, control->birth);
    }
    caf::anon_send(to.chief ? to.chief : to.hands, control_atom::value, from, std::move(*control));
  } else if (const auto* marker = std::get_if<MarkerMessage>(&message)) {
    caf::anon_send(to.hands, marker_atom::value, from, marker->cut);
  } else if (auto* group = std::get_if<GroupMessage>(&message)) {
    TROUPE_CHECK(group->lent == nullptr, "the simulation's collectives are too small to lend anything");
    to.groups.deliver(from, std::move(*group));
  } else {
    to.routes.deliver(from, std::move(message));
  }
}

Simulation::ControlLine& Simulation::line(Process& from, const std::string& node, std::uint16_t port,
                                          std::uint64_t birth) {
  if (const auto known = from.lines.find({node, birth}); known != from.lines.end()) return *lines_.at(known->second);
  auto lane = std::make_unique<Lane>();
  lane->id = ++sequence_;
  lane->from = from.birth;
  lane->from_node = from.name;
  lane->node = node;
  auto made = std::make_unique<ControlLine>();
  made->id = ++sequence_;
  made->from = from.birth;
  made->node = node;
  made->port = port;
  made->birth = birth;
  made->lane = lane.get();
  lane->control = made.get();
  for (const std::string& end : {from.name, node}) {
    lanes_of_[end].insert(lane->id);
    lines_of_[end].insert(made->id);
  }
  lanes_[lane->id] = std::move(lane);
  from.lines[{node, birth}] = made->id;
  ControlLine& line = *made;
  lines_[made->id] = std::move(made);
  watch(line);
  return line;
}

bool Simulation::reachable(const Process& from, const Process* to) const {
  return to != nullptr && to->alive && !to->stopped && !from.stopped && !blocked(from.name, to->name) &&
         !blocked(to->name, from.name);
}

/// Sees to it that a control connection is made, or lost, when that is due.
void Simulation::watch(ControlLine& line) {
  const Process& from = *processes_.at(line.from);
  if (line.connected == 0) {
    if (line.connecting || !reachable(from, at_port(line.node, line.port))) return;
    line.connecting = true;
    at(now_ + random(kConnectLeast, kConnectMost), [this, id = line.id] {
      const auto found = lines_.find(id);
      if (found == lines_.end()) return;
      ControlLine& line = *found->second;
      line.connecting = false;
      Process& from = *processes_.at(line.from);
      const Process* const to = at_port(line.node, line.port);
      if (!reachable(from, to)) return;
      line.connected = to->birth;
      note("found", from.birth, to->birth);
      wake(from);
      caf::anon_send(from.chief ? from.chief : from.hands, found_atom::value, line.node, line.birth);
      pump(line.lane->id);
    });
    return;
  }
  const Process& to = *processes_.at(line.connected);
  if (line.losing || reachable(from, &to)) return;
  const bool closed = !to.alive && !blocked(from.name, to.name) && !blocked(to.name, from.name);
  line.losing = true;
  at(now_ + (closed ? random(Duration::zero(), kResetMost) : kStall), [this, id = line.id] {
    const auto found = lines_.find(id);
    if (found == lines_.end()) return;
    ControlLine& line = *found->second;
    line.losing = false;
    Process& from = *processes_.at(line.from);
    if (line.connected == 0 || reachable(from, processes_.at(line.connected).get())) return;
    line.connected = 0;
    line.lane->queue.clear();
    note("lost", from.birth, line.id);
    wake(from);
    caf::anon_send(from.chief ? from.chief : from.hands, lost_atom::value, line.node, line.birth);
    watch(line);
  });
}

void Simulation::watch_node(const std::string& node) {
  const std::set<std::uint64_t> lines = lines_of_[node];
  for (const std::uint64_t id : lines) watch(*lines_.at(id));
  for (const std::uint64_t id : lanes_of_[node]) {
    if (lanes_.at(id)->queue.empty()) continue;
    at(now_ + random(options_.least_delay, options_.most_delay), [this, id] { pump(id); });
  }
}

void Simulation::remove(const Lane& lane) {
  const std::uint64_t id = lane.id;
  lanes_of_[lane.from_node].erase(id);
  lanes_of_[lane.node].erase(id);
  lanes_.erase(id);
}

void Simulation::block(const std::string& from, const std::string& to, bool blocked) {
  note("block", blocked, from.size() + to.size());
  if (blocked) {
    blocks_.insert({from, to});
  } else {
    blocks_.erase({from, to});
  }
  watch_node(from);
}

void Simulation::heal() {
  blocks_.clear();
  failing_disks_.clear();
  dies_in_write_.clear();
  std::set<std::string> all;
  for (auto& [birth, process] : processes_) {
    all.insert(process->name);
    if (std::exchange(process->stopped, false)) wake(*process);
  }
  for (const std::string& node : all) watch_node(node);
}

void Simulation::reset(const std::string& node) {
  for (auto& [id, line] : lines_) {
    Process& from = *processes_.at(line->from);
    if (line->connected == 0 || (from.name != node && line->node != node)) continue;
    line->connected = 0;
    // Each message was either still under way or had just arrived.
    line->lane->queue.clear();
    note("reset", from.birth, id);
    wake(from);
    caf::anon_send(from.chief ? from.chief : from.hands, lost_atom::value, line->node, line->birth);
    watch(*line);
  }
}

void Simulation::set_delays(Duration least, Duration most) {
  options_.least_delay = least;
  options_.most_delay = most;
}

void Simulation::fail_writes(const std::string& node, bool fail) {
  if (fail) {
    failing_disks_.insert(node);
  } else {
    failing_disks_.erase(node);
  }
}

}  // namespace troupe::actors::testing
