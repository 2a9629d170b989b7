#pragma once
// n-step transitions, the rows of a DQN, D4PG or SAC table. Which transitions come out is Acme's NStepTransitionAdder
// (acme/adders/reverb/transition.py): one a step, shorter ones while the window fills at the start of an episode, and
// at its end all remaining starts, each with the shorter n that is left.
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include <troupe/replay/adder.hpp>

namespace troupe::replay {

/// Columns: those of the observation, those that acting gives (the action and its extras, of the start), reward
/// float32[], discount float32[], and of the observation n steps later, each with the name next_NAME.
/// reward   = r_t + gamma d_t r_{t+1} + ... + gamma^{n-1} d_t...d_{t+n-2} r_{t+n-1}
/// discount = gamma^n d_t...d_{t+n-1}: multiply next_observation's value by it and nothing else. (Acme stores
/// gamma^{n-1} and lets the learner apply the last gamma.)
Signature transition_signature(const Signature& observation, const Signature& acted);

struct NStepAdderOptions {
  Signature observation;    ///< at least one column
  Signature acted;          ///< at least one column
  std::int64_t n_step = 5;  ///< > 0
  double discount = 0.99;   ///< gamma, 0..1
};

class NStepAdder final : public Adder {
 public:
  /// Errors: kInvalidArgument naming the option.
  static Result<std::unique_ptr<NStepAdder>> make(const NStepAdderOptions& options);

  const Signature& signature() const override { return signature_; }
  std::int64_t most_rows() const override { return options_.n_step; }
  Status first(std::span<const std::byte> observation) override;
  /// 1, or up to n_step when it is the last of its episode.
  std::int64_t rows_of_next(bool last) const override;
  std::int64_t unfinished() const override { return in_episode_ ? rows_of_next(true) - 1 : 0; }
  Result<std::int64_t> add(const AdderStep& step, const MutableBatchView& out, std::int64_t row) override;
  std::vector<std::byte> save_state() const override;
  Status restore_state(std::span<const std::byte> state) override;

  const NStepAdderOptions& options() const { return options_; }

 private:
  explicit NStepAdder(const NStepAdderOptions& options);
  void write_transition(std::int64_t steps, const MutableBatchView& out, std::int64_t row) const;
  std::size_t ring_index(std::int64_t age) const;

  NStepAdderOptions options_;
  Signature signature_;
  std::size_t observation_bytes_, acted_bytes_;
  // The window: a ring of the last n_step starts. Age 1 is the newest complete step, age 2 the one before it.
  std::vector<std::byte> observations_;  // [n_step, observation_bytes_], what the agent saw
  std::vector<std::byte> acted_;         // [n_step, acted_bytes_], what it did then
  std::vector<double> rewards_;          // [n_step]
  std::vector<double> discounts_;        // [n_step]
  std::vector<std::byte> newest_;        // [observation_bytes_], seen but not yet acted on
  std::int64_t next_ = 0;                // ring position that the next step takes
  std::int64_t steps_ = 0;               // starts in the window, <= n_step
  bool in_episode_ = false;
};

/// A MakeAdder of them.
MakeAdder n_step_adders(std::int64_t n_step, double discount);

}  // namespace troupe::replay
