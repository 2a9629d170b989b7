#include <troupe/data/image_pipeline.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <ctime>
#include <exception>
#include <utility>

namespace troupe::data {
namespace {

constexpr std::int64_t kChunkMax = 16;

/// Of this thread, so that what others do on the machine does not make the pipeline look slow.
double processor_seconds() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

}  // namespace

ImagePipeline::ImagePipeline(std::shared_ptr<const ImageReader> reader, const ImageBatchOptions& batches,
                             const ImagePipelineOptions& options)
    : batches_(std::move(reader), batches),
      threads_count_(options.threads),
      next_step_(options.first_step),
      end_step_(options.first_step) {}

void ImagePipeline::start() {
  const std::int64_t rows = batches_.rows_max();
  const auto bytes = static_cast<std::int64_t>(row_bytes(batches_.signature())) * rows;
  const std::int64_t ahead = std::clamp(kAheadBytes / std::max<std::int64_t>(bytes, 1), kAheadMin, kAheadMax);
  for (std::int64_t i = 0; i < ahead + 1; ++i) {  // and the one that is lent
    slots_.push_back(std::make_unique<Slot>(batches_.signature(), rows));
  }
  chunk_ = std::clamp<std::int64_t>(rows / (2 * threads_count_), 1, kChunkMax);
  for (int i = 0; i < threads_count_; ++i) threads_.emplace_back([this] { work(); });
}

ImagePipeline::~ImagePipeline() {
  {
    const std::lock_guard lock(mutex_);  // so that no thread is between looking at it and waiting
    stop_ = true;
  }
  room_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

ImagePipeline::Slot* ImagePipeline::open_slot() {
  const std::int64_t oldest = next_step_ - (lent_ ? 1 : 0);
  if (end_step_ > oldest) {
    Slot& newest = slot(end_step_ - 1);
    if (newest.claimed < std::ssize(newest.rows.samples)) return &newest;
  }
  while (end_step_ - oldest < std::ssize(slots_)) {
    Slot& fresh = slot(end_step_);
    batches_.choose(end_step_++, fresh.rows);
    fresh.claimed = fresh.filled = 0;
    fresh.status = {};
    if (!fresh.rows.samples.empty()) return &fresh;  // a short batch may have no rows for this share
  }
  return nullptr;
}

void ImagePipeline::work() {
  ImageReader::Scratch scratch;
  std::unique_lock lock(mutex_);
  while (true) {
    Slot* open = nullptr;
    room_.wait(lock, [&] { return stop_ || (open = open_slot()) != nullptr; });
    if (stop_) return;
    const std::int64_t begin = open->claimed, end = std::min(begin + chunk_, std::ssize(open->rows.samples));
    open->claimed = end;
    lock.unlock();
    const double began = processor_seconds();
    Status status;
    std::int64_t row = begin;
    try {
      while (row < end && status.ok() && !stop_) {
        status = batches_.fill(open->rows, row, row + 1, scratch, open->buffer.mutable_view());
        if (status.ok()) ++row;
      }
    } catch (const std::exception& error) {  // no memory, say
      status = Error{Code::kInternal, fmt::format("images: {}", error.what())};
    }
    const double took = processor_seconds() - began;
    lock.lock();
    if (!status.ok() && (open->status.ok() || row < open->failed_row)) {
      open->status = std::move(status);
      open->failed_row = row;
    }
    open->filled += end - begin;
    images_ += end - begin;
    seconds_ += took;
  }
}

Result<BatchView> ImagePipeline::next() {
  if (threads_count_ == 0) {
    const double began = processor_seconds();
    Result<BatchView> batch = batches_.at(next_step_);
    seconds_ += processor_seconds() - began;
    if (!batch.ok()) return batch;
    images_ += batch->rows;
    ++next_step_;
    return batch;
  }
  if (threads_.empty()) start();
  const std::lock_guard lock(mutex_);
  if (std::exchange(lent_, false)) room_.notify_all();
  Slot* const ready = end_step_ > next_step_ && slot(next_step_).is_ready() ? &slot(next_step_) : nullptr;
  if (ready == nullptr) {
    ++waits_;
    return Error{Code::kUnavailable, "images: the next batch is being made"};
  }
  if (!ready->status.ok()) return ready->status.error();
  ++next_step_;
  lent_ = true;
  return ready->buffer.view().slice(0, std::ssize(ready->rows.samples));
}

ImagePipeline::Report ImagePipeline::report() const {
  Report report{.damaged = batches_.reader().damaged()};
  const std::lock_guard lock(mutex_);
  report.waits = waits_;
  for (std::int64_t step = next_step_; step < end_step_; ++step) {
    report.ahead += slot(step).is_ready();
  }
  if (seconds_ > 0) report.images_per_second = static_cast<double>(images_) * std::max(threads_count_, 1) / seconds_;
  return report;
}

}  // namespace troupe::data
