#pragma once
// Limits of the columns that trajectories and batches carry. Builders refuse what readers would refuse.
#include <cstddef>
#include <cstdint>

#include <troupe/core/error.hpp>
#include <troupe/core/tensor.hpp>

namespace troupe::messages {

inline constexpr std::size_t kMaxColumns = 256;
inline constexpr std::size_t kMaxColumnNameBytes = 256;
inline constexpr std::int64_t kMaxRows = std::int64_t{1} << 31;

/// Names unique, 1..kMaxColumnNameBytes printable bytes; every row has at least one byte; rows in 0..kMaxRows; bytes
/// computed in 128 bits and at most what size_t holds. `where` starts the message.
/// Errors: kInvalidArgument.
Status check_columns(const Signature& signature, std::int64_t rows, std::string_view where);

}  // namespace troupe::messages
