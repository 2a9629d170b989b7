#include <troupe/run/memory_check.hpp>

#include <fmt/core.h>
#include <sys/resource.h>

#include <algorithm>
#include <fstream>
#include <limits>
#include <string>

#include <troupe/core/log.hpp>
#include <troupe/run/agent_topology.hpp>

namespace troupe::apps {
namespace {

// Resident bytes, measured with cartpole-swingup, the smallest environment, on Debian 12: 130, 190 and 352 MiB with 1,
// 200 and 600 env actors in one process, of which the copies of its policy are half; 443 MB with one of 2,000
// environments.
constexpr std::uint64_t kProcess = 40'000'000;        // of a run without env actors, and of each further process
constexpr std::uint64_t kEnvActor = 200'000;          // its thread, simulation, ports and frames, without its policy
constexpr std::uint64_t kEnvironment = 150'000;       // each further one of an env actor
constexpr std::uint64_t kEnvActorArena = 12'000'000;  // of addresses: 22 MB with a stack of 8
constexpr std::uint64_t kPolicyCopies = 3;            // parameters as they come, as they are used, and packed

std::uint64_t number_in(const std::string& file) {
  std::ifstream stream(file);
  std::uint64_t value = 0;
  return stream >> value ? value : std::numeric_limits<std::uint64_t>::max();  // absent, or "max"
}

/// Of an agent's policy, which is made for that. An agent that cannot be made says so elsewhere.
std::uint64_t policy_bytes(const actors::AgentOptions& options) {
  const auto agent = actors::make_agent(options);
  if (!agent.ok()) return 0;
  const auto policy = agent->make_policy(1, learner::Device{});
  return policy.ok() ? static_cast<std::size_t>((*policy)->layout().elements) * sizeof(float) : 0;
}

std::int64_t env_actors(const actors::TrainOptions& options) {
  std::int64_t count = 0;
  for (const actors::AgentOptions& agent : options.agents) count += agent.actors.count;
  return count;
}

/// Of replay's rows on a device whose memory is the host's.
std::uint64_t kept_row_bytes(const actors::AgentOptions& options) {
  if (!options.replay.device[0].starts_with("pjrt:cpu")) return 0;
  const auto agent = actors::make_agent(options);
  if (!agent.ok()) return 0;
  const auto row = static_cast<std::uint64_t>(row_bytes(agent->item));
  const std::uint64_t all = row * static_cast<std::uint64_t>(options.replay.max_items);
  return options.replay.max_bytes > 0 ? std::min(all, static_cast<std::uint64_t>(options.replay.max_bytes)) : all;
}

std::string in_gigabytes(std::uint64_t bytes) { return fmt::format("{:.1f} GB", static_cast<double>(bytes) / 1e9); }

}  // namespace

AvailableMemory available_memory() {
  std::uint64_t available = std::numeric_limits<std::uint64_t>::max();
  std::ifstream meminfo("/proc/meminfo");
  for (std::string name, unit; meminfo >> name;) {
    std::uint64_t kilobytes = 0;
    meminfo >> kilobytes;
    std::getline(meminfo, unit);
    if (name == "MemAvailable:") available = kilobytes * 1024;
  }
  const std::uint64_t group = number_in("/sys/fs/cgroup/memory.max");
  const std::uint64_t used = number_in("/sys/fs/cgroup/memory.current");
  if (group != std::numeric_limits<std::uint64_t>::max() && used <= group)
    available = std::min(available, group - used);
  rlimit limit{};
  const bool limited = getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY;
  return {available == std::numeric_limits<std::uint64_t>::max() ? 0 : available, limited ? limit.rlim_cur : 0};
}

std::uint64_t least_memory(const actors::TrainOptions& options, std::int64_t processes) {
  if (options.agents.empty()) return 0;
  std::uint64_t bytes = static_cast<std::uint64_t>(processes) * kProcess;
  for (const actors::AgentOptions& agent : options.agents) {
    const std::uint64_t policy = agent.actors.inference == "local" ? kPolicyCopies * policy_bytes(agent) : 0;
    const auto more = static_cast<std::uint64_t>(agent.actors.envs_per_actor - 1) * kEnvironment;
    bytes += static_cast<std::uint64_t>(agent.actors.count) * (kEnvActor + more + policy);
  }
  return bytes;
}

std::uint64_t least_addresses(const actors::TrainOptions& options, std::int64_t processes) {
  if (options.agents.empty() || processes != 1) return 0;
  rlimit stack{};
  const bool known = getrlimit(RLIMIT_STACK, &stack) == 0 && stack.rlim_cur != RLIM_INFINITY;
  return static_cast<std::uint64_t>(env_actors(options)) * (kEnvActorArena + (known ? stack.rlim_cur : 0));
}

Status check_memory(const actors::TrainOptions& options, std::int64_t processes, AvailableMemory available) {
  const auto check = [&](std::uint64_t least, std::uint64_t most, std::string_view what,
                         std::string_view are) -> Status {
    if (most == 0 || least <= most / 2) return {};
    const std::string needs =
        fmt::format("{} env actors in {} {} need at least {} of {}, and {} are {}", env_actors(options), processes,
                    processes == 1 ? "process" : "processes", in_gigabytes(least), what, in_gigabytes(most), are);
    if (least > most) {
      return Error{Code::kUnavailable,
                   needs + "; take fewer (actors.count, actors.envs_per_actor), or actors.inference = \"server\""};
    }
    log::warn("TRP-W106 {}", needs);
    return {};
  };
  for (const actors::AgentOptions& agent : options.agents) {
    const std::uint64_t rows = kept_row_bytes(agent);
    if (available.bytes == 0 || rows <= available.bytes) continue;
    return Error{
        Code::kUnavailable,
        fmt::format("{}replay.device {} takes {} of memory for its rows at the start, and {} are free; take less "
                    "(replay.max_items, replay.max_bytes)",
                    section_prefix(agent), agent.replay.device[0], in_gigabytes(rows), in_gigabytes(available.bytes))};
  }
  TROUPE_TRY(check(least_memory(options, processes), available.bytes, "memory", "free"));
  return check(least_addresses(options, processes), available.addresses, "address space", "allowed (ulimit -v)");
}

}  // namespace troupe::apps
