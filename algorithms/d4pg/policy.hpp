#pragma once
// D4PG's policy network by itself, for everyone who acts with what a trainer has published: env actors, inference
// servers, the evaluator, whoever renders.
#include <memory>

#include <troupe/algorithms/d4pg/options.hpp>
#include <troupe/core/error.hpp>
#include <troupe/learner/engine/policy.hpp>

namespace troupe::learner::d4pg {

/// What the policy takes and gives: observation float32[o] or pixels uint8[h, w, c], action float32[a].
PolicyColumns policy_columns(const Options& options);

/// The network of acting, from its input to its output: what make_policy() compiles and an export writes.
void build_policy(Graph& graph, const Options& options);

/// A policy network for `rows` rows, with parameters of 0 until load(): give it the trained program's values of
/// kPolicyGroup, from images also of control::kEncoderGroup, and their fingerprint. Errors: kInvalidArgument naming the
/// option.
Result<std::unique_ptr<Policy>> make_policy(const Options& options, const PolicyOptions& policy_options);

}  // namespace troupe::learner::d4pg
