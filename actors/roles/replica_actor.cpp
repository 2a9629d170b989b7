#include <troupe/actors/roles/replica_actor.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include <troupe/actors/roles/bad_gradient.hpp>
#include <troupe/actors/roles/make_replicator.hpp>
#include <troupe/actors/roles/replica_results.hpp>
#include <troupe/core/log.hpp>
#include <troupe/learner/engine/program_state.hpp>

namespace troupe::actors {

RoleSpec ReplicaActor::spec(const ReplicaActorOptions& options) {
  RoleSpec spec;
  spec.name = options.group.name;
  spec.count = instances(options.group);
  if (options.model.make_evaluation) spec.outlets = {{kPublishPort, "Parameters", ChannelKind::kLatest}};
  if (options.exchange) {
    spec.inlets = options.exchange->inlets;
    spec.outlets.insert(spec.outlets.end(), options.exchange->outlets.begin(), options.exchange->outlets.end());
  }
  spec.execution = Execution::kThread;
  spec.restart.from = RestartFrom::kLastCut;
  spec.restart.ends_run = kBadGradient;
  spec.group = options.group.replicator == "multi_worker";
  spec.ordered_sums = options.group.deterministic;
  spec.make = [options](const RoleIdentity& identity) { return make(options, identity); };
  return spec;
}

Result<std::unique_ptr<Role>> ReplicaActor::make(const ReplicaActorOptions& options, const RoleIdentity& identity) {
  TROUPE_ASSIGN(auto publisher,
                ReplicaPublisher::make(options.model, options.group.evaluate_every_steps, options.group.steps));
  std::unique_ptr<ReplicaActor> role(new ReplicaActor(options, identity, std::move(publisher)));
  if (options.exchange) {
    TROUPE_ASSIGN(role->exchange_, options.exchange->make());
  } else {
    TROUPE_ASSIGN(role->replica_, options.model.make());
  }
  return std::unique_ptr<Role>(std::move(role));
}

ReplicaActor::ReplicaActor(ReplicaActorOptions options, const RoleIdentity& identity, ReplicaPublisher publisher)
    : options_(std::move(options)),
      name_(identity.name()),
      instance_(identity.index),
      run_directory_(identity.run_directory),
      member_(identity.group),
      publisher_(std::move(publisher)) {}

Status ReplicaActor::start() {
  std::int64_t first_step = 0, first_batch = 0;
  if (!restored_.counters.empty()) {
    TROUPE_ASSIGN(first_step, restored_.counter("steps"));
    first_batch = first_step;
    if (options_.group.accumulate > 1) {
      TROUPE_ASSIGN(first_batch, restored_.counter("batches"));
    }
  }
  collectives::Communicator* const members = member_.in_group() ? &member_.communicator() : nullptr;
  TROUPE_ASSIGN(replicator_, make_replicator(replica(), options_.group, instance_, name_, first_batch, members));
  if (members != nullptr) members_ = static_cast<learner::MultiWorker*>(replicator_.get());
  const learner::Program& program = replicator_->program();
  log::info("{}: {} on {}, products by {}, {} kernels", name_, options_.group.replicator,
            learner::to_string(program.device()), program.gemm_backend_name(), program.instruction_set());
  if (restored_.counters.empty()) return {};
  std::vector<messages::TensorBytes> tensors;
  for (const StateTensor& tensor : restored_.tensors) {
    tensors.push_back({tensor.name, tensor.dtype, tensor.shape, tensor.bytes});
  }
  TROUPE_TRY(learner::restore_state(replicator_->program(), tensors, first_step));
  restored_ = {};
  return {};
}

Result<Progress> ReplicaActor::step(RoleContext& context) {
  if (replicator_ == nullptr) TROUPE_TRY(start());
  TROUPE_ASSIGN(const bool may_step, member_.enter([this](const collectives::GroupView& view, Duration timeout) {
    return members_->reform(view, timeout);
  }));
  if (!may_step) return Progress::kIdle;
  if (steps() < options_.group.steps) {
    if (exchange_ != nullptr) {
      TROUPE_ASSIGN(const bool ready, exchange_->before_step(context, replicator_->program()));
      if (!ready) return Progress::kIdle;
    }
    const Status stepped = replicator_->step();
    if (!stepped.ok() && stepped.error().code == Code::kUnavailable) {
      waiting_ = stepped.error().message;
      context.wake_after(kInputPatience);
      return Progress::kIdle;
    }
    if (!stepped.ok()) {
      if (member_.epoch_ended(stepped.error())) return Progress::kIdle;
      return bad_gradient(stepped.error(), replicator_->program(), replicator_->batch(), run_directory_, name_);
    }
    waiting_.clear();
    if (exchange_ != nullptr) {
      TROUPE_TRY(exchange_->after_step(context, replicator_->program(), replicator_->batch(), member_.is_first()));
    }
  }
  if (member_.is_first()) TROUPE_TRY(publisher_.publish_if_due(context, replicator_->program(), steps()));
  return steps() < options_.group.steps ? Progress::kMore : member_.finish();
}

void ReplicaActor::report(Report& report) const {
  if (replicator_ == nullptr) return;
  report.counters.push_back({"steps", static_cast<double>(steps())});
  report.gauges.push_back({"step", static_cast<double>(steps())});
  learner::Program& program = replicator_->program();
  for (Scalar& metric : scalars(program.metric_names(), program.metrics())) {
    report.gauges.push_back(std::move(metric));
  }
  for (Scalar& gauge : replicator_->input().gauges()) report.gauges.push_back(std::move(gauge));
  if (exchange_ != nullptr) exchange_->report(report);
}

Result<RoleState> ReplicaActor::save() const {
  if (replicator_ == nullptr) return restored_;
  RoleState state;
  learner::Program& program = replicator_->program();
  TROUPE_TRY(program.fetch());
  for (const messages::TensorBytes& tensor : learner::save_state(program)) {
    state.tensors.push_back({tensor.name, tensor.dtype, tensor.shape, {tensor.bytes.begin(), tensor.bytes.end()}});
  }
  state.counters = metric_counters(scalars(program.metric_names(), program.metrics()));
  state.counters.push_back({"steps", steps()});
  if (options_.group.accumulate > 1) state.counters.push_back({"batches", program.batches()});
  return state;
}

Status ReplicaActor::restore(const RoleState& state) {
  restored_ = state;
  return {};
}

}  // namespace troupe::actors
