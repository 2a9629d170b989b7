#pragma once
// What a writer of time steps sends to tables that share them (replay/sequence_tables.hpp): consecutive steps, the
// items to make of them, and where episodes end. Schema: steps.capnp.
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <troupe/core/error.hpp>
#include <troupe/core/tensor.hpp>
#include <troupe/messages/frame.hpp>

namespace troupe::messages {

struct StepsInfo {
  std::uint64_t writer = 0;    ///< one environment's, unlike that of any other of the run
  std::uint64_t sequence = 0;  ///< counts the writer's messages: gaps and duplicates show
  std::int64_t max_steps = 0;  ///< items reach so far back at most; > 0
  bool last = false;           ///< the writer sends no more
};

/// An item of the last `steps` steps before it, which may have come in earlier messages.
struct StepsItem {
  std::string table;
  std::int64_t end = 0;  ///< rows of this message that came before it; those of one message ascend
  std::int64_t steps = 0;
  double priority = 1;  ///< finite and >= 0
};

/// A validated message. Holds its frame.
class StepsView {
 public:
  const StepsInfo& info() const;
  const BatchView& rows() const;
  const std::vector<StepsItem>& items() const;
  /// Rows of this message that came before the end of an episode; ascending. An item with the same number comes first.
  const std::vector<std::int64_t>& ends() const;
  const Frame& frame() const { return frame_; }

 private:
  friend Result<StepsView> read_steps(const Frame&);
  StepsView(Frame frame, const Parsed* parsed) : frame_(std::move(frame)), parsed_(parsed) {}
  Frame frame_;
  const Parsed* parsed_;
};

/// O(1) for a frame that was already read in this process; otherwise validates all of it once.
/// Errors: kCorrupt (malformed bytes), kInvalidArgument (another kind of message, or a value out of its bounds).
Result<StepsView> read_steps(const Frame& frame);

/// Errors: the pool's; kInvalidArgument naming what read_steps() would refuse.
Result<Frame> make_steps(FramePool& pool, const StepsInfo& info, const BatchView& rows,
                         std::span<const StepsItem> items, std::span<const std::int64_t> ends);

}  // namespace troupe::messages
