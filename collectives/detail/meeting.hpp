#pragma once
// One collective of an in-process group, and its work: stages, each of which is chunks that may be done at the same
// time, by whichever ranks are waiting. Private to the in-process back end; InProcessGroup says when ranks may work.
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
  Meeting(const Call& call, int first_rank, CallPlace place, int ranks);

  int asleep = 0;  // ranks that wait for it; guarded by the group's mutex

  // Written under the group's mutex, and by nobody once all ranks have arrived.
  const Call call;
  const int first_rank;  // the one that came first, with which all others are compared
  const CallPlace place;
  int arrived = 0;
  bool has_verdict = false;          // somebody has said who is missing
  std::vector<bool> here;            // [ranks]
  std::vector<const float*> inputs;  // [ranks]
  std::vector<float*> outputs;       // [ranks]
  std::vector<double> weights;       // [ranks]

  /// Once all have arrived: lays out the work, after which ranks may do it. False when nobody has any weight.
  bool open(InProcessAlgorithm algorithm);
  bool is_open() const { return is_open_.load(std::memory_order_acquire); }
  /// Every stage is done.
  bool is_complete() const { return is_complete_.load(std::memory_order_acquire); }
  /// Whether there may be a chunk to do now.
  bool has_work() const;
  /// Does one chunk if there is one, of the rank's own part first. Any number of ranks at once.
  enum class Did { kNothing, kChunk, kEndOfStage };
  Did work(int rank);

 private:
  /// A rank's part of the present stage, taken by counting down.
  struct alignas(64) Portion {
    std::atomic<std::int64_t> left{0};
    std::size_t end = 0;  // of its chunks, which are [end - left, end)
  };
  std::optional<std::size_t> take(Portion& portion);
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
  std::unique_ptr<Portion[]> portions_;     // [ranks]
  std::atomic<std::size_t> unfinished_{0};  // chunks of the present stage
  std::atomic<bool> is_open_{false};
  std::atomic<bool> is_complete_{false};
};

}  // namespace troupe::collectives::detail
