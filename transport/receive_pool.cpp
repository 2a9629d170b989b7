#include <troupe/transport/receive_pool.hpp>

#include <fmt/format.h>
#include <sys/mman.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <utility>
#include <vector>

#include <troupe/core/check.hpp>
#include <troupe/core/round_up.hpp>

namespace troupe::transport {
namespace {

constexpr std::size_t kAlign = 64;
/// Up to here a buffer is made in the size announced and not kept: the system's allocator is as fast.
constexpr std::size_t kSmall = 64 * 1024;

/// Rounds up to a quarter of the power of two below, so that frames of nearly one size share their buffers.
std::size_t reservation_of(std::size_t bytes) { return round_up(bytes, std::bit_floor(bytes - 1) / 4); }

Error no_memory(std::size_t bytes) {
  return Error{Code::kUnavailable, fmt::format("receive: {} bytes of memory: {}", bytes, std::strerror(errno))};
}

}  // namespace

/// A small block is heap memory. A large one is a mapping of `reserved` bytes, of which the first `capacity` are
/// usable.
struct ReceiveBlock {
  std::byte* data = nullptr;
  std::size_t capacity = 0;
  std::size_t reserved = 0;  // 0: small
  std::size_t announced = 0;
  std::shared_ptr<ReceivePool::State> pool;  // null while idle, so that idle blocks do not keep their pool alive

  ReceiveBlock() = default;
  ReceiveBlock(const ReceiveBlock&) = delete;
  ReceiveBlock& operator=(const ReceiveBlock&) = delete;
  ~ReceiveBlock();
  bool map(std::size_t usable, std::size_t reservation);
  static void release(ReceiveBlock* block);
};

ReceiveBlock::~ReceiveBlock() {
  if (reserved == 0) {
    std::free(data);
  } else {
    ::munmap(data, reserved);
  }
}

/// False when the system has no memory.
bool ReceiveBlock::map(std::size_t usable, std::size_t reservation) {
  if (reservation == 0) {
    data = static_cast<std::byte*>(std::aligned_alloc(kAlign, usable));
    if (data == nullptr) return false;
  } else {
    void* const memory = ::mmap(nullptr, reservation, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) return false;
    data = static_cast<std::byte*>(memory);
    reserved = reservation;
    if (::mprotect(data, usable, PROT_READ | PROT_WRITE) != 0) return false;
  }
  capacity = usable;
  return true;
}

struct ReceivePool::State {
  explicit State(ReceivePoolOptions pool_options) : options(pool_options) {}

  /// Counts `bytes` more as in use, if the bound allows.
  Status charge(std::size_t bytes);
  void uncharge(std::size_t bytes);
  std::unique_ptr<ReceiveBlock> take_idle(std::size_t reserved);
  void release(std::unique_ptr<ReceiveBlock> block);
  void trim(std::size_t wanted);  // with the mutex held

  const ReceivePoolOptions options;
  std::mutex mutex;
  std::map<std::size_t, std::vector<std::unique_ptr<ReceiveBlock>>> idle;  // by reservation
  ReceivePoolStats stats;
  bool closed = false;  // the pool is gone: nobody will reuse
};

Status ReceivePool::State::charge(std::size_t bytes) {
  const std::lock_guard lock(mutex);
  trim(bytes);
  if (stats.in_use_bytes + stats.idle_bytes + bytes > options.max_bytes) {
    return Error{Code::kUnavailable, fmt::format("receive: {} bytes wanted, {} are in use, at most {} allowed", bytes,
                                                 stats.in_use_bytes, options.max_bytes)};
  }
  stats.in_use_bytes += bytes;
  return {};
}

void ReceivePool::State::uncharge(std::size_t bytes) {
  const std::lock_guard lock(mutex);
  stats.in_use_bytes -= bytes;
}

std::unique_ptr<ReceiveBlock> ReceivePool::State::take_idle(std::size_t reserved) {
  const std::lock_guard lock(mutex);
  const auto found = idle.find(reserved);
  if (found == idle.end() || found->second.empty()) return nullptr;
  auto block = std::move(found->second.back());
  found->second.pop_back();
  stats.idle_bytes -= block->capacity;
  stats.in_use_bytes += block->capacity;
  ++stats.reused;
  return block;
}

void ReceivePool::State::release(std::unique_ptr<ReceiveBlock> block) {
  const std::lock_guard lock(mutex);
  stats.in_use_bytes -= block->capacity;
  if (closed || block->reserved == 0) return;
  stats.idle_bytes += block->capacity;
  auto& kept = idle[block->reserved];
  kept.push_back(std::move(block));
}

void ReceivePool::State::trim(std::size_t wanted) {
  // Largest first: the fewest buffers lose their warm pages.
  for (auto it = idle.rbegin(); it != idle.rend(); ++it) {
    while (!it->second.empty() && stats.in_use_bytes + stats.idle_bytes + wanted > options.max_bytes) {
      stats.idle_bytes -= it->second.back()->capacity;
      it->second.pop_back();
    }
  }
}

void ReceiveBlock::release(ReceiveBlock* block) {
  const std::shared_ptr<ReceivePool::State> pool = std::move(block->pool);
  pool->release(std::unique_ptr<ReceiveBlock>(block));
}

void ReceiveBuffer::Release::operator()(ReceiveBlock* block) const { ReceiveBlock::release(block); }

std::span<std::byte> ReceiveBuffer::bytes() { return {block_->data, std::min(block_->capacity, block_->announced)}; }

Status ReceiveBuffer::grow() {
  if (block_->capacity >= block_->announced) return {};
  const std::size_t capacity = std::min(2 * block_->capacity, block_->reserved);
  const std::size_t more = capacity - block_->capacity;
  TROUPE_TRY(block_->pool->charge(more));
  if (::mprotect(block_->data, capacity, PROT_READ | PROT_WRITE) != 0) {
    block_->pool->uncharge(more);
    return no_memory(capacity);
  }
  block_->capacity = capacity;
  return {};
}

std::shared_ptr<const std::byte> ReceiveBuffer::freeze() && {
  TROUPE_CHECK(block_->capacity >= block_->announced, "a buffer of {} of {} bytes", block_->capacity,
               block_->announced);
  const std::byte* const data = block_->data;
  return {data, [block = block_.release()](const std::byte*) { ReceiveBlock::release(block); }};
}

ReceivePool::ReceivePool(ReceivePoolOptions options) : state_(std::make_shared<State>(options)) {}

ReceivePool::~ReceivePool() {
  const std::lock_guard lock(state_->mutex);
  state_->closed = true;
  state_->idle.clear();
}

Result<ReceiveBuffer> ReceivePool::allocate(std::size_t bytes) {
  const std::size_t reserved = bytes <= kSmall ? 0 : reservation_of(bytes);
  auto block = reserved == 0 ? nullptr : state_->take_idle(reserved);
  if (block == nullptr) {
    const std::size_t capacity = reserved == 0 ? round_up(std::max(bytes, kAlign), kAlign) : kSmall;
    TROUPE_TRY(state_->charge(capacity));
    block = std::make_unique<ReceiveBlock>();
    if (!block->map(capacity, reserved)) {
      state_->uncharge(capacity);
      return no_memory(capacity);
    }
  }
  block->announced = bytes;
  block->pool = state_;
  return ReceiveBuffer(block.release());
}

ReceivePoolStats ReceivePool::stats() const {
  const std::lock_guard lock(state_->mutex);
  return state_->stats;
}

}  // namespace troupe::transport
