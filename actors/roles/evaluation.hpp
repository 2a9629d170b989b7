#pragma once
// How an evaluation leaves an evaluator: as one message on a lossless channel to the metrics role
// (actors/roles/metrics_actor.hpp), which gives the frame's credit back when the evaluation is in the files. So an
// evaluation is sent again when the metrics role goes down with it, and an evaluator knows when its last one is safe.
#include <cstdint>
#include <span>
#include <vector>

#include <troupe/actors/runtime/role.hpp>
#include <troupe/actors/runtime/topology.hpp>
#include <troupe/core/error.hpp>
#include <troupe/core/metrics.hpp>
#include <troupe/messages/reports.hpp>

namespace troupe::actors {

/// The outlet of an evaluator, and the inlet of the metrics role.
inline constexpr const char* kEvaluationsPort = "evaluations";
/// How many evaluations of one evaluator are under way at most. One more waits in the evaluator, which then evaluates
/// nothing else.
inline constexpr std::int64_t kEvaluationsAhead = 2;

/// The channel from `evaluator` to the metrics role of this name.
ChannelSpec evaluations_channel(const std::string& evaluator, const std::string& metrics_role);

/// What episodes say about a policy: "return", their mean; "return_std", the population standard deviation; "episodes".
std::vector<Scalar> values_of_returns(std::span<const double> returns);

/// Sends the evaluation if there is room. False: call again at the next step. Errors: those of make_evaluation().
Result<bool> send_evaluation(RoleContext& context, const messages::EvaluationReport& report);
/// Whether everything that was sent is recorded.
bool all_recorded(RoleContext& context);

}  // namespace troupe::actors
