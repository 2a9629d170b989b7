#include <troupe/run/models/image_input.hpp>

#include <fmt/format.h>

#include <utility>

namespace troupe::actors {
namespace {

class ImageInput final : public learner::InputPipeline {
 public:
  ImageInput(std::shared_ptr<const data::ImageReader> reader, const data::ImageBatchOptions& batches,
             const data::ImagePipelineOptions& options, bool says_how_fast)
      : pipeline_(std::move(reader), batches, options), threads_(options.threads), says_how_fast_(says_how_fast) {}
  const Signature& signature() const override { return pipeline_.signature(); }
  Result<BatchView> next() override { return pipeline_.next(); }
  std::vector<Scalar> gauges() const override {
    const data::ImagePipeline::Report report = pipeline_.report();
    std::vector<Scalar> gauges;
    if (threads_ > 0) gauges.push_back({"input_batches_ahead", static_cast<double>(report.ahead)});
    if (says_how_fast_ && report.images_per_second > 0)
      gauges.push_back({"input_images_per_second", report.images_per_second});
    gauges.push_back({"input_damaged", static_cast<double>(report.damaged)});
    return gauges;
  }

 private:
  data::ImagePipeline pipeline_;
  int threads_;
  bool says_how_fast_;
};

}  // namespace

Result<std::unique_ptr<learner::InputPipeline>> image_input(std::shared_ptr<const data::ImageReader> reader,
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
  const data::ImageBatchOptions batches{.global_batch = context.global_batch,
                                        .share = context.replica_id,
                                        .shares = context.replica_count,
                                        .seed = options.seed,
                                        .shuffle = options.shuffle,
                                        .noise = options.noise,
                                        .noise_size = options.noise_size};
  const data::ImagePipelineOptions pipeline{.first_step = context.first_step, .threads = options.threads};
  return std::unique_ptr<learner::InputPipeline>(
      std::make_unique<ImageInput>(std::move(reader), batches, pipeline, options.says_how_fast));
}

}  // namespace troupe::actors
