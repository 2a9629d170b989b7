#pragma once
// A frame is one immutable Cap'n Proto message (flat array: segment table, then one segment) in a reference-counted,
// 64-byte-aligned buffer. Everything that moves along a channel is a frame: between actors of one process it passes by
// pointer, never copied and never parsed again, and the same bytes go out on the link or to disk unchanged.
//
// Buffers come from a FramePool, which keeps memory that has been paged in: on this kind of workload page faults, not
// memcpy, bound large fresh buffers (a fresh 64 MB memset runs at a tenth of the speed of a warm one).
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <utility>

#include <troupe/core/error.hpp>
#include <troupe/core/lendable_memory.hpp>

namespace troupe::messages {

/// Which message a frame holds: the variants of the union in envelope.capnp, with the same numbers.
enum class Kind : std::uint16_t {
  kTrajectory = 0,
  kBatch = 1,
  kParameters = 2,
  kPriorities = 3,
  kEpisode = 4,
  kMetrics = 5,
  kControl = 6,
  kChunk = 7,
  kCounters = 8,
  kParametersUse = 9,
  kParametersVersion = 10,
  kInferenceRequest = 11,
  kInferenceAnswer = 12,
  kGradient = 13,
  kGradientAnswer = 14,
  kParametersPull = 15,
  kStepsRequest = 16,
  kStepsGrant = 17,
  kEvaluation = 18,
  kSampleRequest = 19,
  kSteps = 20,
};

/// "trajectory", "batch", ...
std::string_view to_string(Kind kind);

/// What the one validation of a frame found, kept with the frame so that later readers need not look at the bytes.
/// Each message's codec derives from it; pointers in it lead into the frame.
class Parsed {
 public:
  explicit Parsed(Kind kind) : kind_(kind) {}
  virtual ~Parsed() = default;
  Kind kind() const { return kind_; }

 private:
  Kind kind_;
};

class FrameBuffer;
struct FrameBlock;  // header and bytes of one buffer; frame.cpp

/// Shared ownership of immutable bytes. Copies cost one atomic increment; safe to copy, read and drop on any thread.
class Frame {
 public:
  Frame() = default;
  Frame(const Frame& other);
  Frame(Frame&& other) noexcept : block_(std::exchange(other.block_, nullptr)) {}
  Frame& operator=(Frame other) noexcept {
    std::swap(block_, other.block_);
    return *this;
  }
  ~Frame();

  /// A frame over bytes that came from outside of any pool (a link's receive buffer, shared memory), without a copy;
  /// `owner` keeps them alive and unchanged until the last reference has gone. Not validated: read_*() does that.
  /// Errors: kInvalidArgument when `bytes` does not start at a multiple of 64.
  static Result<Frame> adopt(std::span<const std::byte> bytes, std::shared_ptr<const void> owner);

  /// False for a default-constructed or moved-from frame.
  explicit operator bool() const { return block_ != nullptr; }
  /// The message; starts at a multiple of 64. Empty for an empty frame.
  std::span<const std::byte> bytes() const;
  std::size_t size() const { return bytes().size(); }

  /// What the frame's builder or first reader found, or null when nobody has validated these bytes yet.
  const Parsed* parsed() const;
  /// Keeps `parsed` with the frame. When two threads validate at once the first one wins; returns the kept one.
  const Parsed* keep(std::unique_ptr<const Parsed> parsed) const;

 private:
  friend class FrameBuffer;
  explicit Frame(FrameBlock* block) : block_(block) {}
  FrameBlock* block_ = nullptr;
};

/// The name of the message's struct in the schemas, "ParametersUse", by which ports are typed. Looks at the root only;
/// empty when the bytes are no message of ours.
std::string_view type_name(const Frame& frame);

/// A buffer that is still being written: one owner, which then freezes it.
class FrameBuffer {
 public:
  FrameBuffer(FrameBuffer&& other) noexcept : block_(std::exchange(other.block_, nullptr)) {}
  FrameBuffer& operator=(FrameBuffer&& other) noexcept {
    std::swap(block_, other.block_);
    return *this;
  }
  ~FrameBuffer();

  /// At least the bytes asked for. Not cleared: what an earlier frame of this process wrote is still there.
  std::span<std::byte> bytes();
  /// The first `size` bytes become the frame.
  Frame freeze(std::size_t size) &&;

 private:
  friend class FramePool;
  explicit FrameBuffer(FrameBlock* block) : block_(block) {}
  FrameBlock* block_ = nullptr;
};

struct FramePoolOptions {
  std::size_t max_frame_bytes = std::size_t{256} << 20;  ///< a larger request is an error (kInvalidArgument)
  /// Over all buffers, in use and kept for reuse. At the bound idle buffers of other sizes are given back first; when
  /// that does not make room, allocate() fails with kUnavailable. It never waits: frames in flight are bounded by the
  /// credits of the channels, so a run that hits the bound has its channels sized wrong and must be told.
  std::size_t max_bytes = std::size_t{2} << 30;
  /// Where buffers of LendableMemory::kLeastBlock or more lie while it has room, so that other processes of this host
  /// read their frames without a copy; null: there are none.
  std::shared_ptr<LendableMemory> memory = nullptr;
};

struct FramePoolStats {
  std::size_t in_use_bytes = 0;  ///< capacities of buffers that somebody holds
  std::size_t idle_bytes = 0;    ///< capacities of buffers kept for reuse
  std::size_t fresh = 0;         ///< allocations served by the system since the start
  std::size_t reused = 0;        ///< allocations served by a kept buffer
};

/// Buffers by size class (four a doubling: at most a quarter is wasted). Thread-safe; frames may outlive the pool.
class FramePool {
 public:
  explicit FramePool(FramePoolOptions options = {});
  ~FramePool();
  FramePool(const FramePool&) = delete;
  FramePool& operator=(const FramePool&) = delete;

  /// A buffer of at least `bytes` bytes, 64-byte-aligned, O(1) when one is kept.
  /// Errors: kInvalidArgument above max_frame_bytes, kUnavailable at max_bytes.
  Result<FrameBuffer> allocate(std::size_t bytes);
  /// Copies bytes that came from elsewhere (a test, a file) into a frame. Not validated: read_*() does that.
  Result<Frame> copy(std::span<const std::byte> bytes);

  FramePoolStats stats() const;

 private:
  struct State;
  friend struct FrameBlock;
  std::shared_ptr<State> state_;
};

}  // namespace troupe::messages
