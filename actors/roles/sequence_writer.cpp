#include <troupe/actors/roles/sequence_writer.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

namespace troupe::actors {

SequenceWriter::SequenceWriter(Signature step, std::int64_t max_steps, std::uint64_t number)
    : step_(std::move(step)), max_steps_(max_steps), number_(number), columns_(step_.size()) {}

Status SequenceWriter::append(const BatchView& steps) {
  TROUPE_TRY(check_same(*steps.signature, step_, "append steps"));
  for (std::size_t i = 0; i < step_.size(); ++i) {
    const std::size_t bytes = step_[i].bytes() * static_cast<std::size_t>(steps.rows);
    if (steps.columns[i].size() == bytes) continue;
    return Error{Code::kShapeMismatch, fmt::format("append steps: column {}: got {} bytes, expected {}", step_[i].name,
                                                   steps.columns[i].size(), bytes)};
  }
  for (std::size_t i = 0; i < step_.size(); ++i) {
    columns_[i].insert(columns_[i].end(), steps.columns[i].begin(), steps.columns[i].end());
  }
  rows_ += steps.rows;
  episode_ += steps.rows;
  return {};
}

Status SequenceWriter::create_item(std::string table, std::int64_t steps, double priority) {
  if (steps < 1 || steps > reach()) {
    return Error{Code::kInvalidArgument,
                 fmt::format("an item of {} steps for table \"{}\": expected 1 to {}, the steps of the episode within "
                             "the writer's max_steps",
                             steps, table, reach())};
  }
  if (table.empty()) return Error{Code::kInvalidArgument, "an item of no table"};
  if (!(priority >= 0 && std::isfinite(priority))) {
    return Error{Code::kInvalidArgument,
                 fmt::format("an item for table \"{}\": priority {}, expected it finite and >= 0", table, priority)};
  }
  items_.push_back({std::move(table), rows_, steps, priority});
  return {};
}

void SequenceWriter::end_episode() {
  if (episode_ == 0) return;
  ends_.push_back(rows_);
  episode_ = 0;
}

std::int64_t SequenceWriter::reach() const { return std::min(episode_, max_steps_); }

Result<bool> SequenceWriter::flush(RoleContext& context, std::string_view port) {
  if (rows_ == 0 && items_.empty() && ends_.empty() && !last_) return true;
  Outlet& outlet = context.out(port);
  if (outlet.consumers() == 0) return false;
  const std::size_t consumer = number_ % outlet.consumers();
  if (!outlet.ready(consumer)) return false;
  BatchView rows{.signature = &step_, .rows = rows_, .columns = {}};
  for (const auto& column : columns_) rows.columns.emplace_back(column);
  TROUPE_ASSIGN(Frame frame,
                messages::make_steps(context.pool(), {number_, sequence_, max_steps_, last_}, rows, items_, ends_));
  outlet.send_to(consumer, std::move(frame));
  ++sequence_;
  for (auto& column : columns_) column.clear();
  items_.clear();
  ends_.clear();
  rows_ = 0;
  last_ = false;
  return true;
}

}  // namespace troupe::actors
