#pragma once
// The random stream that dm_control draws start states from: numpy.random.RandomState (MT19937), bit for bit. Episodes
// of Troupe's environments therefore start where dm_control's do for the same seed. Everything else in Troupe uses
// core/rng.hpp.
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace troupe::envs {

/// numpy.random.RandomState as of numpy 2.4, whose stream numpy has frozen (NEP 19). Copyable: a copy continues the
/// same sequence.
class NumpyRandom {
 public:
  /// Everything that the next draws depend on. Plain data, so that it can be stored as bytes.
  struct State {
    std::array<std::uint32_t, 624> key{};
    std::uint32_t position = 624;  ///< words of `key` already used, 0..624
    std::uint32_t has_gauss = 0;   ///< 1 when `gauss` holds the second value of the last polar draw
    double gauss = 0;
  };

  /// RandomState(seed) for seed < 2^32, which is all that numpy takes as a number; from there on
  /// RandomState([seed & 0xffffffff, seed >> 32]).
  explicit NumpyRandom(std::uint64_t seed);

  /// random_sample(): uniform in [0, 1), 53 bits from two words.
  double random_sample();
  /// uniform(low, high).
  double uniform(double low, double high) { return low + (high - low) * random_sample(); }
  /// randint(count): one of 0 .. count - 1, each as likely. 1 <= count <= 2^32 - 1.
  std::uint32_t randint(std::uint32_t count);
  /// choice(len(p), p=p): an index, drawn with these probabilities, of which there is at least one and whose sum is 1.
  std::size_t choice(std::span<const double> probabilities);
  /// randn(): standard normal by the polar method. Two values a draw; the second is kept for the next call.
  double randn();

  const State& state() const { return state_; }
  /// False, and nothing changes, when `state` is not one that draws can lead to.
  [[nodiscard]] bool set_state(const State& state);

 private:
  std::uint32_t next_word();
  void seed_with_word(std::uint32_t seed);
  void refill();

  State state_;
};

}  // namespace troupe::envs
