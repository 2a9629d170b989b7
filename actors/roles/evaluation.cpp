#include <troupe/actors/roles/evaluation.hpp>

#include <cmath>
#include <numeric>
#include <utility>

namespace troupe::actors {

ChannelSpec evaluations_channel(const std::string& evaluator, const std::string& metrics_role) {
  return {evaluator, kEvaluationsPort, metrics_role, kEvaluationsPort, kEvaluationsAhead};
}

std::vector<Scalar> values_of_returns(std::span<const double> returns) {
  const auto count = static_cast<double>(returns.size());
  const double mean = returns.empty() ? 0 : std::accumulate(returns.begin(), returns.end(), 0.0) / count;
  double squares = 0;
  for (const double value : returns) squares += (value - mean) * (value - mean);
  return {{"return", mean}, {"return_std", returns.empty() ? 0 : std::sqrt(squares / count)}, {"episodes", count}};
}

Result<bool> send_evaluation(RoleContext& context, const messages::EvaluationReport& report) {
  Outlet& evaluations = context.out(kEvaluationsPort);
  if (!evaluations.ready()) return false;
  TROUPE_ASSIGN(Frame frame, messages::make_evaluation(context.pool(), report));
  evaluations.send(std::move(frame));
  return true;
}

bool all_recorded(RoleContext& context) { return context.out(kEvaluationsPort).credits(0) == kEvaluationsAhead; }

}  // namespace troupe::actors
