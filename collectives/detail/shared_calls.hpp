#pragma once
// The calls of one rank of a group in shared memory: a queue, of which the first advances step by step as far as it can
// without waiting. Private to the shared-memory back end. N: bytes of a rank's input; P: ranks.
//
// Where all ranks' values lie in shareable memory, an all-reduce or a broadcast takes them where they are: once all
// have come, whoever is awake takes piece after piece and writes it to every rank; the call is over when all pieces are
// done. No byte is copied, N is read and written once for each rank, and ranks that sleep need not wake up in between.
//
// Else a call is cut into chunks of at most kChunkBytes; each goes through two or three steps, and a rank publishes
// after all but the last:
//
//   call                          steps                                                 bytes that a rank copies
//   all_reduce, (P-1) N small     put N, take (reduce all P)                            N in, P N read
//   all_reduce                    put others' slices, mix (reduce own slice), take      2 (P-1)/P N copied, N reduced
//   reduce_scatter                put others' rows, take (reduce own row over P)        (P-1)/P N copied, N reduced
//   all_gather                    put N, take P N                                       N in, P N out
//   broadcast                     root puts N, others take N                            N in or N out
//   barrier                       put nothing, take nothing
//
// Small: up to kOneShotBytes (measured: there one meeting of all costs more than the bytes that it saves).
// The steps of neighbouring chunks overlap: put(c), mix(c-1), take(c-2). That is also why kBuffers are enough: when a
// rank puts chunk c, it has seen that all have put c-2, and who has put c-2 has taken c-4.
//
// Writing to others' values is safe in a group that breaks: nobody takes a piece any more, a rank waits for those under
// way before it has its error, and withdraws its values from a rank that does not come back from one, for it may have
// been stopped and go on years later.
#include <array>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <vector>

#include <troupe/collectives/detail/shared_blocks.hpp>
#include <troupe/collectives/detail/shared_region.hpp>

namespace troupe::collectives::detail {

struct SharedCall {
  Call call;
  const float* in = nullptr;
  float* out = nullptr;
  double weight = 1;
  TimePoint called;
  TimePoint deadline;
  std::uint64_t index = 0;       // of the rank's calls in this group
  std::optional<Status> answer;  // once it is done

  // Where it stands, for SharedCalls alone.
  enum class Stage { kNew, kShown, kMapping, kPieces, kChunks };
  Stage stage = Stage::kNew;
  bool offers = false;            // the others may take this rank's values where they lie
  bool differs = false;           // a rank calls something else, or no rank has any weight
  bool compared = false;          // all ranks have come, and call the same
  std::uint64_t shown = 0;        // what must be published that all have come
  std::uint64_t mapped = 0;       // and that all have mapped each other's blocks
  Pieces pieces;                  // should all offer
  std::uint64_t first_chunk = 0;  // of this call, in the group's count of chunks
  std::size_t chunks = 0;
  std::size_t chunk_elements = 0;               // in columns of the rows in reduce_scatter
  std::size_t round = 0;                        // puts chunk `round`
  int step = 0;                                 // of the round
  std::array<std::uint64_t, kBuffers> put{};    // by chunk: what must be published that all have put it
  std::array<std::uint64_t, kBuffers> mixed{};  // the same for having mixed it
  std::vector<float> shares;                    // of a mean
};

class SharedCalls {
 public:
  SharedCalls(std::shared_ptr<SharedRegion> region, const GroupView& view, Activity& activity);

  /// Waits until all ranks have come. Errors: kDeadlineExceeded; the group's failure.
  Status await_all(TimePoint deadline);

  /// Appends a call, which must stay where it is until it has an answer, and begins it when it is the first. Errors:
  /// kUnavailable (too many); the group's failure.
  Status add(SharedCall& call);
  /// Advances until the call has an answer or its deadline has passed, which breaks the group.
  void wait(SharedCall& call);
  /// As far as it goes without waiting.
  void poll(SharedCall& call);
  /// The caller has the answer: one unfinished call less.
  void finish() { --unfinished_; }
  void fail(const Error& error) { region_->fail(error); }

 private:
  /// Advances one call as far as it goes. Returns what it waits for; empty: it has an answer.
  std::optional<Awaited> advance(SharedCall& call);
  std::optional<Awaited> advance_chunks(SharedCall& call);
  void advance_first();
  bool ready(SharedCall& call, std::uint64_t published);
  void begin(SharedCall& call);
  void compare(SharedCall& call);
  /// All have come: how the call goes on.
  void choose(SharedCall& call);
  void begin_chunks(SharedCall& call);
  void begin_pieces(SharedCall& call);
  void do_pieces(SharedCall& call);
  /// Puts the inputs of a piece aside, as they would have travelled.
  void round_piece(std::size_t count);
  /// By chunks, though some ranks have not put their first, since they hoped to be spared it.
  void put_after_all(SharedCall& call);
  std::uint64_t publish();
  void put(SharedCall& call, std::size_t chunk);
  void mix(SharedCall& call, std::size_t chunk);
  void take(SharedCall& call, std::size_t chunk);
  void reduce_chunk(const SharedCall& call, std::span<const float* const> inputs, std::size_t count,
                    std::span<float* const> outputs);
  /// Whether the first of the queue cannot be completed: the group is broken, and not all that it needs was there
  /// before.
  bool is_stuck() const;
  void take_failure();
  Error late(const SharedCall& call) const;
  /// Of the first of the queue: for whom it waits.
  std::string missing(const SharedCall& call) const;
  const CallSlot& slot(int rank, const SharedCall& call) const { return region_->lines(rank).calls[call.index % 2]; }

  const std::shared_ptr<SharedRegion> region_;
  const GroupView view_;
  Activity& activity_;
  std::deque<SharedCall*> queue_;
  int unfinished_ = 0;           // <= Communicator::kMaxPending
  std::uint64_t calls_ = 0;      // added
  std::uint64_t chunks_ = 0;     // given to calls
  std::uint64_t pieces_ = 0;     // given to calls
  std::uint64_t published_ = 0;  // by this rank
  Awaited awaited_;              // by the first of the queue
  SharedBlocks blocks_;
  bool has_blocks_ = true;  // false: one could not be mapped, and all calls go by chunks
  // Of the first of the queue, by rank; kept, so that a call allocates nothing.
  std::vector<SharedPlace> places_;
  std::vector<float*> values_;  // that pieces are of
  std::vector<const float*> piece_in_;
  std::vector<float*> piece_out_;
  std::vector<float> rounded_;
};

}  // namespace troupe::collectives::detail
