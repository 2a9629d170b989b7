#pragma once
// Batches of images (data/image_pipeline) as the input pipeline of a replica.
#include <memory>

#include <troupe/data/image_pipeline.hpp>
#include <troupe/learner/replicate/replica.hpp>

namespace troupe::actors {

/// Those of data::ImageBatchOptions that do not follow from the replica.
struct ImageInputOptions {
  std::uint64_t seed = 0;  ///< the same for all replicas
  bool shuffle = true;
  std::vector<std::string> noise = {};
  std::int64_t noise_size = 0;
  int threads = 0;            ///< data::ImagePipelineOptions::threads
  bool says_how_fast = true;  ///< among its gauges; of a deterministic run no number may depend on the machine's speed
};

/// This replica's share of every global batch from context.first_step on. Errors: kInvalidArgument when its share is
/// not context.replica_batch rows, because the global batch cannot be shared evenly.
Result<std::unique_ptr<learner::InputPipeline>> image_input(std::shared_ptr<const data::ImageReader> reader,
                                                            const ImageInputOptions& options,
                                                            const learner::InputContext& context);

}  // namespace troupe::actors
