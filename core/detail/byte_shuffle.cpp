#include <troupe/core/detail/byte_shuffle.hpp>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <utility>
#include <vector>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace troupe::detail {
namespace {

void interleave_from(std::size_t first, const std::byte* const* arrays, const Interleaved& how, std::byte* to) {
  to += first * how.arrays * how.unit;
  for (std::size_t i = first; i < how.outer; ++i) {
    for (std::size_t k = 0; k < how.arrays; ++k, to += how.unit) {
      std::memcpy(to, arrays[k] + i * how.unit, how.unit);
    }
  }
}

void deinterleave_from(std::size_t first, const std::byte* from, const Interleaved& how, std::size_t k, std::byte* to) {
  for (std::size_t i = first; i < how.outer; ++i) {
    std::memcpy(to + i * how.unit, from + (i * how.arrays + k) * how.unit, how.unit);
  }
}

/// Beyond it the units that lie together are as well looked at by themselves.
constexpr std::size_t kMostBytes = 64;

#if defined(__x86_64__)
constexpr std::size_t kVector = 16;
/// Units of a block: a multiple of the vector's bytes, whatever a unit has.
constexpr std::size_t kBlock = 16;
/// Bytes of one source that belong into one vector: those at `offset`, put where `places` says.
struct Pick {
  std::size_t source;
  std::size_t offset;
  std::array<std::int8_t, kVector> places;
};

/// What each vector of a block is made of.
struct Plan {
  std::size_t picks_each = 0;
  std::vector<Pick> picks;  // [vectors, picks_each]
};

/// source(i): which byte of which source the i-th byte of a block is, as {source, offset}. Offsets of one source only
/// grow, and a vector picks 16 neighbours at a time.
template <typename Source>
Plan plan_of(std::size_t bytes, const Source& source) {
  std::vector<std::vector<Pick>> vectors(bytes / kVector);
  Plan plan;
  for (std::size_t i = 0; i < bytes; ++i) {
    auto& picks = vectors[i / kVector];
    const auto [from, offset] = source(i);
    std::size_t at = 0;
    while (at < picks.size() &&
           (picks[at].source != from || offset < picks[at].offset || offset - picks[at].offset >= kVector)) {
      ++at;
    }
    if (at == picks.size()) {
      picks.push_back({from, offset, {}});
      picks.back().places.fill(-1);
    }
    picks[at].places[i % kVector] = static_cast<std::int8_t>(offset - picks[at].offset);
    plan.picks_each = std::max(plan.picks_each, picks.size());
  }
  for (auto& picks : vectors) {
    Pick nothing = picks.front();
    nothing.places.fill(-1);
    picks.resize(plan.picks_each, nothing);
    plan.picks.insert(plan.picks.end(), picks.begin(), picks.end());
  }
  return plan;
}

template <std::size_t kPicks>
__attribute__((target("ssse3"))) void run(const Plan& plan, std::size_t blocks, const std::byte* const* sources,
                                          std::size_t source_step, std::byte* to) {
  const std::size_t picks_each = kPicks == 0 ? plan.picks_each : kPicks;
  for (std::size_t block = 0; block < blocks; ++block) {
    const std::size_t start = block * source_step;
    const Pick* pick = plan.picks.data();
    const Pick* const end = pick + plan.picks.size();
    while (pick < end) {
      __m128i all = _mm_setzero_si128();
#pragma GCC unroll 4
      for (std::size_t p = 0; p < picks_each; ++p, ++pick) {
        const auto* const bytes = sources[pick->source] + start + pick->offset;
        const __m128i places = _mm_loadu_si128(reinterpret_cast<const __m128i*>(pick->places.data()));
        all = _mm_or_si128(all, _mm_shuffle_epi8(_mm_loadu_si128(reinterpret_cast<const __m128i*>(bytes)), places));
      }
      _mm_storeu_si128(reinterpret_cast<__m128i*>(to), all);
      to += kVector;
    }
  }
}

void run_plan(const Plan& plan, std::size_t blocks, const std::byte* const* sources, std::size_t source_step,
              std::byte* to) {
  switch (plan.picks_each) {
    case 2:
      return run<2>(plan, blocks, sources, source_step, to);
    case 3:
      return run<3>(plan, blocks, sources, source_step, to);
    case 4:
      return run<4>(plan, blocks, sources, source_step, to);
    default:
      return run<0>(plan, blocks, sources, source_step, to);
  }
}

/// Blocks that can be read without going past the end of sources of `bytes`: a vector may read 15 bytes too many.
std::size_t safe_blocks(std::size_t bytes, std::size_t block_bytes) {
  return bytes < kVector ? 0 : (bytes - kVector) / block_bytes;
}

/// The last plan of this thread that was made for the same numbers: a table has one or two kinds of stacks.
template <typename Make>
const Plan& remembered(const Interleaved& how, std::size_t k, const Make& make) {
  struct Known {
    std::size_t arrays, unit, k;
    Plan plan;
  };
  thread_local std::vector<Known> known;
  for (const Known& each : known) {
    if (each.arrays == how.arrays && each.unit == how.unit && each.k == k) return each.plan;
  }
  if (known.size() == 64) known.clear();
  known.push_back({how.arrays, how.unit, k, make()});
  return known.back().plan;
}

/// A block is as many units of each array as a vector holds: one load of each array gives as many vectors as there are
/// arrays. They may go past the block, where the next one is written then.
template <std::size_t kArrays>
struct Blocks {
  std::size_t units, from_bytes, to_bytes;
  std::size_t count = 0;                                        // as many as leave room for what goes past the last
  std::array<std::int8_t, kVector> places[kArrays][kArrays]{};  // of each vector and array, of shuffle_epi8

  explicit Blocks(const Interleaved& how)
      : units(kVector / how.unit), from_bytes(units * how.unit), to_bytes(from_bytes * kArrays) {
    const std::size_t array_bytes = how.outer * how.unit, all_bytes = array_bytes * kArrays;
    if (array_bytes < kVector || all_bytes < kArrays * kVector) return;
    count = 1 + std::min((array_bytes - kVector) / from_bytes, (all_bytes - kArrays * kVector) / to_bytes);
    for (std::size_t at = 0; at < kArrays * kVector; ++at) {
      const std::size_t unit = at / how.unit;
      for (std::size_t k = 0; k < kArrays; ++k) {
        const bool its = at < to_bytes && unit % kArrays == k;
        places[at / kVector][k][at % kVector] =
            static_cast<std::int8_t>(its ? unit / kArrays * how.unit + at % how.unit : 0x80);
      }
    }
  }
};

const __m128i* vector_at(const void* bytes) { return static_cast<const __m128i*>(bytes); }
__m128i* vector_at(std::byte* bytes) { return reinterpret_cast<__m128i*>(bytes); }

template <std::size_t kArrays>
__attribute__((target("ssse3"))) void interleave_blocks(const Blocks<kArrays>& blocks, std::size_t first,
                                                        const std::byte* const* arrays, std::byte* to) {
  for (std::size_t block = first; block < blocks.count; ++block) {
    __m128i from[kArrays];
    for (std::size_t k = 0; k < kArrays; ++k) {
      from[k] = _mm_loadu_si128(vector_at(arrays[k] + block * blocks.from_bytes));
    }
#pragma GCC unroll 4
    for (std::size_t v = 0; v < kArrays; ++v) {
      __m128i all = _mm_setzero_si128();
#pragma GCC unroll 4
      for (std::size_t k = 0; k < kArrays; ++k) {
        all = _mm_or_si128(all, _mm_shuffle_epi8(from[k], _mm_loadu_si128(vector_at(blocks.places[v][k].data()))));
      }
      _mm_storeu_si128(vector_at(to + block * blocks.to_bytes + v * kVector), all);
    }
  }
}

/// Two blocks at a time. Returns how many are done.
template <std::size_t kArrays>
__attribute__((target("avx2"))) std::size_t interleave_pairs(const Blocks<kArrays>& blocks,
                                                             const std::byte* const* arrays, std::byte* to) {
  __m256i places[kArrays][kArrays];
  for (std::size_t v = 0; v < kArrays; ++v) {
    for (std::size_t k = 0; k < kArrays; ++k) {
      places[v][k] = _mm256_broadcastsi128_si256(_mm_loadu_si128(vector_at(blocks.places[v][k].data())));
    }
  }
  const std::size_t pairs = blocks.count / 2;
  for (std::size_t pair = 0; pair < pairs; ++pair) {
    __m256i from[kArrays], all[kArrays];
#pragma GCC unroll 4
    for (std::size_t k = 0; k < kArrays; ++k) {
      const std::byte* const at = arrays[k] + pair * 2 * blocks.from_bytes;
      from[k] = _mm256_inserti128_si256(_mm256_castsi128_si256(_mm_loadu_si128(vector_at(at))),
                                        _mm_loadu_si128(vector_at(at + blocks.from_bytes)), 1);
    }
#pragma GCC unroll 4
    for (std::size_t v = 0; v < kArrays; ++v) {
      all[v] = _mm256_shuffle_epi8(from[0], places[v][0]);
#pragma GCC unroll 4
      for (std::size_t k = 1; k < kArrays; ++k) {
        all[v] = _mm256_or_si256(all[v], _mm256_shuffle_epi8(from[k], places[v][k]));
      }
    }
    std::byte* const there = to + pair * 2 * blocks.to_bytes;
#pragma GCC unroll 4
    for (std::size_t v = 0; v < kArrays; ++v) {
      _mm_storeu_si128(vector_at(there + v * kVector), _mm256_castsi256_si128(all[v]));
    }
#pragma GCC unroll 4
    for (std::size_t v = 0; v < kArrays; ++v) {
      _mm_storeu_si128(vector_at(there + blocks.to_bytes + v * kVector), _mm256_extracti128_si256(all[v], 1));
    }
  }
  return 2 * pairs;
}

/// Returns the units that are done.
template <std::size_t kArrays>
std::size_t interleave_some(const std::byte* const* arrays, const Interleaved& how, std::byte* to, Shuffle shuffle) {
  const Blocks<kArrays> blocks(how);
  const std::size_t paired = shuffle == Shuffle::kAvx2 ? interleave_pairs(blocks, arrays, to) : 0;
  interleave_blocks(blocks, paired, arrays, to);
  return blocks.count * blocks.units;
}
#endif

}  // namespace

Shuffle best_shuffle() {
#if defined(__x86_64__)
  static const Shuffle best = __builtin_cpu_supports("avx2") != 0    ? Shuffle::kAvx2
                              : __builtin_cpu_supports("ssse3") != 0 ? Shuffle::kSsse3
                                                                     : Shuffle::kNone;
  return best;
#else
  return Shuffle::kNone;
#endif
}

void interleave(const std::byte* const* arrays, const Interleaved& how, std::byte* to,
                [[maybe_unused]] Shuffle shuffle) {
  std::size_t done = 0;
#if defined(__x86_64__)
  if (how.unit <= kVector && shuffle != Shuffle::kNone) {
    switch (how.arrays) {
      case 2:
        done = interleave_some<2>(arrays, how, to, shuffle);
        break;
      case 3:
        done = interleave_some<3>(arrays, how, to, shuffle);
        break;
      case 4:
        done = interleave_some<4>(arrays, how, to, shuffle);
        break;
      default:  // by units
        break;
    }
  }
#endif
  interleave_from(done, arrays, how, to);
}

void deinterleave(const std::byte* from, const Interleaved& how, std::size_t k, std::byte* to,
                  [[maybe_unused]] Shuffle shuffle) {
  std::size_t done = 0;
#if defined(__x86_64__)
  const std::size_t pixel = how.arrays * how.unit;
  if (pixel <= kMostBytes && shuffle != Shuffle::kNone) {
    const Plan& plan = remembered(how, k, [&] {
      return plan_of(kBlock * how.unit, [&](std::size_t i) {
        return std::pair(std::size_t{0}, i / how.unit * pixel + k * how.unit + i % how.unit);
      });
    });
    const std::size_t blocks = safe_blocks(how.outer * pixel, kBlock * pixel);
    run_plan(plan, blocks, &from, kBlock * pixel, to);
    done = blocks * kBlock;
  }
#endif
  deinterleave_from(done, from, how, k, to);
}

bool is_shifted(const std::byte* before, const std::byte* now, const Interleaved& how) {
  const std::size_t pixel = how.arrays * how.unit, kept = pixel - how.unit;
  constexpr std::size_t kPixels = 64;  // of a block, whose bytes are whole words then
  std::size_t done = 0;
  if (pixel <= kMostBytes) {
    constexpr std::size_t kWord = sizeof(std::uint64_t);
    std::array<std::byte, kPixels * kMostBytes> bytes;
    std::memset(bytes.data(), 0xff, kPixels * pixel);
    for (std::size_t i = 0; i < kPixels; ++i) std::memset(bytes.data() + i * pixel + kept, 0, how.unit);
    const auto word = [](const std::byte* at) {
      std::uint64_t value;
      std::memcpy(&value, at, kWord);
      return value;
    };
    for (; done + kPixels < how.outer; done += kPixels) {
      std::uint64_t differs = 0;
      const std::size_t at = done * pixel;
      for (std::size_t i = 0; i < kPixels * pixel; i += kWord) {
        differs |= (word(now + at + i) ^ word(before + at + how.unit + i)) & word(bytes.data() + i);
      }
      if (differs != 0) return false;
    }
  }
  for (; done < how.outer; ++done) {
    if (std::memcmp(now + done * pixel, before + done * pixel + how.unit, kept) != 0) return false;
  }
  return true;
}

}  // namespace troupe::detail
