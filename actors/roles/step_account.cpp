#include <troupe/actors/roles/step_account.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <optional>
#include <string_view>

namespace troupe::actors {
namespace {

/// As many as fit into one trajectory: less would only make more messages.
constexpr std::int64_t kLeastGrant = 16;
/// That a restored account waits for env actors which may never come: nodes that are not there.
constexpr Duration kWait = std::chrono::seconds(3);
/// More than any run has; each costs memory here.
constexpr std::uint32_t kMostActors = 1 << 16;

/// A counter for each env actor, "steps/INDEX", of an agent with a name "NAME/steps/INDEX". Older checkpoints have the
/// steps of its earlier incarnations apart.
constexpr std::string_view kTaken = "steps/";
constexpr std::string_view kBefore = "steps_before/";

std::string of_agent(const std::string& agent, std::string_view kind) {
  return agent.empty() ? std::string(kind) : fmt::format("{}/{}", agent, kind);
}

/// The number behind `prefix`, if that is all of the name.
std::optional<std::int64_t> index_behind(std::string_view prefix, std::string_view name) {
  std::int64_t index = 0;
  if (!name.starts_with(prefix)) return {};
  const auto [end, error] = std::from_chars(name.data() + prefix.size(), name.data() + name.size(), index);
  return error == std::errc() && end == name.data() + name.size() ? std::optional(index) : std::nullopt;
}

}  // namespace

Result<messages::StepsGrant> StepAccount::grant(const messages::StepsRequest& request,
                                                const std::function<bool(std::int64_t index)>& alive, Duration now) {
  if (request.producer >= kMostActors) {
    return Error{Code::kInvalidArgument,
                 fmt::format("steps request: got env actor {}, expected one below {}", request.producer, kMostActors)};
  }
  Actor& asks = by_index_[request.producer];
  // An account before this one has granted something, though no checkpoint tells of it.
  if (!asks.heard && request.allowed > 0 && restored_at_ < Duration::zero()) restored_ = true;
  asks.taken = std::max(asks.taken, request.taken);
  asks.allowed = std::max(asks.allowed, request.allowed);
  asks.heard = true;
  if (limit_ == 0) return messages::StepsGrant{asks.taken, messages::kMostSteps, false};

  std::int64_t living = 0;
  std::int64_t free = limit_ - asks.taken;
  for (auto& [index, actor] : by_index_) {
    const bool lives = &actor == &asks || alive(index);
    living += lives;
    // Its next incarnation asks again.
    if (!lives) actor.allowed = actor.taken;
    if (&actor != &asks) free -= std::max(actor.taken, actor.allowed);
  }
  if (knows_all(now)) {
    const std::int64_t part = std::max(free / (2 * std::max(actors_, living)), kLeastGrant);
    asks.allowed = std::max(asks.allowed, asks.taken + std::min({request.wanted, part, free}));
  }
  return messages::StepsGrant{asks.taken, asks.allowed, taken() >= limit_};
}

bool StepAccount::knows_all(Duration now) {
  if (!restored_) return true;
  if (restored_at_ < Duration::zero()) restored_at_ = now;
  const auto said = std::ranges::count_if(by_index_, [](const auto& entry) { return entry.second.heard; });
  restored_ = said < actors_ && now < restored_at_ + kWait;
  return !restored_;
}

void StepAccount::heard(std::int64_t index, std::int64_t taken) {
  Actor& actor = by_index_[index];
  actor.taken = std::max(actor.taken, taken);
}

std::int64_t StepAccount::taken() const {
  std::int64_t total = 0;
  for (const auto& [index, actor] : by_index_) total += actor.taken;
  return total;
}

void StepAccount::save(const std::string& agent, std::vector<messages::Counter>& counters) const {
  const std::string taken = of_agent(agent, kTaken);
  for (const auto& [index, actor] : by_index_) counters.push_back({fmt::format("{}{}", taken, index), actor.taken});
}

void StepAccount::restore(const std::string& agent, const std::vector<messages::Counter>& counters) {
  for (const messages::Counter& counter : counters) {
    for (const std::string& prefix : {of_agent(agent, kTaken), of_agent(agent, kBefore)}) {
      if (const auto index = index_behind(prefix, counter.name)) by_index_[*index].taken += counter.value;
    }
  }
  restored_ = !by_index_.empty();
}

std::int64_t total_env_steps(std::span<const messages::Counter> counters, const std::string& agent,
                             const std::string& actor_role, const std::string& metrics_role) {
  std::map<std::int64_t, std::int64_t> taken;
  const auto count = [&](std::optional<std::int64_t> index, std::int64_t steps) {
    if (index) taken[*index] = std::max(taken[*index], steps);
  };
  for (const messages::Counter& counter : counters) {
    const std::string_view name = counter.name;
    count(index_behind(fmt::format("{}/{}", metrics_role, of_agent(agent, kTaken)), name), counter.value);
    if (!name.ends_with("/env_steps")) continue;
    const std::string_view instance = name.substr(0, name.size() - std::string_view("/env_steps").size());
    count(instance == actor_role ? 0 : index_behind(actor_role + "-", instance), counter.value);
  }
  std::int64_t total = 0;
  for (const auto& [index, steps] : taken) total += steps;
  return total;
}

}  // namespace troupe::actors
