#include <troupe/actors/roles/trainer.hpp>

#include <fmt/format.h>

#include <limits>
#include <utility>

#include <troupe/actors/roles/bad_gradient.hpp>
#include <troupe/actors/roles/replica_results.hpp>
#include <troupe/core/log.hpp>
#include <troupe/learner/engine/program_state.hpp>

namespace troupe::actors {

RoleSpec Trainer::spec(std::string name, const TrainerOptions& options) {
  RoleSpec spec;
  spec.name = std::move(name);
  spec.count = options.count;
  spec.inlets = options.feed.inlets;
  spec.inlets.insert(spec.inlets.end(), options.publication.inlets.begin(), options.publication.inlets.end());
  spec.outlets = options.publication.outlets;
  spec.outlets.insert(spec.outlets.end(), options.feed.outlets.begin(), options.feed.outlets.end());
  spec.execution = Execution::kThread;
  spec.restart.ends_run = kBadGradient;
  spec.group = options.how.kind == learner::ReplicatorKind::kMultiWorker;
  spec.ordered_sums = options.how.deterministic;
  spec.make = [options](const RoleIdentity& identity) { return make(options, identity); };
  return spec;
}

Result<std::unique_ptr<Role>> Trainer::make(const TrainerOptions& options, const RoleIdentity& identity) {
  std::unique_ptr<Trainer> role(new Trainer(options, identity));
  TROUPE_ASSIGN(role->feed_, options.feed.make(identity));
  if (options.publication.make) {
    TROUPE_ASSIGN(role->publication_, options.publication.make(identity));
  }
  return std::unique_ptr<Role>(std::move(role));
}

Trainer::Trainer(const TrainerOptions& options, const RoleIdentity& identity)
    : options_(options),
      name_(identity.name()),
      instance_(identity.index),
      run_directory_(identity.run_directory),
      member_(identity.group) {}

Trainer::~Trainer() {
  if (replicator_ != nullptr) feed_->disconnect(*replicator_);
}

Status Trainer::start() {
  learner::ReplicatorOptions how = options_.how;
  how.name = name_;
  std::int64_t step = 0;
  if (restored_) {
    TROUPE_ASSIGN(step, restored_->counter("steps"));
    how.first_step = step;
    if (how.compile.accumulate > 1) {
      TROUPE_ASSIGN(how.first_step, restored_->counter("batches"));
    }
  }
  if (how.devices.empty()) how.devices = {how.compile.device};
  how.compile.device = learner::device_of(how.devices, instance_);
  if (member_.in_group()) how.communicator = &member_.communicator();
  TROUPE_ASSIGN(replicator_, learner::make_replicator(feed_->replica(), how));
  if (member_.in_group()) members_ = static_cast<learner::MultiWorker*>(replicator_.get());
  log::info("{}: {} on {}, {} products by {}, {} kernels", name_, learner::to_string(how.kind),
            learner::to_string(program().device()), how.compile.compute == DType::kBF16 ? "bf16" : "fp32",
            program().gemm_backend_name(), program().instruction_set());
  TROUPE_TRY(feed_->connect(*replicator_));
  if (!restored_) return options_.begin_with ? options_.begin_with(program()) : Status();
  std::vector<messages::TensorBytes> tensors;
  for (const StateTensor& tensor : restored_->tensors) {
    tensors.push_back({tensor.name, tensor.dtype, tensor.shape, tensor.bytes});
  }
  TROUPE_TRY(learner::restore_state(program(), tensors, step));
  TROUPE_TRY(feed_->restore(*restored_));
  if (publication_ != nullptr) publication_->restore(step);
  log::info("{}: goes on from step {}", name_, step);
  restored_.reset();
  return {};
}

Result<Progress> Trainer::step(RoleContext& context) {
  if (replicator_ == nullptr) TROUPE_TRY(start());
  TROUPE_ASSIGN(const bool may_step, member_.enter([&](const collectives::GroupView& view, Duration timeout) -> Status {
    if (publication_ != nullptr) TROUPE_TRY(publication_->settle(context, program()));
    TROUPE_TRY(members_->reform(view, timeout));
    return publication_ != nullptr ? publication_->join(member_, program()) : Status();
  }));
  if (!may_step) return Progress::kIdle;
  if (publication_ != nullptr) TROUPE_TRY(publication_->advance(context, program()));
  const std::int64_t left =
      options_.max_steps > 0 ? options_.max_steps - steps() - under_way_ : std::numeric_limits<std::int64_t>::max();
  if (const Status taken = feed_->take(context, *replicator_, left, member_.is_first()); !taken.ok()) {
    return failed(taken.error());
  }
  const bool was_under_way = under_way_ > 0;
  TROUPE_ASSIGN(bool whole, collect());
  if (!whole) return Progress::kIdle;
  const bool finished = options_.max_steps > 0 && steps() >= options_.max_steps;
  TROUPE_ASSIGN(const bool published, publish(context, finished));
  // A launch that has ended may have left more steps to take than `left` allowed for.
  const auto idle = [&] {
    const bool more = was_under_way || (publication_ != nullptr && publication_->pending());
    return more ? Progress::kMore : Progress::kIdle;
  };
  if (finished) {
    if (!published) return idle();
    return member_.finish();
  }
  const auto begun = feed_->begin(*replicator_, left);
  if (!begun.ok()) return failed(begun.error());
  if (*begun == 0) return idle();
  under_way_ = *begun;
  if (!replicator_->finished()) return Progress::kMore;
  TROUPE_ASSIGN(whole, collect());
  if (!whole) return Progress::kIdle;
  TROUPE_TRY(feed_->take(context, *replicator_, 0, member_.is_first()));
  const bool last = options_.max_steps > 0 && steps() >= options_.max_steps;
  TROUPE_ASSIGN(const bool all, publish(context, last));
  if (last && all) return member_.finish();
  return Progress::kMore;
}

Status Trainer::settle() const {
  if (under_way_ == 0) return {};
  const std::int64_t steps = std::exchange(under_way_, 0);
  TROUPE_TRY(replicator_->finish());
  for (int step = static_cast<int>(steps) - 1; step >= 0; --step) {
    if (program().skipped(step)) continue;
    metrics_ = scalars(program().metric_names(), program().metrics(step));
    break;
  }
  return feed_->done(*replicator_);
}

Result<bool> Trainer::collect() {
  const Status settled = settle();
  if (settled.ok()) return true;
  TROUPE_TRY(failed(settled.error()));
  return false;
}

Result<Progress> Trainer::failed(Error error) {
  if (member_.epoch_ended(error)) return Progress::kIdle;
  return bad_gradient(std::move(error), program(), feed_->last_batch(*replicator_), run_directory_, name_);
}

Result<bool> Trainer::publish(RoleContext& context, bool last) {
  if (publication_ == nullptr) return true;
  return publication_->publish_if_due(context, program(), member_, last);
}

void Trainer::report(Report& report) const {
  if (replicator_ == nullptr) return;
  report.counters.push_back({"steps", static_cast<double>(steps())});
  report.gauges.push_back({"step", static_cast<double>(steps())});
  if (publication_ != nullptr) publication_->report(program(), member_, report);
  report.gauges.insert(report.gauges.end(), metrics_.begin(), metrics_.end());
  feed_->report(*replicator_, report);
}

Result<RoleState> Trainer::save() const {
  if (replicator_ == nullptr) return restored_.value_or(RoleState{});
  RoleState state;
  TROUPE_TRY(settle());
  TROUPE_TRY(program().fetch());
  for (const messages::TensorBytes& tensor : learner::save_state(program())) {
    state.tensors.push_back({tensor.name, tensor.dtype, tensor.shape, {tensor.bytes.begin(), tensor.bytes.end()}});
  }
  state.counters = metric_counters(metrics_);
  state.counters.push_back({"steps", steps()});
  if (options_.how.compile.accumulate > 1) state.counters.push_back({"batches", program().batches()});
  feed_->save(state);
  return state;
}

Status Trainer::restore(const RoleState& state) {
  // Nothing is what it saves before its first step.
  if (!state.counters.empty()) restored_ = state;
  return {};
}

void Trainer::committed() {
  if (replicator_ != nullptr) feed_->committed();
}

}  // namespace troupe::actors
