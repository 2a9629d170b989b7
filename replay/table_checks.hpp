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

/// Whether a table keeps the stacks of its rows split.
enum class Rows { kSplit, kWhole };
/// How many items a table of these options holds at most, after max_bytes; split rows share all planes but one of each
/// pool, as far as anybody can tell before they come. Selectors and limiter check theirs themselves.
/// Errors: kInvalidArgument naming the option.
Result<std::int64_t> check_options(const TableOptions& options, Rows rows = Rows::kSplit);

/// call: "insert into". What comes in may be split. Errors: kShapeMismatch, kInvalidArgument (no rows, a plane that is
/// not there).
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
