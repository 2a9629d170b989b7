#pragma once
// A queue between roles as TensorFlow has them (tf.queue: FIFOQueue, RandomShuffleQueue, PriorityQueue): holds frames
// of one type, gives each to one consumer, and holds producers back when it is full. Channels are first-in-first-out
// queues already; this role is for another order, for a mixture, and for many producers and consumers with one bound.
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <troupe/actors/runtime/topology.hpp>
#include <troupe/core/rng.hpp>

namespace troupe::actors {

enum class QueueOrder {
  kFifo,
  kLifo,
  kShuffle,   ///< any, by chance
  kPriority,  ///< the lowest priority first; of equal ones the oldest
};

/// Of a frame that came in. Errors: it is refused, and its sender named.
using FramePriority = std::function<Result<double>(const Frame&)>;

struct FrameQueueOptions {
  QueueOrder order = QueueOrder::kFifo;
  std::int64_t capacity = 1000;        ///< a producer waits while as many are there
  std::int64_t min_after_dequeue = 0;  ///< nothing leaves while so many, or fewer, are there; below capacity
  FramePriority priority = nullptr;    ///< of kPriority
};

/// Ports: in `in`, out `out`, streams of one type. What waits goes into checkpoints.
class FrameQueue final : public Role {
 public:
  FrameQueue(FrameQueueOptions options, std::uint64_t seed) : options_(std::move(options)), rng_(seed) {}

  Result<Progress> step(RoleContext& context) override;
  std::string waiting_for() const override;
  void report(Report& report) const override;
  Result<RoleState> save() const override;
  Status restore(const RoleState& state) override;

 private:
  struct Waiting {
    double priority = 0;
    std::int64_t number = 0;  ///< counts what came in
    Frame frame;
  };
  /// Whether `a` leaves later than `b`, by which a heap has the next one on top.
  bool later(const Waiting& a, const Waiting& b) const;
  void put(Frame frame, double priority);
  Frame next();

  const FrameQueueOptions options_;
  std::vector<Waiting> waiting_;  ///< a heap by later(); of kShuffle in no order
  std::int64_t taken_ = 0, given_ = 0;
  messages::FramePool restored_;  ///< of frames out of a checkpoint
  Rng rng_;
};

}  // namespace troupe::actors
