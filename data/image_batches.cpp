#include <troupe/data/image_batches.hpp>

#include <algorithm>
#include <numeric>
#include <utility>

#include <troupe/core/check.hpp>
#include <troupe/core/rng.hpp>

namespace troupe::data {
namespace {

Signature columns(const Dataset& images, const ImageBatchOptions& options) {
  Signature signature = {{"image", DType::kF32, images.shape()}, {"label", DType::kI32, {}}};
  for (const std::string& name : options.noise) signature.push_back({name, DType::kF32, {options.noise_size}});
  return signature;
}

std::int64_t begin_of(const ImageBatchOptions& options, std::int64_t share) {
  return share * options.global_batch / options.shares;
}

}  // namespace

ImageBatches::ImageBatches(std::shared_ptr<const Dataset> images, ImageBatchOptions options)
    : images_(std::move(images)),
      options_(std::move(options)),
      begin_(begin_of(options_, options_.share)),
      end_(begin_of(options_, options_.share + 1)),
      signature_(columns(*images_, options_)),
      buffer_(signature_, end_ - begin_) {
  TROUPE_CHECK(options_.shares >= 1 && options_.share >= 0 && options_.share < options_.shares,
               "image batches: share {} of {}", options_.share, options_.shares);
  TROUPE_CHECK(options_.global_batch >= options_.shares, "image batches: {} rows for {} shares", options_.global_batch,
               options_.shares);
  TROUPE_CHECK(images_->shape().rank() == 3, "image batches: images of several sizes");
  order_.resize(static_cast<std::size_t>(images_->count()));
}

std::int64_t ImageBatches::steps_each_epoch() const {
  return (images_->count() + options_.global_batch - 1) / options_.global_batch;
}

void ImageBatches::begin_epoch(std::int64_t epoch) {
  if (epoch_ == epoch) return;
  epoch_ = epoch;
  std::iota(order_.begin(), order_.end(), 0);
  if (!options_.shuffle) return;
  Rng rng(derive_seed(options_.seed, "epoch", static_cast<std::uint64_t>(epoch)));
  for (std::size_t i = order_.size(); i > 1; --i) std::swap(order_[i - 1], order_[rng.below(i)]);  // Fisher-Yates
}

Result<BatchView> ImageBatches::at(std::int64_t step) {
  const std::int64_t steps = steps_each_epoch();
  begin_epoch(step / steps);
  const std::int64_t first = step % steps * options_.global_batch;
  const std::int64_t whole = std::min(options_.global_batch, images_->count() - first);
  const std::int64_t begin = std::min(begin_, whole), rows = std::min(end_, whole) - begin;
  const MutableBatchView& out = buffer_.mutable_view();
  const auto each = static_cast<std::size_t>(images_->shape().elements());
  const auto image = out.as<float>(0);
  const auto label = out.as<std::int32_t>(1);
  for (std::int64_t row = 0; row < rows; ++row) {
    const auto to = static_cast<std::size_t>(row);
    TROUPE_TRY(images_->read(order_[static_cast<std::size_t>(first + begin + row)], sample_));
    std::transform(sample_.bytes.begin(), sample_.bytes.end(), image.begin() + static_cast<std::ptrdiff_t>(to * each),
                   [](std::uint8_t level) { return static_cast<float>(level) / 127.5F - 1; });
    label[to] = sample_.label;
  }
  for (std::size_t c = 0; c < options_.noise.size(); ++c) {
    const auto noise = out.as<float>(2 + c);
    const auto size = static_cast<std::size_t>(options_.noise_size);
    for (std::int64_t row = 0; row < rows; ++row) {
      const std::int64_t global_row = step * options_.global_batch + begin + row;
      Rng rng(derive_seed(options_.seed, options_.noise[c], static_cast<std::uint64_t>(global_row)));
      for (std::size_t i = 0; i < size; ++i) {
        noise[static_cast<std::size_t>(row) * size + i] = static_cast<float>(rng.normal());
      }
    }
  }
  return buffer_.view().slice(0, rows);
}

}  // namespace troupe::data
