#pragma once
// Limits of the columns that trajectories, batches and calls of a policy carry. Builders refuse what readers would
// refuse.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include <troupe/core/error.hpp>
#include <troupe/core/tensor.hpp>

namespace troupe::messages {

inline constexpr std::size_t kMaxColumns = 256;
inline constexpr std::size_t kMaxColumnNameBytes = 256;
inline constexpr std::int64_t kMaxRows = std::int64_t{1} << 28;
/// Cap'n Proto counts the bytes of one column in 29 bits.
inline constexpr std::size_t kMaxColumnBytes = (std::size_t{1} << 29) - 1;

/// At least one column; names unique, of 1..kMaxColumnNameBytes printable ASCII characters; no column without elements;
/// rows in 0..kMaxRows; every column at most kMaxColumnBytes. `where` starts the message. Errors: kInvalidArgument.
Status check_columns(const Signature& signature, std::int64_t rows, std::string_view where);

}  // namespace troupe::messages
