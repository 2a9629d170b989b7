#pragma once
// Batches of images, step after step, made ahead of time by threads, which share the decoding and augmentation. They
// depend on nobody, wait for nothing but room, and end with the pipeline. Batches are those of data/image_batches
// whatever the number of threads. Used by run/models/image_input.
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include <troupe/data/image_batches.hpp>

namespace troupe::data {

struct ImagePipelineOptions {
  std::int64_t first_step = 0;
  /// 0: next() makes each batch itself, for images that take no work, and where runs must repeat in all that they
  /// report.
  int threads = 0;
};

class ImagePipeline {
 public:
  ImagePipeline(std::shared_ptr<const ImageReader> reader, const ImageBatchOptions& batches,
                const ImagePipelineOptions& options);
  /// Ends the threads, which the first call of next() started, each after the image at hand.
  ~ImagePipeline();
  ImagePipeline(const ImagePipeline&) = delete;
  ImagePipeline& operator=(const ImagePipeline&) = delete;

  const Signature& signature() const { return batches_.signature(); }
  /// The batch of the next step, borrowed until the next call; for one thread. With threads it never waits. Errors:
  /// kUnavailable when it is not ready yet; those of ImageBatches::fill() at the step where they occur, from then on.
  Result<BatchView> next();

  /// What there is to say about it; any thread.
  struct Report {
    std::int64_t ahead = 0;        ///< batches that are ready
    std::int64_t waits = 0;        ///< times that next() had none
    std::int64_t damaged = 0;      ///< samples that were skipped
    double images_per_second = 0;  ///< that all threads make when they need not wait for room; 0: not known yet
  };
  Report report() const;

  /// Batches that are made ahead: as many as fit into kAheadBytes, at least kAheadMin and at most kAheadMax.
  static constexpr std::int64_t kAheadBytes = std::int64_t{128} << 20, kAheadMin = 2, kAheadMax = 8;

 private:
  /// A batch: filled by threads, a few rows at a time, then handed out.
  struct Slot {
    Slot(const Signature& signature, std::int64_t rows) : buffer(signature, rows) {}
    ImageBatches::Rows rows;
    BatchBuffer buffer;
    std::int64_t claimed = 0, filled = 0;  // rows
    Status status;                         // of the first row that failed
    std::int64_t failed_row = 0;
    bool is_ready() const { return filled == std::ssize(rows.samples); }
  };
  Slot& slot(std::int64_t step) const { return *slots_[static_cast<std::size_t>(step % std::ssize(slots_))]; }
  /// The slot in which rows are to be claimed, or null while there is none.
  Slot* open_slot();
  void start();
  void work();

  ImageBatches batches_;
  int threads_count_;
  std::int64_t chunk_ = 1;  ///< rows that a thread claims at a time
  mutable std::mutex mutex_;
  std::condition_variable room_;
  std::atomic<bool> stop_ = false;
  std::int64_t next_step_;  ///< that next() gives
  std::int64_t end_step_;   ///< behind the newest that has a slot
  bool lent_ = false;       ///< the slot of next_step_ - 1
  std::int64_t waits_ = 0, images_ = 0;
  double seconds_ = 0;  ///< of processor, over threads
  std::vector<std::unique_ptr<Slot>> slots_;
  std::vector<std::thread> threads_;
};

}  // namespace troupe::data
