#pragma once
// A run of any number of instances in few lines: what each role does together, and what goes through each channel. It
// is what people see first, on the page, in a terminal and in Prometheus.
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include <troupe/core/metrics.hpp>
#include <troupe/page/seen_run.hpp>

namespace troupe::page {

struct RoleView {
  std::string name;
  std::map<std::string, std::int64_t> states;  ///< "up": 3
  std::int64_t instances = 0, restarts = 0;
  std::int64_t waiting = 0;        ///< have waited for half a second or more
  double longest_idle_s = -1;      ///< of those; < 0: nobody waits
  std::string longest, waits_for;  ///< who that is, and on which port
  std::string why;                 ///< its own words; where nobody waits, of one that says what it is in
  std::int64_t version = -1;       ///< the oldest of the instances'; -1: they have none
  std::int64_t staleness = -1;     ///< the greatest
  std::string error;               ///< of the first that is not up and has one
};

struct ChannelView {
  SeenChannel channel;
  double depth = 0;  ///< messages that wait at its consumers, all together
  double frames_per_s = 0, bytes_per_s = 0;
  std::int64_t producers_waiting = 0, consumers_waiting = 0;  ///< instances that wait for room, and for messages
  double longest_s = 0;                                       ///< of these
};

struct Overview {
  std::vector<RoleView> roles;        ///< in the order of their first instance
  std::vector<ChannelView> channels;  ///< in the topology's order
};

/// An instance that waits for less is only between two messages.
inline constexpr double kWaitsFrom_s = 0.5;

/// `traffic`: the newest of channels.csv. It stands in for what instances have not said: those of a deterministic run,
/// which nobody asks.
Overview overview_of(const SeenRun& run, const std::vector<PortTraffic>& traffic = {});

/// What is wrong now, the worst first: what keeps the chief from its work, instances that are down, groups that hang.
/// At most 20 lines.
std::vector<std::string> alarms_of(const SeenRun& run);

}  // namespace troupe::page
