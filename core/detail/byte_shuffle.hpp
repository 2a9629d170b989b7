#pragma once
// Interleaving equal arrays unit by unit, and taking one of them out again: what stacks of images are made of and split
// by (core/stacks.hpp, which alone uses it).
#include <cstddef>

namespace troupe::detail {

/// `outer` times a unit of each of the arrays.
struct Interleaved {
  std::size_t arrays = 1;
  std::size_t outer = 1;
  std::size_t unit = 1;  ///< bytes
};

/// to: arrays * outer * unit bytes. About the speed of a copy where a unit is small and the processor has SSSE3.
void interleave(const std::byte* const* arrays, const Interleaved& how, std::byte* to);
/// The k-th array of them. to: outer * unit bytes.
void deinterleave(const std::byte* from, const Interleaved& how, std::size_t k, std::byte* to);

}  // namespace troupe::detail
