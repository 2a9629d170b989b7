#pragma once
// Memory that links receive into, for the receiving end of a stream (stream.hpp), which hands it on as it is. A buffer
// grows with the bytes that have come, never with the bytes that were announced, and without a copy: address space is
// reserved for the whole of what was announced, memory only for what is there. Large buffers are kept for the next
// frame, because on this kind of workload page faults, not memcpy, bound large fresh buffers.
#include <cstddef>
#include <memory>
#include <span>

#include <troupe/core/error.hpp>

namespace troupe::transport {

struct ReceivePoolOptions {
  /// Over all buffers, in use and kept for reuse. At the bound kept ones are given back first; when that does not make
  /// room, allocate() and grow() fail with kUnavailable.
  std::size_t max_bytes = std::size_t{2} << 30;
};

struct ReceivePoolStats {
  std::size_t in_use_bytes = 0;  ///< memory of the buffers that somebody holds
  std::size_t idle_bytes = 0;    ///< memory of the buffers kept for reuse
  std::size_t reused = 0;        ///< times that a kept buffer served
};

struct ReceiveBlock;  // one buffer's memory; receive_pool.cpp

/// A buffer that is being filled: one owner, which then freezes it.
class ReceiveBuffer {
 public:
  ReceiveBuffer(ReceiveBuffer&&) noexcept = default;
  ReceiveBuffer& operator=(ReceiveBuffer&&) noexcept = default;

  /// What there is room for so far, from a multiple of 64; at most the announced size.
  std::span<std::byte> bytes();
  /// Twice the room, with the bytes so far; nothing when there is room for the announced size. Errors: kUnavailable.
  Status grow();
  /// The announced size, all of it written. The memory goes back to its pool with the last copy of the pointer, on any
  /// thread, also after the pool has gone.
  std::shared_ptr<const std::byte> freeze() &&;

 private:
  friend class ReceivePool;
  struct Release {
    void operator()(ReceiveBlock* block) const;
  };
  explicit ReceiveBuffer(ReceiveBlock* block) : block_(block) {}
  std::unique_ptr<ReceiveBlock, Release> block_;
};

/// Thread-safe; one for all streams of a node.
class ReceivePool {
 public:
  explicit ReceivePool(ReceivePoolOptions options = {});
  ~ReceivePool();
  ReceivePool(const ReceivePool&) = delete;
  ReceivePool& operator=(const ReceivePool&) = delete;

  /// A buffer for a frame announced with `bytes`, with room for the first 64 KiB of it, or for more when a kept one
  /// fits. Errors: kUnavailable at max_bytes.
  Result<ReceiveBuffer> allocate(std::size_t bytes);

  ReceivePoolStats stats() const;

 private:
  struct State;
  friend struct ReceiveBlock;
  std::shared_ptr<State> state_;
};

}  // namespace troupe::transport
