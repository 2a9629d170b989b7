#include <troupe/messages/frame.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <vector>

#include <troupe/core/check.hpp>

namespace troupe::messages {
namespace {

constexpr std::size_t kAlign = 64;
constexpr std::size_t kSmallestClass = 1024;

/// Rounds up to a quarter of the power of two below: 1024, 1280, 1536, 1792, 2048, 2560, ...
std::size_t size_class(std::size_t bytes) {
  if (bytes <= kSmallestClass) return kSmallestClass;
  const std::size_t step = std::bit_floor(bytes - 1) / 4;
  return (bytes + step - 1) / step * step;
}

}  // namespace

std::string_view to_string(Kind kind) {
  switch (kind) {
    case Kind::kTrajectory:
      return "trajectory";
    case Kind::kBatch:
      return "batch";
    case Kind::kParameters:
      return "parameters";
    case Kind::kPriorities:
      return "priorities";
    case Kind::kEpisode:
      return "episode";
    case Kind::kMetrics:
      return "metrics";
    case Kind::kControl:
      return "control";
    case Kind::kChunk:
      return "chunk";
    case Kind::kCounters:
      return "counters";
    case Kind::kParametersUse:
      return "parameters use";
    case Kind::kParametersVersion:
      return "parameters version";
    case Kind::kInferenceRequest:
      return "inference request";
    case Kind::kInferenceAnswer:
      return "inference answer";
    case Kind::kGradient:
      return "gradient";
    case Kind::kGradientAnswer:
      return "gradient answer";
    case Kind::kParametersPull:
      return "parameters pull";
    case Kind::kStepsRequest:
      return "steps request";
    case Kind::kStepsGrant:
      return "steps grant";
    case Kind::kEvaluation:
      return "evaluation";
    case Kind::kSampleRequest:
      return "sample request";
    case Kind::kSteps:
      return "steps";
  }
  return "unknown";
}

/// Idle buffers and the sums that the bound is checked against. Shared by the pool and every buffer it gave out, so a
/// frame that outlives its pool still knows where to return.
struct FramePool::State {
  explicit State(FramePoolOptions pool_options) : options(pool_options) {}
  ~State();

  FrameBlock* acquire(std::size_t capacity);
  FrameBlock* reuse(std::size_t capacity);  // an idle one or null; with the mutex held
  void release(FrameBlock* block);
  void trim(std::size_t wanted);  // with the mutex held

  const FramePoolOptions options;
  std::mutex mutex;
  std::map<std::size_t, std::vector<FrameBlock*>> idle;  // by capacity
  FramePoolStats stats;
  bool closed = false;  // the pool is gone: nobody will reuse
};

/// Lives in the first bytes of its own allocation; the frame's bytes follow at a multiple of kAlign, unless they are an
/// owner's: lie in lendable memory, which others see, or were adopted, when nobody writes to them and the block is of
/// no pool.
struct FrameBlock {
  std::atomic<std::size_t> references{1};
  std::atomic<const Parsed*> parsed{nullptr};
  std::size_t capacity = 0;
  std::size_t size = 0;
  std::shared_ptr<FramePool::State> pool;  // null while idle, so that idle buffers do not keep their pool alive
  std::shared_ptr<const void> owner;       // of bytes that lie elsewhere
  std::byte* bytes = nullptr;

  /// In `memory` while that has room. Null when there is no memory at all.
  static FrameBlock* make(std::size_t capacity, LendableMemory* memory = nullptr);
  static void free(FrameBlock* block);
  static void drop(FrameBlock* block);
};

namespace {
constexpr std::size_t kHeader = (sizeof(FrameBlock) + kAlign - 1) / kAlign * kAlign;
}

FrameBlock* FrameBlock::make(std::size_t capacity, LendableMemory* memory) {
  LendableArray lendable;
  if (memory != nullptr) lendable = memory->take(capacity);
  const std::size_t own = lendable != nullptr ? 0 : (capacity + kAlign - 1) / kAlign * kAlign;
  void* const place = std::aligned_alloc(kAlign, kHeader + own);
  if (place == nullptr) return nullptr;
  auto* block = new (place) FrameBlock;
  block->capacity = capacity;
  block->bytes = lendable != nullptr ? lendable.get() : static_cast<std::byte*>(place) + kHeader;
  block->owner = std::move(lendable);
  return block;
}

void FrameBlock::free(FrameBlock* block) {
  block->~FrameBlock();
  std::free(block);
}

void FrameBlock::drop(FrameBlock* block) {
  if (block == nullptr || block->references.fetch_sub(1, std::memory_order_acq_rel) != 1) return;
  delete block->parsed.exchange(nullptr, std::memory_order_relaxed);
  const std::shared_ptr<FramePool::State> pool = std::move(block->pool);
  if (pool == nullptr) return free(block);
  pool->release(block);
}

FramePool::State::~State() {
  for (auto& [capacity, blocks] : idle) {
    for (FrameBlock* block : blocks) FrameBlock::free(block);
  }
}

FrameBlock* FramePool::State::reuse(std::size_t capacity) {
  const auto found = idle.find(capacity);
  if (found == idle.end() || found->second.empty()) return nullptr;
  FrameBlock* block = found->second.back();
  found->second.pop_back();
  stats.idle_bytes -= capacity;
  stats.in_use_bytes += capacity;
  ++stats.reused;
  block->references.store(1, std::memory_order_relaxed);
  return block;
}

FrameBlock* FramePool::State::acquire(std::size_t capacity) {
  LendableMemory* const memory = capacity < LendableMemory::kLeastBlock ? nullptr : options.memory.get();
  {
    std::unique_lock lock(mutex);
    if (FrameBlock* block = reuse(capacity)) return block;
    if (memory != nullptr) {
      lock.unlock();
      memory->take_back();
      lock.lock();
      if (FrameBlock* block = reuse(capacity)) return block;
    }
    trim(capacity);
    if (stats.in_use_bytes + stats.idle_bytes + capacity > options.max_bytes) return nullptr;
    stats.in_use_bytes += capacity;  // reserved before the lock goes, so that the bound holds among threads
  }
  FrameBlock* block = FrameBlock::make(capacity, memory);
  const std::lock_guard lock(mutex);
  if (block == nullptr) {
    stats.in_use_bytes -= capacity;
  } else {
    ++stats.fresh;
  }
  return block;
}

void FramePool::State::trim(std::size_t wanted) {
  // Largest first: the fewest buffers lose their warm pages.
  for (auto it = idle.rbegin(); it != idle.rend(); ++it) {
    while (!it->second.empty() && stats.in_use_bytes + stats.idle_bytes + wanted > options.max_bytes) {
      FrameBlock::free(it->second.back());
      it->second.pop_back();
      stats.idle_bytes -= it->first;
    }
  }
}

void FramePool::State::release(FrameBlock* block) {
  const std::lock_guard lock(mutex);
  stats.in_use_bytes -= block->capacity;
  if (closed) {
    FrameBlock::free(block);
    return;
  }
  stats.idle_bytes += block->capacity;
  idle[block->capacity].push_back(block);
}

Frame::Frame(const Frame& other) : block_(other.block_) {
  if (block_ != nullptr) block_->references.fetch_add(1, std::memory_order_relaxed);
}

Frame::~Frame() { FrameBlock::drop(block_); }

std::span<const std::byte> Frame::bytes() const {
  if (block_ == nullptr) return {};
  return {block_->bytes, block_->size};
}

Result<Frame> Frame::adopt(std::span<const std::byte> bytes, std::shared_ptr<const void> owner) {
  if (reinterpret_cast<std::uintptr_t>(bytes.data()) % kAlign != 0) {
    return Error{Code::kInvalidArgument, fmt::format("frame of {} bytes at {}: expected a multiple of {}", bytes.size(),
                                                     static_cast<const void*>(bytes.data()), kAlign)};
  }
  FrameBlock* block = FrameBlock::make(0);
  TROUPE_CHECK(block != nullptr, "out of memory");
  block->bytes = const_cast<std::byte*>(bytes.data());  // a frame shows them as they came
  block->size = bytes.size();
  block->owner = std::move(owner);
  return Frame(block);
}

const Parsed* Frame::parsed() const {
  return block_ == nullptr ? nullptr : block_->parsed.load(std::memory_order_acquire);
}

const Parsed* Frame::keep(std::unique_ptr<const Parsed> parsed) const {
  TROUPE_CHECK(block_ != nullptr, "an empty frame keeps nothing");
  const Parsed* expected = nullptr;
  if (block_->parsed.compare_exchange_strong(expected, parsed.get(), std::memory_order_acq_rel)) {
    return parsed.release();
  }
  return expected;
}

FrameBuffer::~FrameBuffer() { FrameBlock::drop(block_); }

std::span<std::byte> FrameBuffer::bytes() { return {block_->bytes, block_->capacity}; }

Frame FrameBuffer::freeze(std::size_t size) && {
  TROUPE_CHECK(size <= block_->capacity, "frame of {} bytes in a buffer of {}", size, block_->capacity);
  block_->size = size;
  return Frame(std::exchange(block_, nullptr));
}

FramePool::FramePool(FramePoolOptions options) : state_(std::make_shared<State>(options)) {}

FramePool::~FramePool() {
  const std::lock_guard lock(state_->mutex);
  state_->closed = true;
}

Result<FrameBuffer> FramePool::allocate(std::size_t bytes) {
  const FramePoolOptions& options = state_->options;
  if (bytes > options.max_frame_bytes) {
    return Error{Code::kInvalidArgument,
                 fmt::format("frame of {} bytes: more than max_frame_bytes {}", bytes, options.max_frame_bytes)};
  }
  FrameBlock* block = state_->acquire(size_class(bytes));
  if (block == nullptr) {
    return Error{Code::kUnavailable, fmt::format("frame of {} bytes: {} bytes of frames are in use, at most {} allowed",
                                                 bytes, stats().in_use_bytes, options.max_bytes)};
  }
  block->pool = state_;
  return FrameBuffer(block);
}

Result<Frame> FramePool::copy(std::span<const std::byte> bytes) {
  TROUPE_ASSIGN(FrameBuffer buffer, allocate(bytes.size()));
  if (!bytes.empty()) std::memcpy(buffer.bytes().data(), bytes.data(), bytes.size());
  return std::move(buffer).freeze(bytes.size());
}

FramePoolStats FramePool::stats() const {
  const std::lock_guard lock(state_->mutex);
  return state_->stats;
}

}  // namespace troupe::messages
