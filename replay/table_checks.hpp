#pragma once
// What every table checks before it does anything, so that all of them refuse the same calls in the same words.
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include <troupe/core/error.hpp>
#include <troupe/core/tensor.hpp>
#include <troupe/replay/table.hpp>

namespace troupe::replay::detail {

/// How many items a table of these options holds, after max_bytes. Selectors and limiter check theirs themselves.
/// Errors: kInvalidArgument naming the option.
Result<std::int64_t> check_options(const TableOptions& options);

/// call: "insert into". Errors: kShapeMismatch, kInvalidArgument (no rows).
Status check_columns(const TableOptions& options, const BatchView& batch, std::string_view call);
Status check_columns(const TableOptions& options, const MutableBatchView& batch, std::string_view call);
/// Of insert() and recover(): the columns, and a valid priority for each row or none at all.
Status check_insert(const TableOptions& options, const BatchView& batch, std::span<const double> priorities);
Status check_sample(const TableOptions& options, const MutableBatchView& out, std::size_t items);
Status check_update(const TableOptions& options, std::span<const Key> keys, std::span<const double> priorities);
Status check_read(const TableOptions& options, const MutableBatchView& out, std::size_t priorities);

/// `limiter`: why it does not admit something, or empty.
std::string blocker(const TableOptions& options, std::string_view limiter);

}  // namespace troupe::replay::detail
