#pragma once
// Turns an actor's time steps into n-step transitions, the rows of a D4PG table; stands between env and replay in the
// flow env -> actor -> replay. Which transitions come out is Acme's NStepTransitionAdder
// (acme/adders/reverb/transition.py): one a step, shorter ones while the window fills at the start of an episode, and
// at its end all remaining starts, each with the shorter n that is left.
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include <troupe/core/error.hpp>
#include <troupe/core/tensor.hpp>

namespace troupe::replay {

/// Columns, all float32: observation [o], action [a], reward [], discount [], next_observation [o].
/// reward   = r_t + gamma d_t r_{t+1} + ... + gamma^{n-1} d_t...d_{t+n-2} r_{t+n-1}
/// discount = gamma^n d_t...d_{t+n-1}: multiply next_observation's value by it and nothing else. (Acme stores
/// gamma^{n-1} and lets the learner apply the last gamma.)
Signature transition_signature(std::int64_t observation_size, std::int64_t action_size);

struct NStepAdderOptions {
  std::int64_t observation_size = 0;  ///< floats; > 0
  std::int64_t action_size = 0;       ///< floats; > 0
  std::int64_t n_step = 5;            ///< > 0
  double discount = 0.99;             ///< gamma, 0..1
};

/// What an action led to.
struct AdderStep {
  std::span<const float> action;       ///< [action_size], taken in the previous observation
  double reward = 0;                   ///< r_t
  double discount = 1;                 ///< d_t, the environment's: 0 when the task ended
  std::span<const float> observation;  ///< [observation_size], the one that followed
  bool last = false;                   ///< the episode ends here, for whatever reason
};

/// One for each environment. Allocates only when made. Not thread-safe.
class NStepAdder {
 public:
  /// Errors: kInvalidArgument naming the option.
  static Result<NStepAdder> make(const NStepAdderOptions& options);

  /// Starts an episode; what is left of one that never reached its last step is dropped.
  /// Errors: kShapeMismatch (observation's length); nothing changed.
  Status first(std::span<const float> observation);

  /// Rows that the next add() writes: 1, or up to n_step when it is the last of its episode.
  std::int64_t rows_of_next(bool last) const;

  /// Takes one step and writes rows_of_next(step.last) transitions to `out` from row `row` on, oldest start first.
  /// out: a batch of transition_signature(). Returns the number of rows written.
  /// Errors, none changing anything: kShapeMismatch; kUnavailable (no first() since the last episode ended);
  /// kOutOfRange (the rows do not fit into `out`).
  Result<std::int64_t> add(const AdderStep& step, const MutableBatchView& out, std::int64_t row);

  /// The half-built window, for checkpoints.
  std::vector<std::byte> save_state() const;
  /// Errors: kCorrupt or kShapeMismatch (another observation or action size, n_step or discount); nothing changed.
  Status restore_state(std::span<const std::byte> state);

  const NStepAdderOptions& options() const { return options_; }

 private:
  explicit NStepAdder(const NStepAdderOptions& options);
  void write_transition(std::int64_t steps, const MutableBatchView& out, std::int64_t row) const;
  std::size_t ring_index(std::int64_t age) const;

  NStepAdderOptions options_;
  Signature signature_;
  // The window: a ring of the last n_step starts. Age 1 is the newest complete step, age 2 the one before it.
  std::vector<float> observations_;  // [n_step, observation_size], what the agent saw
  std::vector<float> actions_;       // [n_step, action_size], what it did then
  std::vector<double> rewards_;      // [n_step]
  std::vector<double> discounts_;    // [n_step]
  std::vector<float> newest_;        // [observation_size], seen but not yet acted on
  std::int64_t next_ = 0;            // ring position that the next step takes
  std::int64_t steps_ = 0;           // starts in the window, <= n_step
  bool in_episode_ = false;
};

}  // namespace troupe::replay
