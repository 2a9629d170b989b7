#include <troupe/data/image_batches.hpp>

#include <algorithm>
#include <limits>
#include <numeric>
#include <utility>

#include <troupe/core/check.hpp>
#include <troupe/core/rng.hpp>

namespace troupe::data {
namespace {

Signature columns(const Shape& image, const ImageBatchOptions& options) {
  Signature signature = {{"image", DType::kF32, image}, {"label", DType::kI32, {}}};
  for (const std::string& name : options.noise) signature.push_back({name, DType::kF32, {options.noise_size}});
  return signature;
}

std::int64_t begin_of(const ImageBatchOptions& options, std::int64_t share) {
  return share * options.global_batch / options.shares;
}

}  // namespace

ImageBatches::ImageBatches(std::shared_ptr<const ImageReader> reader, ImageBatchOptions options)
    : reader_(std::move(reader)),
      options_(std::move(options)),
      begin_(begin_of(options_, options_.share)),
      end_(begin_of(options_, options_.share + 1)),
      signature_(columns(reader_->shape(), options_)) {
  TROUPE_CHECK(options_.shares >= 1 && options_.share >= 0 && options_.share < options_.shares,
               "image batches: share {} of {}", options_.share, options_.shares);
  TROUPE_CHECK(options_.global_batch >= options_.shares, "image batches: {} rows for {} shares", options_.global_batch,
               options_.shares);
  const std::int64_t count = reader_->dataset().count();
  TROUPE_CHECK(count >= 1 && count <= std::numeric_limits<std::int32_t>::max(), "image batches: {} images", count);
  order_.resize(static_cast<std::size_t>(count));
}

std::int64_t ImageBatches::steps_each_epoch() const {
  return (std::ssize(order_) + options_.global_batch - 1) / options_.global_batch;
}

void ImageBatches::begin_epoch(std::int64_t epoch) {
  if (epoch_ == epoch) return;
  epoch_ = epoch;
  std::iota(order_.begin(), order_.end(), 0);
  if (!options_.shuffle) return;
  Rng rng(derive_seed(options_.seed, "epoch", static_cast<std::uint64_t>(epoch)));
  for (std::size_t i = order_.size(); i > 1; --i) std::swap(order_[i - 1], order_[rng.below(i)]);  // Fisher-Yates
}

void ImageBatches::choose(std::int64_t step, Rows& rows) {
  const std::int64_t steps = steps_each_epoch();
  rows.epoch = step / steps;
  begin_epoch(rows.epoch);
  const std::int64_t first = step % steps * options_.global_batch;
  const std::int64_t whole = std::min<std::int64_t>(options_.global_batch, std::ssize(order_) - first);
  const std::int64_t begin = std::min(begin_, whole), end = std::min(end_, whole);
  rows.first = step * options_.global_batch + begin;
  rows.samples.assign(order_.begin() + first + begin, order_.begin() + first + end);
}

Status ImageBatches::fill(const Rows& rows, std::int64_t begin, std::int64_t end, ImageReader::Scratch& scratch,
                          const MutableBatchView& out) const {
  const auto each = static_cast<std::size_t>(reader_->shape().elements());
  for (std::int64_t row = begin; row < end; ++row) {
    const auto at = static_cast<std::size_t>(row);
    TROUPE_TRY(reader_->read(rows.epoch, rows.samples[at], scratch, out.as<float>(0).subspan(at * each, each),
                             out.as<std::int32_t>(1)[at]));
    for (std::size_t c = 0; c < options_.noise.size(); ++c) {
      const auto size = static_cast<std::size_t>(options_.noise_size);
      Rng rng(derive_seed(options_.seed, options_.noise[c], static_cast<std::uint64_t>(rows.first + row)));
      for (float& value : out.as<float>(2 + c).subspan(at * size, size)) value = static_cast<float>(rng.normal());
    }
  }
  return {};
}

Result<BatchView> ImageBatches::at(std::int64_t step) {
  if (!buffer_) buffer_.emplace(signature_, rows_max());
  choose(step, rows_);
  TROUPE_TRY(fill(rows_, 0, std::ssize(rows_.samples), scratch_, buffer_->mutable_view()));
  return buffer_->view().slice(0, std::ssize(rows_.samples));
}

}  // namespace troupe::data
