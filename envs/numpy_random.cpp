#include <troupe/envs/numpy_random.hpp>

#include <algorithm>
#include <bit>
#include <cmath>
#include <numeric>
#include <utility>
#include <vector>

#include <troupe/core/check.hpp>

namespace troupe::envs {
namespace {

// Constants of MT19937 (Matsumoto & Nishimura 1998) and of its array initialisation (mt19937ar.c, 2002).
constexpr std::size_t kWords = 624;
constexpr std::size_t kShift = 397;
constexpr std::uint32_t kMatrix = 0x9908b0df;
constexpr std::uint32_t kUpperMask = 0x80000000;
constexpr std::uint32_t kLowerMask = 0x7fffffff;

std::uint32_t mixed(std::uint32_t word) { return word ^ (word >> 30); }

}  // namespace

NumpyRandom::NumpyRandom(std::uint64_t seed) {
  if (seed <= 0xffffffff) {
    seed_with_word(static_cast<std::uint32_t>(seed));
    return;
  }
  const std::array<std::uint32_t, 2> words = {static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32)};
  seed_with_word(19650218);
  auto& key = state_.key;
  std::size_t i = 1;
  const auto advance = [&] {
    if (++i == kWords) {
      key[0] = key[kWords - 1];
      i = 1;
    }
  };
  for (std::size_t k = 0; k < kWords; ++k) {
    const auto j = static_cast<std::uint32_t>(k % words.size());
    key[i] = (key[i] ^ (mixed(key[i - 1]) * 1664525u)) + words[j] + j;
    advance();
  }
  for (std::size_t k = 0; k < kWords - 1; ++k) {
    key[i] = (key[i] ^ (mixed(key[i - 1]) * 1566083941u)) - static_cast<std::uint32_t>(i);
    advance();
  }
  key[0] = 0x80000000;
}

void NumpyRandom::seed_with_word(std::uint32_t seed) {
  state_ = State{};
  state_.key[0] = seed;
  for (std::size_t i = 1; i < kWords; ++i) {
    state_.key[i] = 1812433253u * mixed(state_.key[i - 1]) + static_cast<std::uint32_t>(i);
  }
}

void NumpyRandom::refill() {
  auto& key = state_.key;
  for (std::size_t i = 0; i < kWords; ++i) {
    const std::uint32_t word = (key[i] & kUpperMask) | (key[(i + 1) % kWords] & kLowerMask);
    key[i] = key[(i + kShift) % kWords] ^ (word >> 1) ^ ((word & 1) != 0 ? kMatrix : 0);
  }
  state_.position = 0;
}

std::uint32_t NumpyRandom::next_word() {
  if (state_.position == kWords) refill();
  std::uint32_t word = state_.key[state_.position++];
  word ^= word >> 11;
  word ^= (word << 7) & 0x9d2c5680;
  word ^= (word << 15) & 0xefc60000;
  return word ^ (word >> 18);
}

double NumpyRandom::random_sample() {
  const std::uint32_t high = next_word() >> 5;  // 27 bits
  const std::uint32_t low = next_word() >> 6;   // 26 bits
  return (high * 67108864.0 + low) / 9007199254740992.0;
}

std::uint32_t NumpyRandom::randint(std::uint32_t count) {
  TROUPE_CHECK(count > 0, "randint of {} numbers", count);
  // numpy's legacy way: words cut to as many bits as the largest result has, until one is in range.
  const std::uint32_t largest = count - 1;
  if (largest == 0) return 0;  // without a draw
  const std::uint32_t mask = ~std::uint32_t{0} >> std::countl_zero(largest);
  std::uint32_t number = 0;
  do {
    number = next_word() & mask;
  } while (number > largest);
  return number;
}

std::size_t NumpyRandom::choice(std::span<const double> probabilities) {
  TROUPE_CHECK(!probabilities.empty(), "a choice of nothing");
  std::vector<double> cumulated(probabilities.size());
  std::partial_sum(probabilities.begin(), probabilities.end(), cumulated.begin());
  for (double& sum : cumulated) sum /= cumulated.back();  // the last one last, as it divides the others
  const auto found = std::upper_bound(cumulated.begin(), cumulated.end(), random_sample());
  return static_cast<std::size_t>(found - cumulated.begin());
}

double NumpyRandom::randn() {
  if (state_.has_gauss != 0) {
    state_.has_gauss = 0;
    return std::exchange(state_.gauss, 0.0);
  }
  double x1 = 0;
  double x2 = 0;
  double r2 = 0;
  do {
    x1 = 2.0 * random_sample() - 1.0;
    x2 = 2.0 * random_sample() - 1.0;
    r2 = x1 * x1 + x2 * x2;
  } while (r2 >= 1.0 || r2 == 0.0);
  const double scale = std::sqrt(-2.0 * std::log(r2) / r2);
  state_.gauss = scale * x1;
  state_.has_gauss = 1;
  return scale * x2;
}

bool NumpyRandom::set_state(const State& state) {
  const bool drawn = std::any_of(state.key.begin(), state.key.end(), [](std::uint32_t word) { return word != 0; });
  if (!drawn || state.position > kWords || state.has_gauss > 1 || !std::isfinite(state.gauss)) return false;
  state_ = state;
  return true;
}

}  // namespace troupe::envs
