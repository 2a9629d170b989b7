#pragma once
// From what a policy says to what an environment is told: the behaviour policy. A policy (learner/engine/policy.hpp) is
// the network alone; noise around its action, a draw from its distribution or the best of its values is chosen here,
// one environment at a time, in the env actor, whether the network runs there or in an inference server. An algorithm
// brings two: one that explores, for env actors, and one that does not, for the evaluator.
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include <troupe/core/error.hpp>
#include <troupe/core/tensor.hpp>

namespace troupe::acting {

/// Row `row` of what the policy was given and of what it said.
struct PolicyRow {
  const BatchView& inputs;
  const BatchView& outputs;
  std::int64_t row = 0;
  bool first = false;  ///< of its episode
};

/// Of one environment. Not thread-safe; allocates only when made.
class Exploration {
 public:
  virtual ~Exploration() = default;

  /// What choose() writes: the action, as the environment takes it, then the extras that items are to hold: a
  /// log-probability, a value, the recurrent state that acted.
  virtual const Signature& acted() const = 0;
  /// acted: a packed row of acted(). Outputs are finite. Errors end the instance.
  virtual Status choose(const PolicyRow& policy, std::span<std::byte> acted) = 0;

  /// Random state and whatever else choose() depends on, for checkpoints.
  virtual std::vector<std::byte> save_state() const = 0;
  /// Errors: kCorrupt; nothing changed.
  virtual Status restore_state(std::span<const std::byte> state) = 0;
};

/// Whose exploration it is.
struct Explorer {
  std::uint64_t seed = 0;
  std::int64_t index = 0;  ///< of the environment among all of the run, 0 .. count - 1
  std::int64_t count = 1;
};

using MakeExploration = std::function<Result<std::unique_ptr<Exploration>>(const Explorer&)>;

/// Does what the policy's output of the action's name says. Errors of choose(): kNotFound, when there is none.
MakeExploration no_exploration(TensorSpec action);

}  // namespace troupe::acting
