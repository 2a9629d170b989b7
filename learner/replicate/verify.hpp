#pragma once
// Whether replicas that train together compute what one replica computes: the check for the mistakes that stay silent,
// a loss that is scaled wrongly, an optimiser that nobody wrapped, statistics that are each replica's own. Behind
// `troupe verify`, and for the tests of users' own replicas.
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <troupe/core/error.hpp>
#include <troupe/learner/replicate/make_replicator.hpp>
#include <troupe/learner/replicate/replica.hpp>

namespace troupe::learner {

/// Makes the replica under test; called once for each replica. Its input_fn must give rows [r B / N, (r + 1) B / N) of
/// the same global batches of B rows to replica r of N.
using ReplicaFactory = std::function<Result<std::unique_ptr<Replica>>()>;

struct VerifyOptions {
  std::vector<int> replicas = {1, 2, 4};  ///< numbers of replicas to compare with one
  std::int64_t steps = 3;                 ///< updates before parameters are compared
  /// How they run, one and many: kind, global_batch (at least as many rows as replicas), devices, compile, wire and
  /// deterministic. Several of kOneDevice run as kMultiDevice; a group's members are threads here, whose messages are
  /// those of members on different hosts.
  ReplicatorOptions how;
};

/// One variable, as two runs have it.
struct VariableDifference {
  std::string name;     ///< "critic/layer0/weight"
  double gradient = 0;  ///< largest |g_N - g_1| of the first step over its elements, relative to the largest |g_1|
  /// The same of the values after the last step, but for elements whose gradient was less than 1e-5 of the variable's
  /// largest in some step: that is rounding, of which optimisers like Adam make whole steps.
  double parameter = 0;
};

struct Equivalence {
  int replicas = 1;
  std::vector<VariableDifference> variables;  ///< all that are trained, in the order of their groups
  double largest() const;
};

/// Trains with each number of replicas and compares with one replica. float32 sums in another order differ by about
/// 1e-6; more than 1e-3 is a mistake in the replica, or a wire that rounds: bfloat16 keeps 8 bits of a gradient. With
/// how.deterministic 1, 2, 4 and 8 replicas do not differ at all.
/// Errors: kInvalidArgument (no replicas, more than rows, no steps, nothing that is trained); those of the replica.
Result<std::vector<Equivalence>> verify_equivalence(const ReplicaFactory& make, const VerifyOptions& options);

/// An input_fn for replicas whose data would come from elsewhere: float32 columns uniform in [0, 1), any bytes,
/// integers 0, by step and row of the global batch.
InputFn random_batches(Signature signature, std::uint64_t seed);

}  // namespace troupe::learner
