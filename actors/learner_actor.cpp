#include <troupe/actors/learner_actor.hpp>

#include <algorithm>
#include <cmath>
#include <cstring>

#include <troupe/core/log.hpp>
#include <troupe/learner/program_state.hpp>
#include <troupe/messages/batch.hpp>
#include <troupe/messages/reports.hpp>

namespace troupe::actors {

RoleSpec LearnerActor::spec(std::string name, const LearnerActorOptions& options) {
  RoleSpec spec;
  spec.name = std::move(name);
  spec.inlets = {{"batches", "Batch"}};
  spec.outlets = {{"updates", "Parameters", ChannelKind::kLatest}, {"priorities", "Priorities"}};
  spec.execution = Execution::kThread;
  spec.make = [options](const RoleIdentity& identity) { return make(options, identity); };
  return spec;
}

Result<std::unique_ptr<Role>> LearnerActor::make(const LearnerActorOptions& options, const RoleIdentity& identity) {
  learner::d4pg::LearnerOptions learner_options = options.learner;
  learner_options.compile.seed = identity.seed;
  TROUPE_ASSIGN(auto learner, learner::d4pg::Learner::make(learner_options));
  const learner::Program& program = learner->program();
  log::info("{}: {} threads, {} products by {}, {} kernels", identity.name(), learner_options.compile.shards,
            learner_options.compile.compute == DType::kBF16 ? "bf16" : "fp32", program.gemm_backend_name(),
            program.instruction_set());
  return std::unique_ptr<Role>(new LearnerActor(options, std::move(learner)));
}

LearnerActor::LearnerActor(const LearnerActorOptions& options, std::unique_ptr<learner::d4pg::Learner> learner)
    : options_(options),
      learner_(std::move(learner)),
      pieces_(learner::partition(learner_->policy().layout(), options.parameter_shards, options.partition)) {}

Result<Progress> LearnerActor::step(RoleContext& context) {
  Outlet& updates = context.out("updates");
  const bool finished = options_.max_steps > 0 && version() >= options_.max_steps;
  TROUPE_ASSIGN(const bool published, publish_if_due(updates, context.pool(), finished ? 1 : options_.publish_period));
  if (finished) return published ? Progress::kDone : Progress::kIdle;
  Inlet& batches = context.in("batches");
  const bool prioritised = options_.learner.d4pg.importance_weights;
  if (batches.empty() || (prioritised && !context.out("priorities").ready())) return Progress::kIdle;

  TROUPE_ASSIGN(const auto batch, messages::read_batch(batches.take()));
  TROUPE_ASSIGN(metrics_, learner_->step(prioritised ? with_weights(batch) : batch.columns()));
  if (prioritised) TROUPE_TRY(send_priorities(context, batch));
  TROUPE_TRY(publish_if_due(updates, context.pool(), options_.publish_period));
  return Progress::kMore;
}

BatchView LearnerActor::with_weights(const messages::SampledBatchView& batch) {
  const auto& rows = batch.rows();
  const double items = static_cast<double>(batch.info().table_items);
  weights_.resize(rows.probabilities.size());
  float largest = 0;
  for (std::size_t i = 0; i < weights_.size(); ++i) {
    weights_[i] = static_cast<float>(std::pow(1 / (items * rows.probabilities[i]), options_.importance_exponent));
    largest = std::max(largest, weights_[i]);
  }
  for (float& weight : weights_) weight /= largest;

  BatchView view = batch.columns();
  if (weighted_signature_.empty()) {
    weighted_signature_ = *view.signature;
    weighted_signature_.push_back({"weight", DType::kF32, {}});
  }
  view.signature = &weighted_signature_;
  view.columns.push_back(std::as_bytes(std::span(weights_)));
  return view;
}

Status LearnerActor::send_priorities(RoleContext& context, const messages::SampledBatchView& batch) {
  const auto errors = learner_->td_error();
  messages::PriorityUpdate update;
  update.keys.assign(batch.rows().keys.begin(), batch.rows().keys.end());
  update.priorities.assign(errors.begin(), errors.end());
  TROUPE_ASSIGN(Frame frame, messages::make_priorities(context.pool(), update));
  context.out("priorities").send(std::move(frame));
  return {};
}

Result<bool> LearnerActor::publish_if_due(Outlet& updates, messages::FramePool& pool, std::int64_t period) {
  if (published_ >= 0 && version() - published_ < period) return true;
  for (std::size_t store = 0; store < pieces_.size(); ++store) {
    if (!updates.ready(store)) return false;
  }
  TROUPE_TRY(publish(updates, pool));
  return true;
}

Status LearnerActor::publish(Outlet& updates, messages::FramePool& pool) {
  const learner::ParamBuffer& policy = learner_->policy();
  const messages::ParametersInfo info{version(), policy.fingerprint(), 0, DType::kF32, publications_++};
  for (std::size_t store = 0; store < pieces_.size(); ++store) {
    TROUPE_ASSIGN(auto builder, messages::ParametersBuilder::make(pool, DType::kF32, pieces_[store]));
    std::byte* to = builder.data().data();
    for (const messages::ParametersRange& range : pieces_[store].ranges) {
      const std::size_t bytes = static_cast<std::size_t>(range.count) * sizeof(float);
      std::memcpy(to, policy.values().data() + range.offset, bytes);
      to += bytes;
    }
    updates.send_to(store, std::move(builder).finish(info));
  }
  published_ = info.version;
  return {};
}

void LearnerActor::report(Report& report) const {
  report.counters.push_back({"steps", static_cast<double>(version())});
  report.gauges.push_back({"critic_loss", metrics_.critic_loss});
  report.gauges.push_back({"policy_loss", metrics_.policy_loss});
  report.gauges.push_back({"q_mean", metrics_.q_mean});
}

Result<RoleState> LearnerActor::save() const {
  RoleState state;
  for (const messages::TensorBytes& tensor : learner::save_state(learner_->program())) {
    state.tensors.push_back({tensor.name, tensor.dtype, tensor.shape, {tensor.bytes.begin(), tensor.bytes.end()}});
  }
  state.counters = {{"steps", version()}};
  return state;
}

Status LearnerActor::restore(const RoleState& state) {
  TROUPE_ASSIGN(const std::int64_t steps, state.counter("steps"));
  std::vector<messages::TensorBytes> tensors;
  for (const StateTensor& tensor : state.tensors) {
    tensors.push_back({tensor.name, tensor.dtype, tensor.shape, tensor.bytes});
  }
  return learner::restore_state(learner_->program(), tensors, steps);
}

}  // namespace troupe::actors
