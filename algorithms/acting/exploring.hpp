#pragma once
// What explorations share: a row of one of the policy's outputs, bounds that make sense, and a generator's state in
// checkpoints.
#include <cstddef>
#include <span>
#include <string_view>
#include <vector>

#include <troupe/algorithms/acting/exploration.hpp>
#include <troupe/core/error.hpp>
#include <troupe/core/rng.hpp>

namespace troupe::acting {

/// The policy's output `name`, float32[size], for its row. Errors: kNotFound, when there is none like that.
Result<std::span<const float>> output_row(const PolicyRow& policy, std::string_view name, std::size_t size);

/// As many lower as upper bounds, at least one, each finite and below the other. Errors: kInvalidArgument, beginning
/// with `what`.
Status check_bounds(std::span<const double> low, std::span<const double> high, std::string_view what);

/// The generator's words, with which a saved state begins.
std::vector<std::byte> rng_bytes(const Rng& rng);
/// That a saved state has them and `more` bytes. Errors: kCorrupt, beginning with `what`.
Status check_rng_bytes(std::span<const std::byte> state, std::size_t more, std::string_view what);
/// From the beginning of a state that check_rng_bytes() has seen.
void restore_rng(Rng& rng, std::span<const std::byte> state);

}  // namespace troupe::acting
