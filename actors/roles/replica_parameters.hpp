#pragma once
// What one program gets from another: the values that it has tensors for, in one flat buffer that fits a Parameters
// message. The evaluator of a replica group gets all its values from the group, and a generator those of its
// discriminator.
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <troupe/core/error.hpp>
#include <troupe/learner/engine/program.hpp>
#include <troupe/messages/parameters.hpp>

namespace troupe::actors {

class ReplicaParameters {
 public:
  /// All parameters and states of the program, in its order.
  explicit ReplicaParameters(learner::Program& program) : ReplicaParameters(program, {}) {}
  /// Those of one parameter group, and the states whose names begin with "GROUP/".
  ReplicaParameters(learner::Program& program, std::string_view group);

  std::int64_t elements() const { return elements_; }
  std::uint64_t layout_hash() const { return layout_hash_; }

  /// Copies them out of the trained program; where the program keeps an average of a parameter group, out of that.
  /// Errors: kNotFound, kShapeMismatch, naming the tensor.
  Status gather(learner::Program& trained, std::span<float> out) const;
  /// The values as a message of that version.
  Result<messages::Frame> frame(messages::FramePool& pool, learner::Program& trained, std::int64_t version) const;
  /// Copies a message's values into a program like the one that this was made of. Errors: kShapeMismatch, naming `who`,
  /// and nothing has changed.
  Status scatter(const messages::ParametersView& from, learner::Program& program, std::string_view who) const;

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
