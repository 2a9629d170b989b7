#pragma once
// Settings of the classifier: a multi-layer perceptron on vectors or flattened images.
#include <cstdint>
#include <vector>

#include <troupe/core/error.hpp>
#include <troupe/core/tensor.hpp>
#include <troupe/learner/graph/optimizer.hpp>
#include <troupe/learner/ops/elementwise.hpp>
#include <troupe/learner/replicate/mesh.hpp>

namespace troupe::learner::classifier {

struct Options {
  std::int64_t features = 784;  ///< of an example, e.g. the pixels of Fashion-MNIST
  std::int64_t classes = 10;
  std::vector<std::int64_t> sizes = {256, 128};  ///< hidden layers
  Activation activation = Activation::kRelu;     ///< behind each
  bool batch_norm = false;                       ///< before each activation
  /// Batch norm with the statistics of the global batch; false: of each replica's own share. Without effect on one.
  bool sync_batch_norm = true;
  double label_smoothing = 0;
  /// How the devices of a replica share the layers. kNone: each has some layers, as a stage. Others: each has a part of
  /// every layer, but layers with batch norm are whole.
  Split layer_split = Split::kNone;
  /// Of a replica's batch, on which stages work at the same time: so many, or fewer that divide the batch evenly. More
  /// than one want a network without batch norm, which the graph's errors say.
  std::int64_t pipeline_parts = 1;
  OptimizerSpec optimizer = {.rule = Adam{.learning_rate = 1e-3}};
  double average_decay = 0;  ///< of the moving average of the parameters that is evaluated instead; 0: none
};

/// Errors: kInvalidArgument naming the option, got and expected.
Status validate(const Options& options);

/// Columns of a batch: image, float32 [features], or any other shape of as many elements, such as
/// [height, width, channels]; label, int32 []. An input may have others too.
Signature batch_signature(const Options& options);

}  // namespace troupe::learner::classifier
