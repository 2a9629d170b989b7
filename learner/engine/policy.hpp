#pragma once
// Acting: a compiled forward pass from observations to actions, used by env actors, inference servers and the
// evaluator. It holds its own copy of the parameters, so a new version is taken between two actions and never during
// one.
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include <troupe/core/error.hpp>
#include <troupe/core/tensor.hpp>
#include <troupe/learner/engine/program.hpp>
#include <troupe/learner/graph/graph.hpp>
#include <troupe/learner/graph/param_buffer.hpp>

namespace troupe::learner {

/// What goes into a policy and what comes out, a row for each environment. An input that the environment does not
/// observe is recurrent state: zero at the start of an episode, and then the output of its name of the step before.
struct PolicyColumns {
  Signature inputs;   ///< float32, int32 or uint8, as the graph's inputs
  Signature outputs;  ///< float32: the action, or what it is chosen from; a log-probability, recurrent state, ...
};

struct PolicyOptions {
  std::int64_t rows = 1;   ///< of one call at most; a call costs that of `rows`, however few it has
  CompileOptions compile;  ///< stripes 1 unless rows is in the hundreds
};

/// Not thread-safe; make one for each acting thread.
class Policy {
 public:
  /// Builds the network: graph.input() of the columns that it reads, graph.output() of those that it gives, and
  /// parameters in the groups that are published (Algorithm::published), made in that order; mostly one. State, such as
  /// statistics to normalise with, has names that begin with a group's, by which those of the trainer are published
  /// with its parameters: "policy/norm/mean".
  using Network = std::function<void(Graph& graph)>;

  /// Errors: kInvalidArgument (rows, no group, state of another name, or a dtype that no graph takes);
  /// kShapeMismatch or kNotFound when the network reads or gives other columns; what the graph or its compilation say.
  static Result<std::unique_ptr<Policy>> make(const Network& network, PolicyColumns columns,
                                              const PolicyOptions& options);

  /// Copies in the values of layout(). Before, what would be drawn is 0. Errors: kShapeMismatch, and nothing changed.
  Status load(std::span<const float> parameters, std::uint64_t fingerprint);
  /// inputs: 1 .. rows() rows of columns().inputs, outputs: as many of columns().outputs. Their signatures are the
  /// caller's to check, once. Without exploration. Allocates nothing. Errors: kShapeMismatch.
  Status act(const BatchView& inputs, const MutableBatchView& outputs);

  /// Of what load() takes: the groups' parameters, and the state that is published with them (published_layout()).
  const ParamLayout& layout() const { return layout_; }
  std::uint64_t fingerprint() const { return fingerprint_; }
  /// The values that it acts with, in that layout.
  std::vector<float> values() const;
  const PolicyColumns& columns() const { return columns_; }
  std::int64_t rows() const { return rows_; }

 private:
  Policy(std::unique_ptr<Program> program, PolicyColumns columns, std::int64_t rows);
  Status bind();
  ParamLayout published() const;
  /// Where each tensor of layout() is in the program, in its order.
  std::vector<std::span<float>> tensors() const;

  std::unique_ptr<Program> program_;
  ParamLayout layout_;
  std::uint64_t fingerprint_;
  PolicyColumns columns_;
  std::int64_t rows_;
  BatchBuffer inputs_;  // the program's own; unused rows keep old values
};

}  // namespace troupe::learner
