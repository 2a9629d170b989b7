#pragma once
// What the evaluator of a replica group gets from it: the values that its own program has tensors for, in one flat
// buffer that fits a Parameters message.
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <troupe/core/error.hpp>
#include <troupe/learner/program.hpp>

namespace troupe::actors {

class ReplicaParameters {
 public:
  /// All parameters and states of the evaluation's program, in its order.
  explicit ReplicaParameters(learner::Program& evaluation);

  std::int64_t elements() const { return elements_; }
  std::uint64_t layout_hash() const { return layout_hash_; }

  /// Copies them out of the trained program, or of the average of a group where the program keeps one.
  /// Errors: kNotFound, kShapeMismatch, naming the tensor.
  Status gather(learner::Program& trained, std::span<float> out) const;
  /// Copies them into the evaluation's program, the one that this was made of. values: [elements].
  void scatter(std::span<const float> values, learner::Program& evaluation) const;

 private:
  struct Tensor {
    std::string group;  ///< empty: a state
    std::string name;
    Shape shape;
    std::size_t offset = 0, count = 0;
  };
  std::vector<Tensor> tensors_;
  std::int64_t elements_ = 0;
  std::uint64_t layout_hash_ = 0;
};

}  // namespace troupe::actors
