#pragma once
// Random numbers that repeat: a small generator with explicit state, and the rule by which every actor's seed follows
// from (run seed, role, index). Nothing in Troupe draws from an unseeded source.
#include <array>
#include <cstdint>
#include <limits>
#include <string_view>

namespace troupe {

/// xoshiro256++ (Blackman & Vigna 2019), seeded through splitmix64. Satisfies UniformRandomBitGenerator.
/// Not for secrets. Copyable: a copy continues the same sequence, which is how a checkpoint restores it.
class Rng {
 public:
  using result_type = std::uint64_t;
  using State = std::array<std::uint64_t, 4>;

  explicit Rng(std::uint64_t seed);

  static constexpr result_type min() { return 0; }
  static constexpr result_type max() { return std::numeric_limits<result_type>::max(); }
  result_type operator()();

  /// Uniform in [0, 1), 53 bits.
  double uniform() { return static_cast<double>((*this)() >> 11) * 0x1.0p-53; }
  /// Uniform integer in [0, bound), without modulo bias (Lemire 2019). bound > 0.
  std::uint64_t below(std::uint64_t bound);
  /// Standard normal (Marsaglia's polar method; no cached second value, so the state is complete).
  double normal();

  /// Everything there is to save; restoring it continues the sequence bit for bit.
  const State& state() const { return state_; }
  void set_state(const State& state) { state_ = state; }

 private:
  State state_;
};

/// The seed of actor `index` of `role` in a run: a hash, so that neighbouring indices are unrelated.
std::uint64_t derive_seed(std::uint64_t run_seed, std::string_view role, std::uint64_t index);

}  // namespace troupe
