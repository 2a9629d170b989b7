#include <troupe/actors/roles/replica_results.hpp>

#include <algorithm>
#include <bit>
#include <map>
#include <string_view>

namespace troupe::actors {
namespace {

constexpr std::string_view kMetric = "metric/";

/// "NAME" or "NAME-<index>".
bool is_instance(std::string_view instance, std::string_view role) {
  if (!instance.starts_with(role)) return false;
  instance.remove_prefix(role.size());
  if (instance.empty()) return true;
  return instance.size() > 1 && instance[0] == '-' &&
         std::all_of(instance.begin() + 1, instance.end(), [](char c) { return c >= '0' && c <= '9'; });
}

struct Found {
  std::int64_t steps = -1;
  std::vector<Scalar> metrics;
};

Found furthest(std::string_view role, std::span<const messages::Counter> counters) {
  std::map<std::string_view, Found> instances;
  for (const messages::Counter& counter : counters) {
    const std::string_view name = counter.name;
    const std::size_t slash = name.find('/');
    if (slash == std::string_view::npos || !is_instance(name.substr(0, slash), role)) continue;
    Found& found = instances[name.substr(0, slash)];
    const std::string_view own = name.substr(slash + 1);
    if (own == "steps") found.steps = counter.value;
    if (own.starts_with(kMetric)) {
      found.metrics.push_back({std::string(own.substr(kMetric.size())), std::bit_cast<double>(counter.value)});
    }
  }
  Found best;
  for (auto& [instance, found] : instances) {
    if (found.steps > best.steps) best = std::move(found);
  }
  return best;
}

}  // namespace

std::vector<messages::Counter> metric_counters(std::span<const Scalar> metrics) {
  std::vector<messages::Counter> counters;
  for (const Scalar& metric : metrics) {
    counters.push_back({std::string(kMetric) + metric.name, std::bit_cast<std::int64_t>(metric.value)});
  }
  return counters;
}

std::vector<Scalar> scalars(std::span<const std::string> names, std::span<const double> values) {
  std::vector<Scalar> all;
  for (std::size_t i = 0; i < names.size(); ++i) all.push_back({names[i], values[i]});
  return all;
}

ReplicaSummary replica_summary(const std::string& name, std::span<const messages::Counter> counters) {
  Found trained = furthest(name, counters), evaluated = furthest(name + "-evaluator", counters);
  return {name, std::max<std::int64_t>(trained.steps, 0), std::move(trained.metrics), evaluated.steps,
          std::move(evaluated.metrics)};
}

}  // namespace troupe::actors
