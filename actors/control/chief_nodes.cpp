// The chief and its nodes: who is let in, what it is told then and whenever its connection was broken, and which nodes
// hear of each other.
#include <troupe/actors/control/chief_actor.hpp>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include <troupe/core/log.hpp>

namespace troupe::actors {

using messages::Control;
using messages::ControlKind;

namespace {

/// How many instances of each elastic role a node that joins would host.
std::int64_t instances_offered(const Control& join) { return join.counters.empty() ? 1 : join.counters.front().value; }

}  // namespace

std::string ChiefActor::declared_dead(const std::string& node, std::uint32_t incarnation) {
  return fmt::format("TRP-F111 this process was declared dead (incarnation {} of {}); exiting so that it cannot write",
                     incarnation, node);
}

std::uint64_t ChiefActor::heartbeat_ms() const {
  return static_cast<std::uint64_t>(
      std::chrono::duration_cast<std::chrono::milliseconds>(membership_.heartbeat()).count());
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

void ChiefActor::refuse(const std::string& node, std::uint64_t birth, Error why, bool fenced) {
  Control refusal = order(ControlKind::kRefuse);
  refusal.birth = birth;
  refusal.code = why.code;
  refusal.text = std::move(why.message);
  refusal.fenced = fenced;
  to_node(node, std::move(refusal));
}

std::optional<Error> ChiefActor::misfit(const std::string& node, const Control& message) const {
  const auto wrong = [](std::string text) { return Error{Code::kInvalidArgument, std::move(text)}; };
  if (message.protocol != messages::kControlProtocol) {
    return wrong(fmt::format("TRP-E160 peer speaks protocol {}, this node {}: upgrade one of them", message.protocol,
                             messages::kControlProtocol));
  }
  if (message.config_hash != options_.node.config_hash) {
    return wrong(
        fmt::format("TRP-E162 node {} has another configuration than the run (hash {:016x}, expected {:016x}): start "
                    "it with the run's config.toml",
                    node, message.config_hash, options_.node.config_hash));
  }
  const bool placed = planned_nodes_.contains(node);
  if (!placed && elastic_roles(message).empty()) {
    return wrong(fmt::format("TRP-E163 node {} is not part of this run", node));
  }
  const std::int64_t instances = instances_offered(message);
  if (!placed && on_node(node).empty() && (instances < 1 || instances > messages::kMaxElasticInstances)) {
    return wrong(fmt::format("TRP-E163 node {} offers to host {} instances, expected 1 .. {}", node, instances,
                             messages::kMaxElasticInstances));
  }
  if (!remote(node)) return std::nullopt;
  for (const std::size_t place : on_node(node)) {
    const Instance& instance = instances_[place];
    if (std::ranges::find(message.texts, instance.id.role) != message.texts.end()) continue;
    return wrong(fmt::format("TRP-E164 node {} is to run {}, but its certificate is for the roles {}", node,
                             instance.name, fmt::join(message.texts, "+")));
  }
  return std::nullopt;
}

bool ChiefActor::becomes_member(Joining& joining) {
  const std::string& node = joining.node;
  const Control& message = joining.request;
  const Membership::Node* const before = membership_.find(node);
  joining.again = before != nullptr && before->state == Membership::State::kUp && before->birth == message.birth;
  joining.verdict = membership_.join(node, message.birth, message.incarnation, clock_.now());
  switch (joining.verdict) {
    case Membership::Verdict::kFenced:
      refuse(node, message.birth, Error{Code::kCancelled, declared_dead(node, message.incarnation)}, true);
      return false;
    case Membership::Verdict::kTaken: {
      const auto& holder = addresses_[node];
      refuse(
          node, message.birth,
          Error{Code::kUnavailable, fmt::format("TRP-E161 node id {} is already in use by {}:{} (incarnation {})", node,
                                                holder.host, holder.port, membership_.find(node)->incarnation)});
      return false;
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
  return true;
}

bool ChiefActor::admit(Joining& joining, bool& news) {
  const std::string& node = joining.node;
  const Control& message = joining.request;
  if (auto wrong = misfit(node, message)) {
    refuse(node, message.birth, *std::move(wrong));
    return false;
  }
  if (!unkept_.empty()) {
    put_off(joining);
    return false;
  }
  if (!becomes_member(joining)) return false;
  const std::uint32_t incarnation = membership_.find(node)->incarnation;
  if (!message.nodes.empty()) addresses_[node] = message.nodes.front();
  hosts_[node] = message.text;
  addresses_[node].name = node;
  addresses_[node].incarnation = incarnation;
  addresses_[node].birth = message.birth;
  if (!remote(node)) own_node_ = joining.hands;
  news |= std::exchange(journal_.nodes[node], incarnation) != incarnation;
  // The instances of one that was here before stay as they are.
  if (!planned_nodes_.contains(node) && on_node(node).empty()) {
    for (const RoleSpec* const role : elastic_roles(message)) {
      for (std::int64_t i = 0; i < instances_offered(message); ++i) add_elastic(*role, node);
    }
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
  membership_.heard(joining.node, clock_.now(), joining.request.incarnation);
  answered_.erase(joining.node);
  unconfirmed_.erase(joining.node);  // else it would be welcomed when its connection comes back
  refuse(joining.node, joining.request.birth, Error{Code::kUnavailable, journal_trouble()});
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
    welcome.number = heartbeat_ms();
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
  if (options_.node.network == nullptr) return;
  Control change = order(ControlKind::kNodes);
  if (const auto there = whereabouts(name)) {
    change.nodes = {*there};
  } else {
    change.texts = {name};
  }
  std::set<std::string> whom = neighbours(name);
  if (remote(name)) whom.insert(kChiefNode);  // our own network knows all
  for (const std::string& node : whom) {
    if (membership_.up(node)) to_node(node, change);
  }
}

void ChiefActor::tell_of_neighbours(const std::string& node) {
  if (options_.node.network == nullptr) return;
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

}  // namespace troupe::actors
