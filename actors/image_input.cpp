#include <troupe/actors/image_input.hpp>

#include <fmt/format.h>

#include <utility>

namespace troupe::actors {
namespace {

class ImageInput final : public learner::InputPipeline {
 public:
  ImageInput(std::shared_ptr<const data::Dataset> images, data::ImageBatchOptions options, std::int64_t first_step)
      : batches_(std::move(images), std::move(options)), step_(first_step) {}
  const Signature& signature() const override { return batches_.signature(); }
  Result<BatchView> next() override { return batches_.at(step_++); }

 private:
  data::ImageBatches batches_;
  std::int64_t step_;
};

}  // namespace

Result<std::unique_ptr<learner::InputPipeline>> image_input(std::shared_ptr<const data::Dataset> images,
                                                            const ImageInputOptions& options,
                                                            const learner::InputContext& context) {
  const std::int64_t begin = context.replica_id * context.global_batch / context.replica_count;
  const std::int64_t end = (context.replica_id + 1) * context.global_batch / context.replica_count;
  if (end - begin != context.replica_batch) {
    return Error{
        Code::kInvalidArgument,
        fmt::format("images: replica {} of {} has {} rows of a global batch of {}, expected {}", context.replica_id,
                    context.replica_count, context.replica_batch, context.global_batch, end - begin)};
  }
  return std::unique_ptr<learner::InputPipeline>(
      std::make_unique<ImageInput>(std::move(images),
                                   data::ImageBatchOptions{.global_batch = context.global_batch,
                                                           .share = context.replica_id,
                                                           .shares = context.replica_count,
                                                           .seed = options.seed,
                                                           .shuffle = options.shuffle,
                                                           .noise = options.noise,
                                                           .noise_size = options.noise_size},
                                   context.first_step));
}

}  // namespace troupe::actors
