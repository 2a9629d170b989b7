#pragma once
// Sizes in whole units: of cache lines, of pages, of what a type is aligned to.
#include <cstddef>

namespace troupe {

/// The smallest multiple of `unit`, which is not 0, that holds `bytes`.
constexpr std::size_t round_up(std::size_t bytes, std::size_t unit) { return (bytes + unit - 1) / unit * unit; }

}  // namespace troupe
