#pragma once
// The memory in which the ranks of one group on one host meet, and how they wait for each other there. Private to the
// shared-memory back end; shared_calls.hpp says what the ranks do with it.
//
// Every rank counts its publications; all ranks publish the same things in the same order, so "everybody has published
// n things" says that all of them are there to be read. Pieces of a call that any rank may do for all are taken from
// both ends of it, and those that are done are counted, over all calls. One word, the bell, is what sleepers sleep on:
// whoever publishes last, does the last piece or breaks the group rings it. Nothing here can be left locked by a
// process that is killed.
#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include <troupe/collectives/activity.hpp>
#include <troupe/collectives/call.hpp>
#include <troupe/collectives/detail/brief_wait.hpp>
#include <troupe/collectives/detail/shared_place.hpp>
#include <troupe/core/error.hpp>

namespace troupe::collectives::detail {

using TimePoint = std::chrono::steady_clock::time_point;

constexpr std::size_t kChunkBytes = std::size_t{512} << 10;    // that a rank publishes at once
constexpr std::size_t kOneShotBytes = std::size_t{256} << 10;  // of others' values, that a rank reduces all by itself
constexpr std::size_t kBuffers = 4;  // of a rank: what is published n times may be overwritten after n + 4
constexpr int kMaxSharedRanks = 256;

/// What a rank says that it calls. Plain memory: written before the publication that shows it.
struct alignas(64) CallSlot {
  std::uint64_t digest = 0;  ///< equal for equal calls
  double weight = 1;
  SharedPlace place;  ///< of its values, if the others may reach them; not compared. Up to here, in one cache line
  std::uint64_t count = 0;
  std::array<std::int64_t, Shape::kMaxRank> dims{};
  std::int32_t dim_count = 0;
  std::int32_t root = 0;
  CallKind kind = CallKind::kBarrier;
  ReduceOp op = ReduceOp::kSum;
  DType wire = DType::kF32;
  DType dtype = DType::kF32;
  std::uint16_t name_length = 0;
  std::array<char, 200> name{};  ///< its beginning; the digest covers all of it

  void write(const Call& call, double weight, const SharedPlace& place);
  Call read() const;
};

/// One rank's lines. Those that others poll stand alone in their cache lines.
struct alignas(128) RankLines {
  std::atomic<std::uint64_t> published{0};
  std::atomic<std::int32_t> core{0};  ///< on which it published that; others may read an older one, or a newer
  alignas(128) ActivityMirror activity;
  std::atomic<std::uint32_t> taken{0};
  std::uint32_t has_mapped = 0;                        ///< the others' new blocks, all of them; as plain as a CallSlot
  alignas(128) std::atomic<std::uint32_t> at_work{0};  ///< it may be writing to others' values
  alignas(128) std::array<CallSlot, 2> calls;          ///< of even and odd calls
};

/// Those of a call.
struct Pieces {
  static constexpr std::uint64_t kMax = std::uint64_t{1} << 20;
  std::uint64_t before = 0;  ///< of earlier calls
  std::uint64_t count = 0;   ///< 1 to kMax
  std::uint64_t end() const { return before + count; }
};

/// What a call waits for: that all ranks have published so much, or that so many pieces of work are done.
struct Awaited {
  static constexpr std::uint64_t kNever = UINT64_MAX;
  std::uint64_t published = kNever;
  std::uint64_t done = kNever;
};

class SharedRegion {
 public:
  /// For the group of the view, by its rank 0. Errors: kIo.
  static Result<std::shared_ptr<SharedRegion>> create(const GroupView& view);
  /// By the others. Errors: kUnavailable (it cannot be opened); kCorrupt (no ticket, or something else is there);
  /// kShapeMismatch (rank 0 has another epoch or size), which breaks the group.
  static Result<std::shared_ptr<SharedRegion>> open(std::string_view ticket, const GroupView& view);
  ~SharedRegion();
  SharedRegion(const SharedRegion&) = delete;
  SharedRegion& operator=(const SharedRegion&) = delete;

  const std::string& ticket() const { return ticket_; }
  int size() const { return size_; }

  RankLines& lines(int rank) { return lines_[rank]; }
  const RankLines& lines(int rank) const { return lines_[rank]; }
  /// Of kChunkBytes each.
  float* input_buffer(int rank, std::uint64_t chunk) { return buffer(rank, chunk, 0); }
  /// Of kChunkBytes / size, rounded up to a cache line.
  float* result_buffer(int rank, std::uint64_t chunk) { return buffer(rank, chunk, 1); }
  /// First element of `rank`'s slice of a chunk of `count` elements; of rank size(), count. Slices begin at cache
  /// lines.
  std::size_t slice_begin(std::size_t count, int rank) const;

  /// Shows everything that was written before to the others.
  void publish(int rank);
  bool reached(int rank, std::uint64_t published) const {
    return lines_[rank].published.load(std::memory_order_acquire) >= published;
  }
  bool all_reached(std::uint64_t published) const;
  bool has(const Awaited& awaited) const { return done() >= awaited.done || all_reached(awaited.published); }
  /// Both wait until that is so or the group is broken: the first awake (BriefWait), and says whether that was enough;
  /// the second asleep, to `until`.
  bool await_briefly(const Awaited& awaited);
  void await(const Awaited& awaited, TimePoint until);

  /// The number of a piece of a call, for this rank to do, or nothing: none is left, or the group is broken. Until
  /// finish_piece() the rank counts as being at work; nobody takes a piece once await_stillness() has begun. Every
  /// other core begins at the end, and all leave a call's only piece to the core that did the last such piece, for a
  /// microsecond: so a core has the same values in its cache at the next call.
  std::optional<std::uint64_t> take_piece(int rank, const Pieces& pieces);
  /// The last of a call's to be done wakes everybody.
  void finish_piece(int rank, const Pieces& pieces);
  /// Pieces of all calls.
  std::uint64_t done() const;
  /// In a broken group: waits for the others to finish the pieces that they are at, for some time; whether they have.
  bool await_stillness(int rank) const;

  /// Breaks the group; the first failure stays. Any thread of any rank.
  void fail(const Error& error);
  std::optional<Error> failure() const;
  bool failed() const;
  /// Whether this rank is the first that says who is missing from the call; there is one line a call.
  bool claim_verdict(std::uint64_t call);

 private:
  struct Header;
  SharedRegion(std::byte* memory, std::size_t bytes, int size, int file);
  static std::size_t bytes_for(int size);
  float* buffer(int rank, std::uint64_t chunk, int kind);
  void ring();
  /// Whether a rank that has not done its part of it was last seen on this core.
  bool needs_this_core(const Awaited& awaited) const;
  void leave_to_home(std::uint64_t call) const;

  std::byte* const memory_;
  const std::size_t bytes_;
  const int size_;
  const int file_;
  BriefWait brief_wait_;
  std::string ticket_;
  Header* header_ = nullptr;
  RankLines* lines_ = nullptr;
  std::byte* buffers_ = nullptr;
};

}  // namespace troupe::collectives::detail
