#pragma once
// A hang has a name: the one place that says which ranks a collective waits for and what they do instead. Every back
// end logs it once a call after kVerdictAfter, and gives it as the message of kDeadlineExceeded.
#include <chrono>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include <troupe/collectives/activity.hpp>
#include <troupe/collectives/call.hpp>
#include <troupe/collectives/communicator.hpp>

namespace troupe::collectives {

/// How long a rank waits in a call before it says for whom.
constexpr Duration kVerdictAfter = std::chrono::seconds(2);

/// A rank that others wait for.
struct MissingRank {
  int rank = 0;
  bool has_entered = false;               ///< it has, but does not go on
  std::optional<Activity::Now> now = {};  ///< empty: it cannot be asked
  std::optional<Duration> silent = {};    ///< it was asked, and nothing has come from it for this long
};

/// "step 412: rank 3 (node B, learner-1) has not entered all_reduce(D/block2/conv1); it is in input_fn for 7.1 s", or
/// "... it does not answer for 2.0 s". Of several, each by its own clause. step: the waiting rank's; view: names of
/// members come from it.
std::string verdict(std::int64_t step, const GroupView& view, const Call& call, std::span<const MissingRank> missing);

/// "all_reduce(D/block2/conv1)": what a rank that waits in the call is at, for its Activity.
std::string activity_of(const Call& call);

}  // namespace troupe::collectives
