#pragma once
// A small classifier that learns a data set's classes within seconds, so that what its last hidden layer sees in an
// image can stand in for the Inception network's features, of which a machine without internet has none. Distances from
// it compare models of one data set with each other, and with nothing else.
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include <troupe/core/error.hpp>
#include <troupe/core/tensor.hpp>
#include <troupe/learner/engine/program.hpp>
#include <troupe/learner/replicate/replica.hpp>

namespace troupe::learner {

struct FeatureClassifierOptions {
  Shape image = {28, 28, 1};  ///< height, width, channels
  std::int64_t classes = 10;
  std::int64_t steps = 1500;  ///< of Adam on a batch of kClassifierBatch, the rate falling to 0 along a cosine
  std::uint64_t seed = 1;     ///< of the parameters; equal ones come to the same bits on one instruction set
};

inline constexpr std::int64_t kClassifierBatch = 128;
inline constexpr std::int64_t kClassifierFeatures = 128;
/// Larger images are averaged down until their longer side is at most this.
inline constexpr std::int64_t kClassifierSide = 32;

/// Two hidden layers of 256 and kClassifierFeatures rectified units. One thread at a time.
class FeatureClassifier {
 public:
  /// train: a replica's input with columns "image" (of options.image's size, in [-1, 1]) and "label" (int32).
  /// Errors: those of the input; kShapeMismatch, naming a column.
  static Result<std::unique_ptr<FeatureClassifier>> make(const FeatureClassifierOptions& options, const InputFn& train);

  /// A bounded slice of its training. True when there is nothing left.
  Result<bool> train_some();
  /// Looks at up to kClassifierBatch images, [rows, options.image]; what it saw stays until the next look.
  Status look(std::span<const float> images);
  /// [rows, kClassifierFeatures] and [rows, classes] of the last look.
  std::span<const float> features() const { return looking_->output("features"); }
  std::span<const float> logits() const { return looking_->output("logits"); }

 private:
  explicit FeatureClassifier(const FeatureClassifierOptions& options) : options_(options) {}
  /// The images as the network takes them.
  std::span<const float> shrunk(std::span<const float> images);

  FeatureClassifierOptions options_;
  std::int64_t factor_ = 1;  ///< by which images are averaged down
  std::int64_t pixels_ = 0;  ///< of an image after that
  std::unique_ptr<InputPipeline> train_;
  std::unique_ptr<Program> training_;  ///< null once trained
  std::unique_ptr<Program> looking_;
  Signature columns_;
  std::vector<float> shrunk_;
};

}  // namespace troupe::learner
