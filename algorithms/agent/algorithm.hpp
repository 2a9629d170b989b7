#pragma once
// What an agent's algorithm is: a value that says how it acts, what items it makes of what happened, and what it learns
// from them. Roles know nothing else of it, so the topology, the configuration and every command are the same for the
// algorithms that ship and for a user's own (run/registry.hpp; docs/adding_an_algorithm.md is the worked example).
// It describes the flow env -> actor -> replay -> trainer -> parameter store -> actor once, from left to right.
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <troupe/algorithms/acting/exploration.hpp>
#include <troupe/core/error.hpp>
#include <troupe/core/tensor.hpp>
#include <troupe/envs/environment.hpp>
#include <troupe/learner/engine/policy.hpp>
#include <troupe/learner/replicate/replica.hpp>
#include <troupe/replay/adder.hpp>

namespace troupe {

/// What an algorithm is told of the run that it is made for.
struct AlgorithmContext {
  envs::EnvSpec environment;  ///< with the wrappers that the run's configuration lists
  /// Replay is prioritised: batches have a column "weight", float32 [], behind those of an item, by which a row's loss
  /// is multiplied (Schaul et al. 2016, section 3.4).
  bool importance_weights = false;
};

struct Algorithm {
  /// Puts further wrappers around an environment: envs::flattened, say. What follows is about the wrapped one. Null:
  /// none.
  std::function<envs::MakeEnvironment(envs::MakeEnvironment)> wrap = nullptr;

  /// What the policy takes and gives, and its network. The parameters of its groups, which it makes in this order, are
  /// those of the replica's groups `published`, whose versions go from the trainer to everyone who acts. They have
  /// these names in both graphs, and may follow others in the replica's: "policy.target" is Graph::target() of
  /// "policy".
  learner::PolicyColumns columns;
  learner::Policy::Network policy;
  std::vector<std::string> published = {"policy"};

  /// From the policy's outputs to the action: of env actors, and of evaluations. Both give the same columns.
  acting::MakeExploration explores, greedy;

  /// From time steps to items, the rows of replay, whose columns are those of the adder.
  replay::MakeAdder adder;
  /// 0: batches are drawn from all items that replay has, as its keys say. Else each item is learnt from once, in the
  /// order in which they came, and at most so many wait: env actors do when they are too far ahead, so that what is
  /// learnt is of a policy that is hardly older than the newest (IMPALA's queue, Espeholt et al. 2018; Reverb's
  /// Table.queue). At least a batch.
  std::int64_t queue = 0;

  /// What is trained, on batches of items; with AlgorithmContext::importance_weights they have that column too.
  std::function<Result<std::unique_ptr<learner::Replica>>(learner::InputFn)> make_replica;
  /// The step's output, float32 [rows], that becomes each row's new priority, >= 0, when replay is prioritised.
  std::string priority = "td_error";
};

using MakeAlgorithm = std::function<Result<Algorithm>(const AlgorithmContext&)>;

/// The columns of an item: those of `algorithm`'s adder for this environment, which is wrapped already.
/// Errors: those of its exploration and its adder.
Result<Signature> item_signature(const Algorithm& algorithm, const envs::EnvSpec& wrapped);
/// The columns of a batch of them, for make_replica.
Signature batch_signature(Signature item, const AlgorithmContext& context);

}  // namespace troupe
