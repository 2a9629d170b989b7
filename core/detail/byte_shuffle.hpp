#pragma once
// Interleaving equal arrays unit by unit, taking one of them out again, and finding that they have moved up by one:
// what stacks of images are made of and split by (core/stacks.hpp, which alone uses it).
#include <cstddef>
#include <cstdint>

namespace troupe::detail {

/// `outer` times a unit of each of the arrays.
struct Interleaved {
  std::size_t arrays = 1;
  std::size_t outer = 1;
  std::size_t unit = 1;  ///< bytes
};

/// Instructions that move bytes within a vector. The processor must have those that a call names; tests name each.
enum class Shuffle : std::uint8_t { kNone, kSsse3, kVbmi };
Shuffle best_shuffle();

/// to: arrays * outer * unit bytes. About the speed of a copy where a pixel is small: with SSSE3
/// a little less, with AVX-512 VBMI no less.
void interleave(const std::byte* const* arrays, const Interleaved& how, std::byte* to,
                Shuffle shuffle = best_shuffle());
/// The k-th array of them. to: outer * unit bytes.
void deinterleave(const std::byte* from, const Interleaved& how, std::size_t k, std::byte* to,
                  Shuffle shuffle = best_shuffle());
/// Whether the arrays within `now` but for the last are those within `before` but for the first.
bool is_shifted(const std::byte* before, const std::byte* now, const Interleaved& how);

}  // namespace troupe::detail
