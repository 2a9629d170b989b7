#pragma once
// The random stream that gymnasium draws start states from: numpy.random.default_rng() (PCG64 behind a SeedSequence),
// bit for bit. dm_control's older stream is numpy_random.hpp; everything else in Troupe uses core/rng.hpp.
#include <array>
#include <cstdint>

namespace troupe::envs {

/// numpy.random.Generator(PCG64(seed)) as of numpy 2.4. Copyable: a copy continues the same sequence.
class NumpyGenerator {
 public:
  /// Everything that the next draws depend on: PCG64's two numbers of 128 bits, their high halves first.
  struct State {
    std::array<std::uint64_t, 2> state{};
    std::array<std::uint64_t, 2> increment{};  ///< odd

    bool operator==(const State&) const = default;
  };

  /// default_rng(seed). numpy takes whole numbers of any size; 64 bits of them fit in here.
  explicit NumpyGenerator(std::uint64_t seed);

  /// random(): uniform in [0, 1), the upper 53 of 64 bits.
  double random();
  /// uniform(low, high).
  double uniform(double low, double high) { return low + (high - low) * random(); }

  const State& state() const { return state_; }
  /// False, and nothing changes, when `state` is not one that a seed leads to.
  [[nodiscard]] bool set_state(const State& state);

 private:
  State state_;
};

}  // namespace troupe::envs
