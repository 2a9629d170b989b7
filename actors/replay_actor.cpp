#include <troupe/actors/replay_actor.hpp>

#include <fmt/format.h>

#include <troupe/core/rng.hpp>
#include <troupe/messages/batch.hpp>
#include <troupe/messages/reports.hpp>
#include <troupe/replay/rate_limiter.hpp>
#include <troupe/replay/shards.hpp>

namespace troupe::actors {
namespace {

/// Rows [first, first + count) of a batch.
BatchView slice(const BatchView& rows, std::int64_t first, std::int64_t count) {
  BatchView part{rows.signature, count, {}};
  for (std::size_t c = 0; c < rows.columns.size(); ++c) {
    const std::size_t bytes = (*rows.signature)[c].bytes();
    part.columns.push_back(
        rows.columns[c].subspan(static_cast<std::size_t>(first) * bytes, static_cast<std::size_t>(count) * bytes));
  }
  return part;
}

}  // namespace

RoleSpec ReplayActor::spec(std::string name, std::int64_t count, const ReplayActorOptions& options) {
  RoleSpec spec;
  spec.name = std::move(name);
  spec.count = count;
  spec.inlets = {{"trajectories", "Trajectory"}, {.name = "priorities", .type = "Priorities", .always_drained = true}};
  spec.outlets = {{"batches", "Batch"}};
  spec.make = [options](const RoleIdentity& identity) { return make(options, identity); };
  return spec;
}

Result<std::unique_ptr<Role>> ReplayActor::make(const ReplayActorOptions& options, const RoleIdentity& identity) {
  replay::TableOptions table_options = replay::shard_options(options.table, identity.index, identity.count);
  // A trajectory is inserted row by row if need be, a batch is drawn whole.
  TROUPE_TRY(replay::check_batch_sizes(table_options.limiter, 1, options.batch));
  table_options.seed = identity.seed;
  TROUPE_ASSIGN(auto table, replay::Table::make(std::move(table_options)));
  return std::unique_ptr<Role>(new ReplayActor(options, std::move(table)));
}

ReplayActor::ReplayActor(const ReplayActorOptions& options, std::unique_ptr<replay::Table> table)
    : batch_(options.batch),
      table_(std::move(table)),
      signature_(std::make_shared<const Signature>(table_->options().signature)),
      items_(static_cast<std::size_t>(options.batch)) {}

Result<Progress> ReplayActor::step(RoleContext& context) {
  TROUPE_TRY(take_priorities(context.in("priorities")));
  TROUPE_ASSIGN(const bool inserted, insert(context.in("trajectories")));
  TROUPE_ASSIGN(const bool sampled, sample(context));
  return inserted || sampled ? Progress::kMore : Progress::kIdle;
}

Status ReplayActor::take_priorities(Inlet& inlet) {
  while (!inlet.empty()) {
    TROUPE_ASSIGN(const auto update, messages::read_priorities(inlet.take()));
    TROUPE_ASSIGN(const std::int64_t unknown, table_->update_priorities(update.keys, update.priorities));
    unknown_priorities_ += unknown;
  }
  return {};
}

Result<bool> ReplayActor::insert(Inlet& inlet) {
  bool inserted = false;
  for (;;) {
    if (!current_) {
      if (inlet.empty()) return inserted;
      TROUPE_ASSIGN(auto view, messages::read_trajectory(inlet.take()));
      current_ = std::move(view);
      current_row_ = 0;
    }
    const std::int64_t left = current_->rows().rows - current_row_;
    const std::int64_t admitted = left > 0 ? table_->insertable(left) : 0;
    if (admitted > 0) {
      auto priorities = current_->priorities();
      if (!priorities.empty()) {
        priorities = priorities.subspan(static_cast<std::size_t>(current_row_), static_cast<std::size_t>(admitted));
      }
      TROUPE_TRY(table_->insert(slice(current_->rows(), current_row_, admitted), priorities));
      current_row_ += admitted;
      inserted = true;
    }
    if (current_row_ < current_->rows().rows) return inserted;
    current_.reset();
  }
}

Result<bool> ReplayActor::sample(RoleContext& context) {
  Outlet& outlet = context.out("batches");
  if (!outlet.ready() || table_->sampleable(batch_) < batch_) return false;
  TROUPE_ASSIGN(auto builder, messages::SampledBatchBuilder::make(context.pool(), signature_, batch_));
  const replay::TableInfo info = table_->info();
  TROUPE_TRY(table_->sample(builder.columns(), items_));
  const auto& rows = builder.rows();
  for (std::size_t i = 0; i < items_.size(); ++i) {
    rows.keys[i] = items_[i].key;
    rows.probabilities[i] = items_[i].probability;
    rows.priorities[i] = items_[i].priority;
    rows.times_sampled[i] = items_[i].times_sampled;
  }
  outlet.send(std::move(builder).finish({batches_++, info.items, info.mass}));
  return true;
}

std::string ReplayActor::waiting_for() const {
  const std::string insert = current_ ? table_->insert_blocker(1) : "";
  const std::string sample = table_->sample_blocker(batch_);
  return insert + (insert.empty() || sample.empty() ? "" : "; ") + sample;
}

void ReplayActor::report(Report& report) const {
  const replay::TableInfo info = table_->info();
  report.counters.push_back({"inserts", static_cast<double>(info.inserts)});
  report.counters.push_back({"samples", static_cast<double>(info.samples)});
  report.counters.push_back({"unknown_priorities", static_cast<double>(unknown_priorities_)});
  report.sums.push_back({"items", static_cast<double>(info.items)});
  report.sums.push_back({"bytes", static_cast<double>(info.bytes)});
}

Result<RoleState> ReplayActor::save() const {
  RoleState state;
  state.counters = {{"batches", static_cast<std::int64_t>(batches_)},
                    {"unknown_priorities", unknown_priorities_},
                    {"rows_inserted", current_row_}};
  auto& trajectory = state.chunks.emplace_back();
  if (current_) {
    const auto bytes = current_->frame().bytes();
    trajectory.assign(bytes.begin(), bytes.end());
  }
  for (auto& chunk : table_->save()) state.chunks.push_back(std::move(chunk));
  return state;
}

Status ReplayActor::restore(const RoleState& state) {
  if (state.chunks.empty()) return Error{Code::kCorrupt, "state has no chunks, expected 1 or more"};
  TROUPE_ASSIGN(const std::int64_t batches, state.counter("batches"));
  TROUPE_ASSIGN(const std::int64_t unknown_priorities, state.counter("unknown_priorities"));
  TROUPE_ASSIGN(const std::int64_t rows_inserted, state.counter("rows_inserted"));
  std::optional<messages::TrajectoryView> current;
  if (!state.chunks[0].empty()) {
    messages::FramePool pool;
    TROUPE_ASSIGN(const Frame frame, pool.copy(state.chunks[0]));
    TROUPE_ASSIGN(auto view, messages::read_trajectory(frame));
    TROUPE_TRY(check_same(*view.rows().signature, *signature_, "restore"));
    if (rows_inserted < 0 || rows_inserted > view.rows().rows) {
      return Error{Code::kCorrupt,
                   fmt::format("{} rows of a trajectory of {} were inserted", rows_inserted, view.rows().rows)};
    }
    current = std::move(view);
  }
  TROUPE_TRY(table_->restore(std::span(state.chunks).subspan(1)));
  batches_ = static_cast<std::uint64_t>(batches);
  unknown_priorities_ = unknown_priorities;
  current_row_ = rows_inserted;
  current_ = std::move(current);
  return {};
}

}  // namespace troupe::actors
