#include <troupe/replay/table_checks.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include <troupe/core/stacks.hpp>
#include <troupe/replay/row_store.hpp>
#include <troupe/replay/slot_map.hpp>

namespace troupe::replay::detail {

namespace {

Error invalid(std::string what) { return {Code::kInvalidArgument, std::move(what)}; }

template <typename View>
Status check_view(const TableOptions& options, const Signature& signature, const View& batch, std::string_view call) {
  if (batch.signature != &signature) {
    TROUPE_TRY(check_same(*batch.signature, signature, fmt::format("{} table \"{}\"", call, options.name)));
  }
  if (batch.rows < 1) {
    return invalid(fmt::format("{} table \"{}\": {} rows, expected at least 1", call, options.name, batch.rows));
  }
  for (std::size_t c = 0; c < signature.size(); ++c) {
    const std::size_t expected = signature[c].bytes() * static_cast<std::size_t>(batch.rows);
    const std::size_t got = c < batch.columns.size() ? batch.columns[c].size() : 0;
    if (got != expected) {
      return Error{Code::kShapeMismatch, fmt::format("{} table \"{}\": column \"{}\" has {} bytes, expected {}", call,
                                                     options.name, signature[c].name, got, expected)};
    }
  }
  return {};
}

}  // namespace

Result<std::int64_t> check_options(const TableOptions& options, Rows rows) {
  auto wrong = [&](std::string what) { return invalid(fmt::format("table \"{}\": {}", options.name, what)); };
  if (options.signature.empty() || row_bytes(options.signature) == 0) return wrong("signature has no bytes");
  for (std::size_t c = 0; c < options.signature.size(); ++c) {
    for (std::size_t d = 0; d < c; ++d) {
      if (options.signature[c].name == options.signature[d].name) {
        return wrong(fmt::format("columns {} and {} are both named \"{}\"", d, c, options.signature[c].name));
      }
    }
  }
  if (const Status stacks = check_stacks(options.signature, "signature"); !stacks.ok()) {
    return wrong(stacks.error().message);
  }
  // Slots are 32 bits wide, and one value says that there is none.
  if (options.max_items < 1 || options.max_items >= std::int64_t{SlotMap::kNone}) {
    return wrong(fmt::format("max_items is {}, expected 1..{}", options.max_items, SlotMap::kNone - 1));
  }
  if (options.max_bytes < 0) return wrong(fmt::format("max_bytes is {}, expected >= 0", options.max_bytes));
  if (options.max_times_sampled < 0 || options.max_times_sampled > std::numeric_limits<std::int32_t>::max()) {
    return wrong(fmt::format("max_times_sampled is {}, expected 0..2^31-1", options.max_times_sampled));
  }
  const auto stride = static_cast<std::int64_t>(rows == Rows::kSplit ? RowStore::expected_row_bytes(options.signature)
                                                                     : RowStore::whole_row_bytes(options.signature));
  std::int64_t capacity = options.max_items;
  if (options.max_bytes > 0) capacity = std::min(capacity, options.max_bytes / stride);
  if (capacity < options.limiter.min_size_to_sample) {
    return wrong(
        fmt::format("room for {} items (max_items {}, max_bytes {}, {} bytes a row), but min_size_to_sample "
                    "is {}: nothing could ever be sampled",
                    capacity, options.max_items, options.max_bytes, stride, options.limiter.min_size_to_sample));
  }
  return capacity;
}

Status check_columns(const TableOptions& options, const BatchView& batch, std::string_view call) {
  if (batch.planes.empty()) return check_view(options, options.signature, batch, call);
  const Stacks stacks(options.signature);
  TROUPE_TRY(check_view(options, stacks.split(), batch, call));
  return stacks.check_planes(batch, fmt::format("{} table \"{}\"", call, options.name));
}
Status check_columns(const TableOptions& options, const MutableBatchView& batch, std::string_view call) {
  return check_view(options, options.signature, batch, call);
}

Status check_insert(const TableOptions& options, const BatchView& batch, std::span<const double> priorities) {
  TROUPE_TRY(check_columns(options, batch, "insert into"));
  if (!priorities.empty() && priorities.size() != static_cast<std::size_t>(batch.rows)) {
    return invalid(fmt::format("insert into table \"{}\": {} priorities for {} rows", options.name, priorities.size(),
                               batch.rows));
  }
  for (std::size_t i = 0; i < priorities.size(); ++i) {
    if (!valid_priority(priorities[i])) {
      return invalid(fmt::format("insert into table \"{}\": row {} has priority {}, expected 0..{}", options.name, i,
                                 priorities[i], kMaxPriority));
    }
  }
  return {};
}

Status check_sample(const TableOptions& options, const MutableBatchView& out, std::size_t items) {
  TROUPE_TRY(check_columns(options, out, "sample from"));
  if (items == static_cast<std::size_t>(out.rows)) return {};
  return invalid(
      fmt::format("sample from table \"{}\": room for {} items, expected {}", options.name, items, out.rows));
}

Status check_update(const TableOptions& options, std::span<const Key> keys, std::span<const double> priorities) {
  if (keys.size() != priorities.size()) {
    return invalid(fmt::format("update_priorities of table \"{}\": {} priorities for {} keys", options.name,
                               priorities.size(), keys.size()));
  }
  for (std::size_t i = 0; i < priorities.size(); ++i) {
    if (!valid_priority(priorities[i])) {
      return invalid(fmt::format("update_priorities of table \"{}\": key {} gets priority {}, expected 0..{}",
                                 options.name, keys[i], priorities[i], kMaxPriority));
    }
  }
  return {};
}

Status check_read(const TableOptions& options, const MutableBatchView& out, std::size_t priorities) {
  TROUPE_TRY(check_columns(options, out, "read"));
  if (priorities == static_cast<std::size_t>(out.rows)) return {};
  return invalid(
      fmt::format("read table \"{}\": room for {} priorities, expected {}", options.name, priorities, out.rows));
}

std::string blocker(const TableOptions& options, std::string_view limiter) {
  return limiter.empty() ? std::string() : fmt::format("table \"{}\": {}", options.name, limiter);
}

}  // namespace troupe::replay::detail
