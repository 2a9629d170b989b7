#pragma once
// One collective of an in-process group, and its work: stages, each of which is chunks that may be done at the same
// time, by whichever ranks are waiting. Private to the in-process back end; InProcessGroup says when ranks may work.
// Chunks lie in parts, of which each is best left to one core: to move values from one core's cache to another's takes
// three times as long as to add them up (measured: 1 to 4 MiB, two cores).
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include <troupe/collectives/call.hpp>
#include <troupe/collectives/in_process.hpp>

namespace troupe::collectives::detail {

class Meeting {
 public:
  explicit Meeting(int ranks);
  /// Makes it one of nobody yet. A group uses its meetings again: they are made and gone too often, by one thread and
  /// by another, for the allocator to keep up.
  void begin(const Call& call, int first_rank, CallPlace place);

  int asleep = 0;             // ranks that wait for it; guarded by the group's mutex
  std::atomic<int> users{0};  // ranks that have come and do not have their answer

  // Written under the group's mutex, and by nobody once all ranks have arrived.
  Call call;
  int first_rank = 0;  // the one that came first, with which all others are compared
  CallPlace place;
  int arrived = 0;
  bool has_verdict = false;          // somebody has said who is missing
  std::vector<bool> here;            // [ranks]
  std::vector<const float*> inputs;  // [ranks]
  std::vector<float*> outputs;       // [ranks]
  std::vector<double> weights;       // [ranks]

  /// Once all have arrived: lays out the work, after which ranks may do it; all_reduce by kCollective and the other
  /// calls in `parts` parts, else a part is what a rank does with its own values. False when nobody has any weight.
  bool open(InProcessAlgorithm algorithm, int parts);
  bool is_open() const { return is_open_.load(std::memory_order_acquire); }
  /// Every stage is done.
  bool is_complete() const { return is_complete_.load(std::memory_order_acquire); }
  /// Whether there may be a chunk to do now.
  bool has_work() const;
  /// Does one chunk if there is one, of the part `own` modulo the number of parts first. stays: the caller goes on
  /// until there is nothing left, so that nobody need help with the last chunks of its part. Any number of ranks at
  /// once.
  enum class Did { kNothing, kChunk, kEndOfStage };
  Did work(int own, bool stays);
  bool is_collective() const { return algorithm_ == InProcessAlgorithm::kCollective; }

 private:
  /// Chunks of the present stage that nobody has taken: from `first` on, whose part it is takes the next of the first,
  /// and helpers the last, so that they do not disturb each other.
  struct alignas(64) Part {
    std::size_t first = 0;
    std::atomic<std::uint64_t> left{0};  // (taken from the front) << 32 | (end, from `first` on)
    std::atomic<int> owners{0};          // ranks that do one of its chunks now and will do the next
    bool is_empty() const;
    std::optional<std::size_t> take_front();
    std::optional<std::size_t> take_back();
  };
  void lay_out_stage();
  bool takes_part(int rank, int stage) const;
  void do_chunk(int rank, std::size_t begin, std::size_t end) const;
  void do_collective(std::size_t begin, std::size_t end) const;
  void reduce(std::size_t from, std::size_t to, std::span<float* const> outputs) const;

  std::vector<float> shares_;  // [ranks] in kMean, else empty
  InProcessAlgorithm algorithm_ = InProcessAlgorithm::kCollective;
  std::size_t elements_ = 0;
  std::size_t chunks_ = 0;
  int stages_ = 0;
  int stage_ = 0;
  std::unique_ptr<Part[]> parts_;  // [ranks], of which there are part_count_
  std::size_t part_count_ = 0;
  std::atomic<std::size_t> unfinished_{0};  // chunks of the present stage
  std::atomic<bool> is_open_{false};
  std::atomic<bool> is_complete_{false};
};

}  // namespace troupe::collectives::detail
