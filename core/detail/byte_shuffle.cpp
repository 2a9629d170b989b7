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

#if defined(__x86_64__)
constexpr std::size_t kMostPicks = 5;
constexpr std::size_t kSsse3 = 16, kVbmi = 64;  // bytes of a vector

/// A vector's bytes from `offset` on of a source, put where `places` says; -1: that byte is of another pick.
template <std::size_t kVector>
struct Pick {
  alignas(kVector) std::array<std::int8_t, kVector> places;
  std::size_t offset;
};

/// What each vector of a block is made of: the first pick is of the first source, and so on. A block is as many units
/// of each source as a vector has bytes, so that what they are put to is a multiple of it, whatever a unit has.
template <std::size_t kVector>
struct Plan {
  std::size_t from_bytes = 0, to_bytes = 0;  // of a block, in each source and where it is put
  std::size_t picks_each = 0;
  std::vector<Pick<kVector>> picks;  // [vectors, picks_each]
};

/// source(i): which pick the i-th byte of a block is of, and its offset in the source. Offsets of a vector's pick only
/// grow, by less than a vector has.
template <std::size_t kVector, typename Source>
Plan<kVector> plan_of(std::size_t from_unit, std::size_t to_unit, std::size_t picks_each, const Source& source) {
  Plan<kVector> plan{kVector * from_unit, kVector * to_unit, picks_each, {}};
  const std::size_t last = plan.from_bytes - kVector;  // so that nothing is read beyond the block
  Pick<kVector> nothing{.places = {}, .offset = plan.from_bytes};
  nothing.places.fill(-1);
  plan.picks.resize(to_unit * picks_each, nothing);
  for (std::size_t i = 0; i < plan.to_bytes; ++i) {
    const auto [at, offset] = source(i);
    Pick<kVector>& pick = plan.picks[i / kVector * picks_each + at];
    pick.offset = std::min({pick.offset, offset, last});
    pick.places[i % kVector] = static_cast<std::int8_t>(offset - pick.offset);
  }
  for (Pick<kVector>& pick : plan.picks) pick.offset = std::min(pick.offset, last);
  return plan;
}

/// The last plan of this thread that was made for the same numbers: a table has one or two kinds of stacks.
template <typename Make>
const auto& remembered(const Interleaved& how, std::size_t k, const Make& make) {
  struct Known {
    std::size_t arrays, unit, k;
    decltype(make()) plan;
  };
  thread_local std::vector<Known> known;
  for (const Known& each : known) {
    if (each.arrays == how.arrays && each.unit == how.unit && each.k == k) return each.plan;
  }
  if (known.size() == 64) known.clear();
  known.push_back({how.arrays, how.unit, k, make()});
  return known.back().plan;
}

template <std::size_t kPicks>
using Sources = std::array<const std::byte*, kPicks>;

/// The next blocks of each source: processors do not fetch beyond the end of a page by themselves.
template <std::size_t kPicks>
inline void fetch_ahead(const Sources<kPicks>& sources, std::size_t bytes) {
  constexpr std::size_t kAhead = 2048, kLine = 64;
#pragma GCC unroll 5
  for (std::size_t p = 0; p < kPicks; ++p) {
    if (p > 0 && sources[p] == sources[p - 1]) continue;
    for (std::size_t at = kAhead; at < kAhead + bytes; at += kLine) __builtin_prefetch(sources[p] + at);
  }
}

template <std::size_t kPicks>
__attribute__((target("ssse3"))) void run(const Plan<kSsse3>& plan, std::size_t blocks, Sources<kPicks> sources,
                                          std::byte* to) {
  for (std::size_t block = 0; block < blocks; ++block) {
    fetch_ahead(sources, plan.from_bytes);
    for (auto pick = plan.picks.begin(); pick != plan.picks.end(); pick += kPicks, to += kSsse3) {
      __m128i all = _mm_setzero_si128();
#pragma GCC unroll 5
      for (std::size_t p = 0; p < kPicks; ++p) {
        const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(sources[p] + pick[p].offset));
        const __m128i places = _mm_load_si128(reinterpret_cast<const __m128i*>(pick[p].places.data()));
        all = _mm_or_si128(all, _mm_shuffle_epi8(bytes, places));
      }
      _mm_storeu_si128(reinterpret_cast<__m128i*>(to), all);
    }
    for (const std::byte*& source : sources) source += plan.from_bytes;
  }
}

template <std::size_t kPicks>
__attribute__((target("avx512f,avx512bw,avx512vbmi"))) void run(const Plan<kVbmi>& plan, std::size_t blocks,
                                                                Sources<kPicks> sources, std::byte* to) {
  for (std::size_t block = 0; block < blocks; ++block) {
    fetch_ahead(sources, plan.from_bytes);
    for (auto pick = plan.picks.begin(); pick != plan.picks.end(); pick += kPicks, to += kVbmi) {
      __m512i all = _mm512_setzero_si512();
#pragma GCC unroll 5
      for (std::size_t p = 0; p < kPicks; ++p) {
        const __m512i bytes = _mm512_loadu_si512(sources[p] + pick[p].offset);
        const __m512i places = _mm512_load_si512(pick[p].places.data());
        all = _mm512_mask_permutexvar_epi8(all, ~_mm512_movepi8_mask(places), places, bytes);
      }
      _mm512_storeu_si512(to, all);
    }
    for (const std::byte*& source : sources) source += plan.from_bytes;
  }
}

/// source(p): of the p-th pick. Goes on behind `done` units, as far as there are whole blocks; how many are done then.
template <std::size_t kVector, typename Source>
std::size_t run_plan(const Plan<kVector>& plan, std::size_t done, std::size_t outer, const Source& source,
                     std::byte* to) {
  const std::size_t blocks = (outer - done) / kVector;
  const std::size_t from_done = done * (plan.from_bytes / kVector), to_done = done * (plan.to_bytes / kVector);
  const auto some = [&]<std::size_t... kEach>(std::index_sequence<kEach...>) {
    run<sizeof...(kEach)>(plan, blocks, {source(kEach) + from_done...}, to + to_done);
  };
  switch (plan.picks_each) {
    case 1:
      some(std::make_index_sequence<1>());
      break;
    case 2:
      some(std::make_index_sequence<2>());
      break;
    case 3:
      some(std::make_index_sequence<3>());
      break;
    case 4:
      some(std::make_index_sequence<4>());
      break;
    default:
      static_assert(kMostPicks == 5);
      some(std::make_index_sequence<5>());
  }
  return done + blocks * kVector;
}

/// Units that are interleaved then.
template <std::size_t kVector>
std::size_t interleave_blocks(const std::byte* const* arrays, const Interleaved& how, std::size_t done, std::byte* to) {
  if (how.arrays > kMostPicks || how.unit > kSsse3) return done;
  const auto& plan = remembered(how, 0, [&] {
    return plan_of<kVector>(how.unit, how.arrays * how.unit, how.arrays, [&](std::size_t i) {
      const std::size_t unit = i / how.unit;
      return std::pair(unit % how.arrays, unit / how.arrays * how.unit + i % how.unit);
    });
  });
  return run_plan(
      plan, done, how.outer, [&](std::size_t k) { return arrays[k]; }, to);
}

template <std::size_t kVector>
std::size_t deinterleave_blocks(const std::byte* from, const Interleaved& how, std::size_t k, std::size_t done,
                                std::byte* to) {
  const std::size_t pixel = how.arrays * how.unit;
  const auto offset = [&](std::size_t i) { return i / how.unit * pixel + k * how.unit + i % how.unit; };
  // A vector's bytes lie no further apart than those of one that begins with a unit's last byte.
  const std::size_t picks = (offset(how.unit + kVector - 2) - offset(how.unit - 1)) / kVector + 1;
  if (picks > kMostPicks) return done;
  const auto& plan = remembered(how, k, [&] {
    return plan_of<kVector>(pixel, how.unit, picks, [&](std::size_t i) {
      return std::pair((offset(i) - offset(i / kVector * kVector)) / kVector, offset(i));
    });
  });
  return run_plan(
      plan, done, how.outer, [&](std::size_t) { return from; }, to);
}
#endif

}  // namespace

Shuffle best_shuffle() {
#if defined(__x86_64__)
  static const Shuffle best = __builtin_cpu_supports("avx512bw") != 0 && __builtin_cpu_supports("avx512vbmi") != 0
                                  ? Shuffle::kVbmi
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
  if (shuffle == Shuffle::kVbmi) done = interleave_blocks<kVbmi>(arrays, how, done, to);
  if (shuffle != Shuffle::kNone) done = interleave_blocks<kSsse3>(arrays, how, done, to);
#endif
  interleave_from(done, arrays, how, to);
}

void deinterleave(const std::byte* from, const Interleaved& how, std::size_t k, std::byte* to,
                  [[maybe_unused]] Shuffle shuffle) {
  std::size_t done = 0;
#if defined(__x86_64__)
  if (shuffle == Shuffle::kVbmi) done = deinterleave_blocks<kVbmi>(from, how, k, done, to);
  if (shuffle != Shuffle::kNone) done = deinterleave_blocks<kSsse3>(from, how, k, done, to);
#endif
  deinterleave_from(done, from, how, k, to);
}

bool is_shifted(const std::byte* before, const std::byte* now, const Interleaved& how) {
  const std::size_t pixel = how.arrays * how.unit, kept = pixel - how.unit;
  constexpr std::size_t kPixels = 64;     // of a block, whose bytes are whole words then
  constexpr std::size_t kMostBytes = 64;  // beyond it the units that lie together are as well looked at by themselves
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
