#pragma once
// What a policy is given and what it gives, with a row for each of several environments. These are the columns between
// environments and a policy for everyone who acts: the env actor, the evaluator, whoever renders. Recurrent state goes
// from a step's outputs to the next step's inputs here, as learner::PolicyColumns says.
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include <troupe/core/error.hpp>
#include <troupe/core/tensor.hpp>
#include <troupe/learner/engine/policy.hpp>

namespace troupe::actors {

class PolicyRows {
 public:
  /// observation: columns of the environments. Errors: kShapeMismatch, naming the input that is neither a column of the
  /// observation nor of the outputs.
  static Result<std::unique_ptr<PolicyRows>> make(const learner::PolicyColumns& columns, const Signature& observation,
                                                  std::int64_t rows);

  /// An episode begins with this observation, a packed row; its recurrent state is zero.
  void first(std::int64_t row, std::span<const std::byte> observation);
  /// What the environment showed after it had done as the outputs say.
  void next(std::int64_t row, std::span<const std::byte> observation);

  const BatchView& inputs() const { return inputs_; }
  const BatchView& outputs() const { return outputs_; }
  const MutableBatchView& mutable_outputs() { return given_.mutable_view(); }
  /// Checks that all outputs are finite. Errors: kInternal, naming the column and the version that gave it; version <
  /// 0: it is not known.
  Status check_finite(std::int64_t version) const;

  /// The recurrent state of a row's inputs, packed. With the observation it is all that must be saved of the row.
  std::vector<std::byte> save_state(std::int64_t row) const;
  /// Makes the row what it was. Errors: kShapeMismatch on another number of bytes; nothing has changed then.
  Status restore_state(std::int64_t row, std::span<const std::byte> observation, std::span<const std::byte> state);

 private:
  /// Where an input column comes from: from so many bytes into an observation, or from an output.
  struct Source {
    std::size_t offset = 0;
    int output = -1;
  };
  PolicyRows(const learner::PolicyColumns& columns, std::vector<Source> sources, std::int64_t rows);
  void observe(std::int64_t row, std::span<const std::byte> observation);
  std::span<std::byte> input(std::size_t column, std::int64_t row);

  std::vector<Source> sources_;  // for each input
  BatchBuffer taken_, given_;
  BatchView inputs_, outputs_;  // of those
};

}  // namespace troupe::actors
