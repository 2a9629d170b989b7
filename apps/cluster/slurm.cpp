// The Slurm reader of environment.hpp. The formats are those of `man srun`, OUTPUT ENVIRONMENT VARIABLES, and
// `man scontrol`, show hostnames.
#include <algorithm>
#include <charconv>
#include <numeric>
#include <optional>
#include <system_error>

#include <fmt/core.h>

#include <troupe/apps/cluster/environment.hpp>
#include <troupe/apps/cluster/place.hpp>
#include <troupe/core/text.hpp>

namespace troupe::apps {
namespace {

constexpr std::size_t kSlurmHostsMax = 65536;
constexpr std::int64_t kSlurmTasksMax = 4096;   // as many as a cluster may have nodes
constexpr std::size_t kHostNameBytesMax = 253;  // is_host()
/// Ports of a job: below the ones that Linux gives away by itself (from 32768), 64 for each job in turn.
constexpr std::int64_t kFirstPort = 20000;
constexpr std::int64_t kPorts = 12000;
constexpr std::int64_t kPortsPerJob = 64;

Error malformed(const std::string& text, std::size_t at, std::string_view expected) {
  return Error{Code::kInvalidArgument,
               fmt::format("\"{}\": at character {}: expected {}", printable(text), at + 1, expected)};
}

/// Digits at `at`, which is moved behind them; empty when there are none, or more than fit.
std::optional<std::int64_t> number_at(const std::string& text, std::size_t& at) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data() + at, text.data() + text.size(), value);
  if (error != std::errc() || value < 0 || text[at] == '-') return std::nullopt;
  at = static_cast<std::size_t>(end - text.data());
  return value;
}

std::size_t longest(const std::vector<std::string>& names) {
  return std::ranges::max_element(names, {}, &std::string::size)->size();
}

Error too_long(const std::string& text, std::size_t at) {
  return malformed(text, at, fmt::format("a host name of at most {} characters", kHostNameBytesMax));
}

/// "[01-03,7]" from `at`, which is moved behind it: "01", "02", "03", "7". A number keeps the width of its range's
/// first.
Result<std::vector<std::string>> bracket_at(const std::string& text, std::size_t& at) {
  std::vector<std::string> parts;
  do {
    ++at;  // the bracket, or a comma
    const std::size_t start = at;
    const auto first = number_at(text, at);
    if (!first) return malformed(text, at, "a number");
    const std::size_t width = at - start;
    if (width > kHostNameBytesMax) return too_long(text, start);
    auto last = first;
    if (at < text.size() && text[at] == '-') {
      last = number_at(text, ++at);
      if (!last || *last < *first) return malformed(text, at, "the end of an ascending range");
    }
    if (*last - *first >= static_cast<std::int64_t>(kSlurmHostsMax - parts.size())) {
      return malformed(text, start, fmt::format("at most {} hosts", kSlurmHostsMax));
    }
    for (std::int64_t i = 0; i <= *last - *first; ++i) parts.push_back(fmt::format("{:0{}}", *first + i, width));
  } while (at < text.size() && text[at] == ',');
  if (at >= text.size() || text[at] != ']') return malformed(text, at, "\"]\" or \",\"");
  ++at;
  return parts;
}

Result<std::string> variable(const Environment& environment, std::initializer_list<const char*> names) {
  for (const char* name : names) {
    if (const auto found = environment.find(name); found != environment.end()) return found->second;
  }
  return Error{Code::kInvalidArgument, fmt::format("Slurm: {} is not set: run the node with srun", *names.begin())};
}

Result<std::int64_t> number(const Environment& environment, const char* name) {
  TROUPE_ASSIGN(const std::string text, variable(environment, {name}));
  std::size_t at = 0;
  const auto value = number_at(text, at);
  if (!value || at != text.size()) {
    return Error{Code::kInvalidArgument, fmt::format("Slurm: {} is \"{}\", expected a number", name, printable(text))};
  }
  return *value;
}

/// The message of a list's parser, with the variable's name before it.
Error in_variable(const char* name, const Error& error) {
  return Error{error.code, fmt::format("Slurm: {}: {}", name, error.message)};
}

}  // namespace

Result<std::vector<std::string>> expand_host_list(const std::string& text) {
  std::vector<std::string> hosts;
  std::size_t at = 0;
  do {
    if (at > 0) ++at;  // the comma
    std::vector<std::string> names = {""};
    while (at < text.size() && text[at] != ',') {
      if (text[at] == '[') {
        TROUPE_ASSIGN(const std::vector<std::string> parts, bracket_at(text, at));
        if (names.size() * parts.size() > kSlurmHostsMax)
          return malformed(text, at, fmt::format("at most {} hosts", kSlurmHostsMax));
        if (longest(names) + longest(parts) > kHostNameBytesMax) return too_long(text, at);
        std::vector<std::string> longer;
        for (const std::string& name : names) {
          for (const std::string& part : parts) longer.push_back(name + part);
        }
        names = std::move(longer);
      } else {
        const std::size_t end = std::min(text.find_first_of("[,", at), text.size());
        if (longest(names) + (end - at) > kHostNameBytesMax) return too_long(text, at);
        for (std::string& name : names) name.append(text, at, end - at);
        at = end;
      }
    }
    for (std::string& name : names) {
      if (!is_host(name)) return malformed(text, at, "a host name before it");
      if (hosts.size() >= kSlurmHostsMax) return malformed(text, at, fmt::format("at most {} hosts", kSlurmHostsMax));
      hosts.push_back(std::move(name));
    }
  } while (at < text.size());
  return hosts;
}

Result<std::vector<std::int64_t>> expand_counts(const std::string& text) {
  std::vector<std::int64_t> counts;
  std::size_t at = 0;
  do {
    if (at > 0) ++at;  // the comma
    const auto count = number_at(text, at);
    if (!count || *count < 1 || *count > static_cast<std::int64_t>(kSlurmHostsMax)) {
      return malformed(text, at, fmt::format("a number of tasks, at most {}", kSlurmHostsMax));
    }
    std::int64_t times = 1;
    if (text.compare(at, 2, "(x") == 0) {
      at += 2;
      const auto repeat = number_at(text, at);
      if (!repeat || *repeat < 1 || at >= text.size() || text[at] != ')') return malformed(text, at, "\"(xN)\"");
      ++at;
      times = *repeat;
    }
    if (times > static_cast<std::int64_t>(kSlurmHostsMax - counts.size())) {
      return malformed(text, at, fmt::format("at most {} hosts", kSlurmHostsMax));
    }
    counts.insert(counts.end(), static_cast<std::size_t>(times), *count);
    if (at < text.size() && text[at] != ',') return malformed(text, at, "\",\"");
  } while (at < text.size());
  return counts;
}

Result<OwnPlace> slurm_place(const Environment& environment, const actors::TrainOptions& options) {
  TROUPE_ASSIGN(const std::int64_t rank, number(environment, "SLURM_PROCID"));
  TROUPE_ASSIGN(const std::int64_t tasks, number(environment, "SLURM_NTASKS"));
  TROUPE_ASSIGN(const std::int64_t job, number(environment, "SLURM_JOB_ID"));
  TROUPE_ASSIGN(const std::string host_list, variable(environment, {"SLURM_STEP_NODELIST", "SLURM_JOB_NODELIST"}));
  TROUPE_ASSIGN(const std::string count_list,
                variable(environment, {"SLURM_STEP_TASKS_PER_NODE", "SLURM_TASKS_PER_NODE"}));
  const auto hosts = expand_host_list(host_list);
  if (!hosts.ok()) return in_variable("SLURM_STEP_NODELIST", hosts.error());
  const auto counts = expand_counts(count_list);
  if (!counts.ok()) return in_variable("SLURM_STEP_TASKS_PER_NODE", counts.error());

  const std::int64_t total = std::accumulate(counts->begin(), counts->end(), std::int64_t{0});
  if (counts->size() != hosts->size() || total != tasks) {
    return Error{Code::kInvalidArgument,
                 fmt::format("Slurm: SLURM_STEP_TASKS_PER_NODE \"{}\" is {} tasks on {} hosts, expected {} on {} as "
                             "SLURM_NTASKS and SLURM_STEP_NODELIST say",
                             printable(count_list), total, counts->size(), tasks, hosts->size())};
  }
  if (tasks > kSlurmTasksMax) {
    return Error{Code::kInvalidArgument,
                 fmt::format("Slurm: SLURM_NTASKS is {}, expected at most {}", tasks, kSlurmTasksMax)};
  }
  if (rank >= tasks) {
    return Error{Code::kInvalidArgument,
                 fmt::format("Slurm: SLURM_PROCID is {}, but there are only {} tasks", rank, tasks)};
  }
  const std::int64_t first_port = kFirstPort + job % kPorts * kPortsPerJob % kPorts;
  std::vector<transport::Address> places;
  for (std::size_t h = 0; h < hosts->size(); ++h) {
    for (std::int64_t i = 0; i < (*counts)[h]; ++i) {
      // Ranks in blocks is srun's default; another distribution shows on one of the hosts at least.
      const bool own = static_cast<std::int64_t>(places.size()) == rank;
      const auto own_host = environment.find("SLURMD_NODENAME");
      if (own && own_host != environment.end() && own_host->second != (*hosts)[h]) {
        return Error{Code::kInvalidArgument,
                     fmt::format("Slurm: rank {} is on {}, expected {}: run the nodes with srun --distribution=block",
                                 rank, printable(own_host->second), (*hosts)[h])};
      }
      places.push_back({(*hosts)[h], static_cast<std::uint16_t>(first_port + i)});
    }
  }
  TROUPE_ASSIGN(ClusterSpec cluster, place_on(options, fmt::format("slurm-{}", job), places, "Slurm tasks"));
  std::string name = cluster.nodes[static_cast<std::size_t>(rank)].name;
  return OwnPlace{std::move(cluster), std::move(name)};
}

}  // namespace troupe::apps
