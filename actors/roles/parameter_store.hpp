#pragma once
// The parameter store: keeps the newest version of the parameters for everyone who acts, and knows how stale the
// parameters were that data was made with. Last station of the flow learner -> parameter store -> actor. With several
// instances each holds one piece of every version; actors/roles/parameters_assembler.hpp says how readers get whole
// ones.
#include <memory>
#include <optional>
#include <vector>

#include <troupe/actors/roles/parameters_assembler.hpp>
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
/// Instance 0 alone announces versions, is told of their use by env actors, and reports staleness.
/// Holds at most two frames that a reader has missed, for each reader.
class ParameterStore final : public Role {
 public:
  static RoleSpec spec(std::string name, std::int64_t count);

  explicit ParameterStore(std::int64_t index) : index_(index) {}

  Result<Progress> step(RoleContext& context) override;
  void report(Report& report) const override;

 private:
  /// Errors: those of read_parameters(); kInvalidArgument: older than what was passed on.
  Result<messages::ParametersView> read_update(const Frame& frame) const;
  /// Sends each reader that has taken the piece before the next that it should have.
  void send_pieces(Outlet& outlet);

  std::int64_t index_;
  std::int64_t version_ = -1;
  std::optional<messages::ParametersView> newest_;  ///< a piece; for readers that come later
  std::vector<KeptPieces> missed_;                  ///< by reader: pieces that it has not been sent
  StalenessHistogram staleness_;                    ///< by environment steps
};

}  // namespace troupe::actors
