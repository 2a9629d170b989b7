#include <troupe/apps/run/memory_check.hpp>

#include <fmt/core.h>
#include <sys/resource.h>

#include <algorithm>
#include <fstream>
#include <limits>
#include <string>

#include <troupe/core/log.hpp>

namespace troupe::apps {
namespace {

// Resident bytes, measured with cartpole-swingup, the smallest environment, on Debian 12: 130, 190 and 352 MiB with 1,
// 200 and 600 env actors in one process, of which the copies of its policy are half.
constexpr std::uint64_t kProcess = 40'000'000;  // of a run without env actors, and of each further process
constexpr std::uint64_t kEnvActor = 200'000;    // its thread, simulation, ports and frames, without its policy
constexpr std::uint64_t kPolicyCopies = 3;      // parameters as they come, as they are used, and packed

std::uint64_t number_in(const std::string& file) {
  std::ifstream stream(file);
  std::uint64_t value = 0;
  return stream >> value ? value : std::numeric_limits<std::uint64_t>::max();  // absent, or "max"
}

/// Of hidden layers and what joins them; the first and the last are small.
std::uint64_t policy_bytes(const actors::TrainOptions& options) {
  std::uint64_t weights = 0, before = 0;
  for (const std::int64_t size : options.learner.policy_layers) {
    weights += (before + 1) * static_cast<std::uint64_t>(size);
    before = static_cast<std::uint64_t>(size);
  }
  return weights * sizeof(float);
}

std::string in_gigabytes(std::uint64_t bytes) { return fmt::format("{:.1f} GB", static_cast<double>(bytes) / 1e9); }

}  // namespace

std::uint64_t available_memory() {
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
  if (getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY) {
    available = std::min<std::uint64_t>(available, limit.rlim_cur);
  }
  return available == std::numeric_limits<std::uint64_t>::max() ? 0 : available;
}

std::uint64_t least_memory(const actors::TrainOptions& options, std::int64_t processes) {
  if (!actors::has_d4pg(options)) return 0;
  const std::uint64_t policy = options.actors.inference == "local" ? kPolicyCopies * policy_bytes(options) : 0;
  return static_cast<std::uint64_t>(processes) * kProcess +
         static_cast<std::uint64_t>(options.actors.count) * (kEnvActor + policy);
}

Status check_memory(const actors::TrainOptions& options, std::int64_t processes, std::uint64_t available) {
  const std::uint64_t least = least_memory(options, processes);
  if (available == 0 || least <= available / 2) return {};
  const std::string needs =
      fmt::format("{} env actors in {} {} need at least {} of memory, and {} are free", options.actors.count, processes,
                  processes == 1 ? "process" : "processes", in_gigabytes(least), in_gigabytes(available));
  if (least > available) {
    return Error{Code::kUnavailable, needs + "; take fewer (actors.count), or actors.inference = \"server\""};
  }
  log::warn("TRP-W106 {}", needs);
  return {};
}

}  // namespace troupe::apps
