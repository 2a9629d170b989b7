#include <troupe/actors/roles/replay_actor.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <chrono>

#include <troupe/actors/roles/sampled_rows.hpp>
#include <troupe/messages/batch.hpp>

namespace troupe::actors {
namespace {

/// An agent's replay is one table.
Status check_table(const std::string& name) {
  if (name.empty()) return {};
  return Error{Code::kNotFound, fmt::format("no table \"{}\": this replay is one table, without a name", name)};
}

}  // namespace

RoleSpec ReplayActor::spec(std::string name, std::int64_t count, const ReplayActorOptions& options) {
  RoleSpec spec;
  spec.name = std::move(name);
  spec.count = count;
  spec.inlets = {{"trajectories", "Trajectory"}, {.name = "priorities", .type = "Priorities", .always_drained = true}};
  if (options.clients) {
    spec.inlets.push_back(
        {.name = "samples", .type = "SampleRequest", .kind = ChannelKind::kRequest, .answer = "Batch"});
  }
  spec.outlets = {{"batches", "Batch"}};
  spec.make = [options](const RoleIdentity& identity) { return make(options, identity); };
  return spec;
}

Result<std::unique_ptr<Role>> ReplayActor::make(const ReplayActorOptions& options, const RoleIdentity& identity) {
  TROUPE_ASSIGN(auto intake, ReplayIntake::make(options, identity));
  return std::unique_ptr<Role>(new ReplayActor(options, std::move(intake)));
}

ReplayActor::ReplayActor(const ReplayActorOptions& options, std::unique_ptr<ReplayIntake> intake)
    : batch_(options.batch), clients_(options.clients), intake_(std::move(intake)) {}

Result<Progress> ReplayActor::step(RoleContext& context) {
  TROUPE_TRY(take_priorities(context));
  TROUPE_ASSIGN(const bool inserted, intake_->take(context));
  if (clients_) take_requests(context);
  TROUPE_ASSIGN(bool drawn, clients_turn_ ? serve(context) : Result<bool>(false));
  // A client whose turn it is waits for the limiter, and learners with it: they would take what it admits.
  if (!clients_turn_ || asked_.empty()) {
    TROUPE_ASSIGN(const bool sampled, sample(context));
    clients_turn_ |= sampled;
    drawn |= sampled;
  }
  if (!drawn) {
    TROUPE_ASSIGN(drawn, serve(context));  // no learner has room
  }
  if (inserted || drawn) return Progress::kMore;
  if (!asked_.empty()) {  // what held learners back must not do so when its time is over and nothing else happens
    const auto first = std::ranges::min_element(asked_, {}, &AskedBatch::until);
    context.wake_after(first->until - context.clock().now());
  }
  return Progress::kIdle;
}

Status ReplayActor::take_priorities(RoleContext& context) {
  for (Inlet& inlet = context.in("priorities"); !inlet.empty();) {
    const auto update = messages::read_priorities(inlet.take());
    const auto unknown = update.ok() ? apply(*update) : Result<std::int64_t>(update.error());
    if (unknown.ok()) {
      unknown_priorities_ += *unknown;
    } else if (unknown.error().code == Code::kLost) {
      return unknown.error();  // the table's device
    } else {
      context.refuse("priorities", unknown.error());
    }
  }
  return {};
}

Result<std::int64_t> ReplayActor::apply(const messages::PriorityUpdate& update) {
  TROUPE_TRY(check_table(update.table));
  replay::Table& table = intake_->table();
  if ((update.reset || !update.deletes.empty()) && intake_->has_journal()) {
    return Error{Code::kInvalidArgument,
                 "items cannot be deleted: replay's journal has no record of that (replay.durability = \"off\")"};
  }
  TROUPE_ASSIGN(std::int64_t unknown, table.update_priorities(update.keys, update.priorities));
  if (!update.deletes.empty()) {
    TROUPE_ASSIGN(const std::int64_t gone, table.erase(update.deletes));
    unknown += gone;
  }
  if (update.reset) TROUPE_TRY(table.reset());
  return unknown;
}

Result<bool> ReplayActor::sample(RoleContext& context) {
  Outlet& outlet = context.out("batches");
  if (!outlet.ready() || intake_->table().sampleable(batch_) < batch_) return false;
  TROUPE_ASSIGN(Frame batch, draw(context, batch_));
  outlet.send(std::move(batch));
  return true;
}

Result<Frame> ReplayActor::draw(RoleContext& context, std::int64_t count) {
  replay::Table& table = intake_->table();
  items_.resize(static_cast<std::size_t>(count));
  TROUPE_ASSIGN(auto builder, messages::SampledBatchBuilder::make(context.pool(), intake_->signature(), count));
  TROUPE_ASSIGN(const messages::SampledBatchInfo info, about(table, batches_));
  if (count > 0) TROUPE_TRY(table.sample(builder.columns(), items_));
  describe(items_, builder.rows());
  ++batches_;
  return std::move(builder).finish(info);
}

void ReplayActor::take_requests(RoleContext& context) {
  using Place = std::pair<const replay::Table*, AskedBatches*>;
  take_sample_requests(context, [this](const std::string& name) -> Result<Place> {
    TROUPE_TRY(check_table(name));
    return Place{&intake_->table(), &asked_};
  });
  drop_late(asked_, context.clock().now());
}

Result<bool> ReplayActor::serve(RoleContext& context) {
  if (asked_.empty()) return false;
  const std::int64_t rows = asked_.front().rows;
  if (intake_->table().sampleable(rows) < rows) return false;
  TROUPE_ASSIGN(Frame batch, draw(context, rows));
  asked_.front().answer(std::move(batch));
  asked_.pop_front();
  if (rows > 0) clients_turn_ = false;
  return true;
}

void ReplayActor::report(Report& report) const {
  intake_->report(report);
  report.counters.push_back({"unknown_priorities", static_cast<double>(unknown_priorities_)});
}

Result<RoleState> ReplayActor::save() const {
  RoleState state;
  state.counters = {{"batches", static_cast<std::int64_t>(batches_)}, {"unknown_priorities", unknown_priorities_}};
  intake_->save(state);
  return state;
}

Status ReplayActor::restore(const RoleState& state) {
  TROUPE_ASSIGN(const std::int64_t batches, state.counter("batches"));
  TROUPE_ASSIGN(const std::int64_t unknown_priorities, state.counter("unknown_priorities"));
  TROUPE_TRY(intake_->restore(state));
  batches_ = static_cast<std::uint64_t>(batches);
  unknown_priorities_ = unknown_priorities;
  return {};
}

}  // namespace troupe::actors
