#include <troupe/envs/numpy_generator.hpp>

#include <bit>

namespace troupe::envs {
namespace {

__extension__ typedef unsigned __int128 Wide;

Wide wide(std::uint64_t high, std::uint64_t low) { return Wide{high} << 64 | low; }
Wide wide(const std::array<std::uint64_t, 2>& halves) { return wide(halves[0], halves[1]); }
std::array<std::uint64_t, 2> halves(Wide number) {
  return {static_cast<std::uint64_t>(number >> 64), static_cast<std::uint64_t>(number)};
}

/// The hash of numpy's SeedSequence (O'Neill 2015, "Developing a seed_seq Alternative"): its multiplier changes with
/// each number, so that equal numbers at different places have different hashes.
class SeedHash {
 public:
  SeedHash(std::uint32_t constant, std::uint32_t factor) : constant_(constant), factor_(factor) {}

  std::uint32_t operator()(std::uint32_t value) {
    value ^= constant_;
    constant_ *= factor_;
    value *= constant_;
    return value ^ (value >> 16);
  }

 private:
  std::uint32_t constant_, factor_;
};

/// SeedSequence(seed).generate_state(4, uint64).
std::array<std::uint64_t, 4> seed_words(std::uint64_t seed) {
  SeedHash scatter(0x43b0d7e5, 0x931e8875);
  // numpy splits the seed into as many words as it needs, and fills its pool of four with zeros.
  std::array<std::uint32_t, 4> pool = {static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32), 0, 0};
  for (std::uint32_t& word : pool) word = scatter(word);
  for (std::size_t from = 0; from < pool.size(); ++from) {
    for (std::size_t to = 0; to < pool.size(); ++to) {
      if (to == from) continue;
      const std::uint32_t mixed = 0xca01f9dd * pool[to] - 0x4973f715 * scatter(pool[from]);
      pool[to] = mixed ^ (mixed >> 16);
    }
  }
  SeedHash draw(0x8b51f9dd, 0x58f38ded);
  std::array<std::uint64_t, 4> words;
  for (std::size_t i = 0; i < words.size(); ++i) {
    const std::uint64_t low = draw(pool[2 * i % 4]);
    words[i] = low | std::uint64_t{draw(pool[(2 * i + 1) % 4])} << 32;
  }
  return words;
}

// PCG64 is pcg_oneseq_128_xsl_rr_64 (O'Neill 2014): a linear congruential generator, whose halves are folded into one
// another and rotated by its upper six bits.
Wide next(Wide state, Wide increment) { return state * wide(0x2360ed051fc65da4, 0x4385df649fccf645) + increment; }

std::uint64_t folded(Wide state) {
  const auto [high, low] = halves(state);
  return std::rotr(high ^ low, static_cast<int>(high >> 58));
}

}  // namespace

NumpyGenerator::NumpyGenerator(std::uint64_t seed) {
  const std::array<std::uint64_t, 4> words = seed_words(seed);
  const Wide increment = wide(words[2], words[3]) << 1 | 1;
  state_.increment = halves(increment);
  state_.state = halves(next(increment + wide(words[0], words[1]), increment));
}

double NumpyGenerator::random() {
  const Wide state = next(wide(state_.state), wide(state_.increment));
  state_.state = halves(state);
  return static_cast<double>(folded(state) >> 11) * 0x1p-53;
}

bool NumpyGenerator::set_state(const State& state) {
  if (state.increment[1] % 2 == 0) return false;
  state_ = state;
  return true;
}

}  // namespace troupe::envs
