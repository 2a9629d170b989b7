#pragma once
// Acting: a compiled forward pass from observations to actions, used by env actors and the evaluator. It holds its own
// copy of the parameters, so a new version is taken between two actions and never during one.
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include <troupe/core/error.hpp>
#include <troupe/learner/engine/program.hpp>
#include <troupe/learner/graph/graph.hpp>
#include <troupe/learner/graph/param_buffer.hpp>

namespace troupe::learner {

struct PolicyOptions {
  std::int64_t rows = 1;   ///< observations in one call at most; a call costs that of `rows`, however few it has
  CompileOptions compile;  ///< shards 1 unless rows is in the hundreds
};

/// Not thread-safe; make one for each acting thread.
class Policy {
 public:
  /// The action for an observation, [rows, action_size], with parameters in exactly one group.
  using Network = std::function<Var(Graph& graph, Var observation)>;

  /// Errors: kInvalidArgument (rows, or the number of groups); what the graph or its compilation say.
  static Result<std::unique_ptr<Policy>> make(const Network& network, std::int64_t observation_size,
                                              const PolicyOptions& options);

  /// Copies parameters in. Errors: kShapeMismatch, naming both fingerprints or sizes; nothing changed.
  Status load(std::span<const float> parameters, std::uint64_t fingerprint);
  /// observations: [n, observation_size], actions: [n, action_size], 1 <= n <= rows. Without exploration noise.
  /// Allocates nothing. Errors: kShapeMismatch.
  Status act(std::span<const float> observations, std::span<float> actions);

  const ParamBuffer& parameters() const { return *parameters_; }
  std::int64_t observation_size() const { return observation_size_; }
  std::int64_t action_size() const { return action_size_; }

 private:
  Policy(std::unique_ptr<Program> program, std::int64_t rows, std::int64_t observation_size, std::int64_t action_size);

  std::unique_ptr<Program> program_;
  ParamBuffer* parameters_;
  std::int64_t rows_;
  std::int64_t observation_size_;
  std::int64_t action_size_;
  std::vector<float> observations_;  // the program's input: [rows, observation_size]; unused rows keep old values
};

}  // namespace troupe::learner
