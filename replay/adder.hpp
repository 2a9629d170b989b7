#pragma once
// Turns the time steps of one environment into items, the rows of a table or a queue: n-step transitions
// (replay/n_step_adder.hpp), and whatever an algorithm's own adder makes, say sequences with the recurrent state of
// their first step, or unrolls. Stands between env and replay in the flow env -> actor -> replay. An item is complete
// by itself, so items of many environments may share a trajectory message.
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include <troupe/core/error.hpp>
#include <troupe/core/tensor.hpp>

namespace troupe::replay {

/// What an action led to. Rows are packed as in core/tensor.hpp, columns of any dtype.
struct AdderStep {
  std::span<const std::byte> acted;        ///< in the previous observation: the action, then what acting adds to it
  double reward = 0;                       ///< r_t
  double discount = 1;                     ///< d_t, the environment's: 0 when the task ended
  std::span<const std::byte> observation;  ///< the one that followed
  bool last = false;                       ///< the episode ends here, for whatever reason
};

/// One for each environment. Not thread-safe. An env actor calls it at every step, so it should allocate only when
/// made.
class Adder {
 public:
  virtual ~Adder() = default;

  /// Columns of the items.
  virtual const Signature& signature() const = 0;
  /// Rows that one add() writes at most.
  virtual std::int64_t most_rows() const = 0;

  /// Starts an episode; what is left of one that never reached its last step is dropped.
  /// Errors: kShapeMismatch (observation's length); nothing changed.
  virtual Status first(std::span<const std::byte> observation) = 0;

  /// Rows that the next add() writes.
  virtual std::int64_t rows_of_next(bool last) const = 0;
  /// Steps of this episode that are in no complete item yet: what is lost when it breaks off now.
  virtual std::int64_t unfinished() const = 0;

  /// Takes one step and writes rows_of_next(step.last) items to `out` from row `row` on, oldest first.
  /// out: a batch of signature(). Returns the number of rows written.
  /// Errors, none changing anything: kShapeMismatch; kUnavailable (no first() since the last episode ended);
  /// kOutOfRange (the rows do not fit into `out`).
  virtual Result<std::int64_t> add(const AdderStep& step, const MutableBatchView& out, std::int64_t row) = 0;

  /// What is half built, for checkpoints.
  virtual std::vector<std::byte> save_state() const = 0;
  /// Errors: kCorrupt or kShapeMismatch (the state of an adder with other options); nothing changed.
  virtual Status restore_state(std::span<const std::byte> state) = 0;
};

/// observation: columns of the environment; acted: of what acting gives, the action first. Errors: kInvalidArgument
/// when no items can be made of them.
using MakeAdder = std::function<Result<std::unique_ptr<Adder>>(const Signature& observation, const Signature& acted)>;

}  // namespace troupe::replay
