#pragma once
// The parameter store: keeps the newest version of the parameters for everyone who acts, and knows how stale the
// parameters were that data was made with. Last station of the flow learner -> parameter store -> actor.
#include <cstdint>
#include <string>

#include <troupe/actors/runtime/topology.hpp>
#include <troupe/core/staleness_histogram.hpp>

namespace troupe::actors {

/// Gauges staleness_mean, staleness_p50, staleness_p90, staleness_p99 and staleness_max, of all uses so far.
void report_staleness(const StalenessHistogram& staleness, Report& report);

/// Ports: in updates (latest, Parameters), use (stream, ParametersUse; always drained); out versions (latest,
/// ParametersVersion: ahead of the parameters themselves), parameters (latest, Parameters), refused (latest,
/// ParametersVersion). Versions only grow: an update that is older than what was passed on is refused, and `refused`
/// says which version it has to reach. A learner that its group had left behind, and that has survived it, learns so
/// how far the others had come.
class ParameterStore final : public Role {
 public:
  static RoleSpec spec(std::string name);

  Result<Progress> step(RoleContext& context) override;
  void report(Report& report) const override;

 private:
  /// The version of an update. Errors: those of read_parameters(); kInvalidArgument: older than what was passed on.
  Result<std::int64_t> read_update(const Frame& frame) const;

  std::int64_t version_ = -1;
  StalenessHistogram staleness_;  ///< by environment steps
};

}  // namespace troupe::actors
