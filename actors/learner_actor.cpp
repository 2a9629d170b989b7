#include <troupe/actors/learner_actor.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <fstream>

#include <troupe/actors/bad_gradient.hpp>
#include <troupe/core/atomic_file.hpp>
#include <troupe/core/log.hpp>
#include <troupe/learner/d4pg/networks.hpp>
#include <troupe/learner/program_state.hpp>
#include <troupe/messages/batch.hpp>
#include <troupe/messages/reports.hpp>

namespace troupe::actors {
namespace {

std::string mix_counter(std::size_t shard, std::string_view what) {
  return fmt::format("replay_shard_{}_{}", shard, what);
}

/// Versions that one write to disk covers: some seconds' worth.
constexpr std::int64_t kVersionsReserved = 10'000;

}  // namespace

RoleSpec LearnerActor::spec(std::string name, const LearnerActorOptions& options) {
  RoleSpec spec;
  spec.name = std::move(name);
  spec.inlets = {{"batches", "Batch"}};
  spec.outlets = {{"updates", "Parameters", ChannelKind::kLatest}, {"priorities", "Priorities"}};
  spec.execution = Execution::kThread;
  spec.count = options.count;
  spec.group = options.count > 1;
  spec.restart.ends_run = kBadGradient;
  spec.make = [options](const RoleIdentity& identity) { return make(options, identity); };
  return spec;
}

Result<std::unique_ptr<Role>> LearnerActor::make(const LearnerActorOptions& options, const RoleIdentity& identity) {
  learner::d4pg::LearnerOptions learner_options = options.learner;
  learner_options.compile.device = learner::device_of(options.devices, identity.index);
  if (identity.group != nullptr) learner_options.communicator = &identity.group->communicator();
  learner_options.name = identity.name();
  TROUPE_ASSIGN(auto learner, learner::d4pg::Learner::make(learner_options));
  const learner::Program& program = learner->program();
  log::info("{}: on {}, {} threads, {} products by {}, {} kernels", identity.name(),
            learner::to_string(program.device()), learner_options.compile.threads,
            learner_options.compile.compute == DType::kBF16 ? "bf16" : "fp32", program.gemm_backend_name(),
            program.instruction_set());
  auto role = std::unique_ptr<LearnerActor>(new LearnerActor(options, identity.group, std::move(learner)));
  role->name_ = identity.name();
  role->run_directory_ = identity.run_directory;
  if (!identity.directory.empty()) {
    std::error_code failed;
    std::filesystem::create_directories(identity.directory, failed);
    role->reservation_ = identity.directory / "versions";
    if (std::ifstream file(role->reservation_); file && !(file >> role->reserved_)) {
      return Error{Code::kCorrupt, fmt::format("{}: got no number of a version", role->reservation_.string())};
    }
    role->version_offset_ = role->reserved_;
    role->publications_ = static_cast<std::uint64_t>(role->reserved_);
  }
  return std::unique_ptr<Role>(std::move(role));
}

LearnerActor::LearnerActor(const LearnerActorOptions& options, std::shared_ptr<GroupSeat> seat,
                           std::unique_ptr<learner::d4pg::Learner> learner)
    : options_(options),
      member_(std::move(seat)),
      learner_(std::move(learner)),
      mix_(options.replay_shards),
      pieces_(learner::partition(learner_->policy().layout(), options.parameter_shards, options.partition)) {}

Result<Progress> LearnerActor::step(RoleContext& context) {
  TROUPE_ASSIGN(const bool may_step,
                member_.enter([this](const collectives::GroupView& view, Duration timeout) -> Status {
                  TROUPE_TRY(learner_->reform(view, timeout));
                  return agree_on_versions();
                }));
  if (!may_step) return Progress::kIdle;
  Outlet& updates = context.out("updates");
  const bool finished = options_.max_steps > 0 && steps() >= options_.max_steps;
  TROUPE_ASSIGN(const bool published, publish_if_due(updates, context.pool(), finished ? 1 : options_.publish_period));
  if (finished) {
    if (!published) return Progress::kIdle;
    return member_.finish();
  }
  if (!batch_) {
    TROUPE_ASSIGN(const auto shard, next_shard(context));
    if (!shard) return Progress::kIdle;
    batch_ = context.in("batches").take(*shard);
    batch_shard_ = *shard;
  }
  TROUPE_ASSIGN(const auto batch, messages::read_batch(batch_));
  const bool prioritised = options_.learner.d4pg.importance_weights;
  const BatchView columns = prioritised ? with_weights(batch, mix_.share(batch_shard_)) : batch.columns();
  const auto taken = learner_->step(columns);
  if (!taken.ok()) {
    if (member_.epoch_ended(taken.error())) return Progress::kIdle;
    return bad_gradient(taken.error(), learner_->program(), columns, run_directory_, name_);
  }
  metrics_ = *taken;
  if (prioritised) {
    TROUPE_ASSIGN(Frame priorities, new_priorities(context.pool(), batch));
    context.out("priorities").send_to(batch_shard_, std::move(priorities));
  }
  batch_ = {};
  TROUPE_TRY(publish_if_due(updates, context.pool(), options_.publish_period));
  return Progress::kMore;
}

Status LearnerActor::agree_on_versions() {
  // By how much versions run ahead of steps: in two halves, which are exact as floats. Who has just come knows only
  // what it had reserved itself, which counts when nobody else knows more.
  collectives::Communicator& group = member_.communicator();
  std::vector<float> all(3 * static_cast<std::size_t>(group.view().size));
  const float own[] = {agreed_ ? 1.0F : 0.0F, static_cast<float>(version_offset_ >> 24),
                       static_cast<float>(version_offset_ & 0xffffff)};
  TROUPE_TRY(group.all_gather(own, all, {.name = "versions"})->wait());
  float known = 0;
  for (std::size_t i = 0; i < all.size(); i += 3) known = std::max(known, all[i]);
  version_offset_ = 0;
  for (std::size_t i = 0; i < all.size(); i += 3) {
    const auto offset = (static_cast<std::int64_t>(all[i + 1]) << 24) + static_cast<std::int64_t>(all[i + 2]);
    if (all[i] == known) version_offset_ = std::max(version_offset_, offset);
  }
  agreed_ = true;
  return {};
}

Result<std::optional<std::size_t>> LearnerActor::next_shard(RoleContext& context) {
  const Inlet& batches = context.in("batches");
  const bool prioritised = options_.learner.d4pg.importance_weights;
  std::vector<bool> available(options_.replay_shards, false);
  for (std::size_t shard = 0; shard < available.size(); ++shard) {
    const Frame* frame = batches.peek(shard);
    if (frame == nullptr) continue;
    TROUPE_ASSIGN(const auto batch, messages::read_batch(*frame));
    mix_.observe(shard, batch.info().table_items, batch.info().table_mass);
    available[shard] = !prioritised || context.out("priorities").ready(shard);
  }
  return mix_.pick(available);
}

BatchView LearnerActor::with_weights(const messages::SampledBatchView& batch, double share) {
  const auto& rows = batch.rows();
  const double items = static_cast<double>(mix_.items());
  weights_.resize(rows.probabilities.size());
  float largest = 0;
  for (std::size_t i = 0; i < weights_.size(); ++i) {
    weights_[i] =
        static_cast<float>(std::pow(1 / (items * share * rows.probabilities[i]), options_.importance_exponent));
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

Result<Frame> LearnerActor::new_priorities(messages::FramePool& pool, const messages::SampledBatchView& batch) const {
  const auto errors = learner_->td_error();
  messages::PriorityUpdate update;
  update.keys.assign(batch.rows().keys.begin(), batch.rows().keys.end());
  update.priorities.assign(errors.begin(), errors.end());
  return messages::make_priorities(pool, update);
}

Result<bool> LearnerActor::publish_if_due(Outlet& updates, messages::FramePool& pool, std::int64_t period) {
  // Of a group every member does so, not only the one that publishes: any of them may be the first to come back.
  if (!reservation_.empty() && version() > reserved_) TROUPE_TRY(reserve(version() + kVersionsReserved));
  if (!member_.is_first()) return true;
  if (published_ >= 0 && version() - published_ < period) return true;
  for (std::size_t store = 0; store < pieces_.size(); ++store) {
    if (!updates.ready(store)) return false;
  }
  TROUPE_TRY(publish(updates, pool));
  return true;
}

Status LearnerActor::publish(Outlet& updates, messages::FramePool& pool) {
  TROUPE_TRY(learner_->program().fetch(learner::d4pg::kPolicyGroup));
  const learner::ParamBuffer& policy = learner_->policy();
  if (member_.in_group()) publications_ = static_cast<std::uint64_t>(version());  // goes on with whoever publishes next
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

Status LearnerActor::reserve(std::int64_t version) {
  TROUPE_TRY(write_file_atomic(reservation_.string(), std::to_string(version) + "\n"));
  reserved_ = version;
  return {};
}

void LearnerActor::report(Report& report) const {
  report.counters.push_back({"steps", static_cast<double>(steps())});
  // Before it has agreed with its group it knows no version that counts.
  if (!member_.in_group() || agreed_) report.gauges.push_back({"version", static_cast<double>(version())});
  report.gauges.push_back({"critic_loss", metrics_.critic_loss});
  report.gauges.push_back({"policy_loss", metrics_.policy_loss});
  report.gauges.push_back({"q_mean", metrics_.q_mean});
}

Result<RoleState> LearnerActor::save() const {
  RoleState state;
  TROUPE_TRY(learner_->program().fetch());
  for (const messages::TensorBytes& tensor : learner::save_state(learner_->program())) {
    state.tensors.push_back({tensor.name, tensor.dtype, tensor.shape, {tensor.bytes.begin(), tensor.bytes.end()}});
  }
  state.counters = {{"steps", steps()}};
  for (std::size_t s = 0; s < mix_.shards().size() && mix_.shards().size() > 1; ++s) {
    const replay::ShardMix::Shard& shard = mix_.shards()[s];
    state.counters.push_back({mix_counter(s, "items"), shard.items});
    state.counters.push_back({mix_counter(s, "mass_bits"), std::bit_cast<std::int64_t>(shard.mass)});
    state.counters.push_back({mix_counter(s, "deficit_bits"), std::bit_cast<std::int64_t>(shard.deficit)});
  }
  return state;
}

Status LearnerActor::restore(const RoleState& state) {
  TROUPE_ASSIGN(const std::int64_t steps, state.counter("steps"));
  for (std::size_t s = 0; s < mix_.shards().size() && mix_.shards().size() > 1; ++s) {
    TROUPE_ASSIGN(const std::int64_t items, state.counter(mix_counter(s, "items")));
    TROUPE_ASSIGN(const std::int64_t mass, state.counter(mix_counter(s, "mass_bits")));
    TROUPE_ASSIGN(const std::int64_t deficit, state.counter(mix_counter(s, "deficit_bits")));
    mix_.shards()[s] = {items, std::bit_cast<double>(mass), std::bit_cast<double>(deficit)};
  }
  std::vector<messages::TensorBytes> tensors;
  for (const StateTensor& tensor : state.tensors) {
    tensors.push_back({tensor.name, tensor.dtype, tensor.shape, tensor.bytes});
  }
  TROUPE_TRY(learner::restore_state(learner_->program(), tensors, steps));
  version_offset_ = std::max<std::int64_t>(version_offset_ - steps, 0);
  return {};
}

}  // namespace troupe::actors
