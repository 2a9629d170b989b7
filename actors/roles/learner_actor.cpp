#include <troupe/actors/roles/learner_actor.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <limits>

#include <troupe/actors/roles/bad_gradient.hpp>
#include <troupe/actors/roles/gpu_replay.hpp>
#include <troupe/algorithms/d4pg/networks.hpp>
#include <troupe/core/atomic_file.hpp>
#include <troupe/core/log.hpp>
#include <troupe/learner/engine/program_state.hpp>
#include <troupe/messages/reports.hpp>

namespace troupe::actors {
namespace {

/// Versions that one write to disk covers: some seconds' worth.
constexpr std::int64_t kVersionsReserved = 10'000;
/// Two halves of 24 bits, as members of a group tell them to each other. More than any run has.
constexpr std::int64_t kVersionsMost = std::int64_t{1} << 48;

Result<std::unique_ptr<LearnerInput>> make_input(const LearnerActorOptions& options, const RoleIdentity& identity,
                                                 learner::d4pg::Learner& learner) {
  const bool prioritised = options.learner.d4pg.importance_weights;
  if (options.gpu_replay) {
    TROUPE_ASSIGN(auto replay, GpuReplay::make(*options.gpu_replay, identity, learner,
                                               prioritised ? options.importance_exponent : 0));
    return std::unique_ptr<LearnerInput>(std::move(replay));
  }
  return std::unique_ptr<LearnerInput>(
      std::make_unique<ReplayBatches>(ReplayBatchesOptions{.shards = options.replay_shards,
                                                           .prioritised = prioritised,
                                                           .importance_exponent = options.importance_exponent}));
}

}  // namespace

RoleSpec LearnerActor::spec(std::string name, const LearnerActorOptions& options) {
  RoleSpec spec;
  spec.name = std::move(name);
  spec.outlets = {{"updates", "Parameters", ChannelKind::kLatest}};
  if (options.gpu_replay) {
    spec.inlets = {{"trajectories", "Trajectory"}};
  } else {
    spec.inlets = {{"batches", "Batch"}};
    spec.outlets.push_back({"priorities", "Priorities"});
  }
  spec.inlets.push_back({"refused", "ParametersVersion", ChannelKind::kLatest});
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
  TROUPE_ASSIGN(auto input, make_input(options, identity, *learner));
  auto role =
      std::unique_ptr<LearnerActor>(new LearnerActor(options, identity.group, std::move(learner), std::move(input)));
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
                           std::unique_ptr<learner::d4pg::Learner> learner, std::unique_ptr<LearnerInput> input)
    : options_(options),
      member_(std::move(seat)),
      learner_(std::move(learner)),
      input_(std::move(input)),
      pieces_(learner::partition(learner_->policy().layout(), options.parameter_shards, options.partition)) {}

Result<Progress> LearnerActor::step(RoleContext& context) {
  Outlet& updates = context.out("updates");
  TROUPE_ASSIGN(const bool may_step, member_.enter([&](const collectives::GroupView& view, Duration timeout) -> Status {
    // A copy of some microseconds, of a program that may go.
    while (copied_) TROUPE_TRY(send_parameters(updates, context.pool()));
    TROUPE_TRY(learner_->reform(view, timeout));
    return agree_on_versions();
  }));
  if (!may_step) return Progress::kIdle;
  TROUPE_TRY(send_parameters(updates, context.pool()));
  if (!context.in("refused").empty()) go_behind(context);
  const std::int64_t left =
      options_.max_steps > 0 ? options_.max_steps - steps() - under_way_ : std::numeric_limits<std::int64_t>::max();
  TROUPE_TRY(input_->take(context, *learner_, left));
  const bool was_under_way = under_way_ > 0;
  TROUPE_ASSIGN(bool whole, collect());
  if (!whole) return Progress::kIdle;
  const bool finished = options_.max_steps > 0 && steps() >= options_.max_steps;
  TROUPE_ASSIGN(bool published, publish_if_due(updates, context.pool(), finished ? 1 : options_.publish_period));
  // A launch that has ended may have left more steps to take than `left` allowed for.
  const auto idle = [&] { return copied_ || was_under_way ? Progress::kMore : Progress::kIdle; };
  if (finished) {
    if (!published) return idle();
    return member_.finish();
  }
  const auto begun = input_->begin(*learner_, left);
  if (!begun.ok()) return failed(begun.error());
  if (*begun == 0) return idle();
  under_way_ = *begun;
  if (!learner_->finished()) return Progress::kMore;
  TROUPE_ASSIGN(whole, collect());
  if (!whole) return Progress::kIdle;
  TROUPE_TRY(input_->take(context, *learner_, 0));
  TROUPE_ASSIGN(published, publish_if_due(updates, context.pool(), options_.publish_period));
  return Progress::kMore;
}

Status LearnerActor::settle() const {
  if (under_way_ == 0) return {};
  under_way_ = 0;
  TROUPE_ASSIGN(const auto done, learner_->finish());
  metrics_ = done.back();
  return input_->done(*learner_);
}

Result<bool> LearnerActor::collect() {
  const Status settled = settle();
  if (settled.ok()) return true;
  TROUPE_TRY(failed(settled.error()));
  return false;
}

Result<Progress> LearnerActor::failed(Error error) {
  if (member_.epoch_ended(error)) return Progress::kIdle;
  return bad_gradient(std::move(error), learner_->program(), input_->last_batch(), run_directory_, name_);
}

Status LearnerActor::agree_on_versions() {
  // By how much versions run ahead of steps. Who has just come knows only what it had reserved itself, which counts
  // when nobody else knows more.
  const std::int64_t own[] = {agreed_ ? 1 : 0, version_offset_};
  TROUPE_ASSIGN(const auto all, member_.communicator().gather_integers(own, {.name = "versions"}));
  std::int64_t known = 0;
  for (std::size_t i = 0; i < all.size(); i += 2) known = std::max(known, all[i]);
  version_offset_ = 0;
  for (std::size_t i = 0; i < all.size(); i += 2) {
    if (all[i] == known) version_offset_ = std::max(version_offset_, all[i + 1]);
  }
  agreed_ = true;
  return {};
}

void LearnerActor::go_behind(RoleContext& context) {
  const auto reached = messages::read_parameters_version(context.in("refused").take());
  if (!reached.ok()) return context.refuse("refused", reached.error());
  if (reached->version >= kVersionsMost) {
    return context.refuse("refused", Error{Code::kOutOfRange, fmt::format("got version {}, expected one below {}",
                                                                          reached->version, kVersionsMost)});
  }
  if (reached->version < version()) return;  // of an update that was sent before the last time
  log::warn("{}: version {} is older than the {} that others had published: goes on behind it, from step {}", name_,
            version(), reached->version, steps());
  version_offset_ = reached->version + 1 - steps();
}

Result<bool> LearnerActor::publish_if_due(Outlet& updates, messages::FramePool& pool, std::int64_t period) {
  // Of a group every member does so, not only the one that publishes: any of them may be the first to come back.
  if (!reservation_.empty() && version() > reserved_) TROUPE_TRY(reserve(version() + kVersionsReserved));
  if (!member_.is_first()) return true;
  TROUPE_TRY(send_parameters(updates, pool));
  if (copied_) return false;
  if (published_ >= 0 && version() - published_ < period) return true;
  for (std::size_t store = 0; store < pieces_.size(); ++store) {
    if (!updates.ready(store)) return false;
  }
  TROUPE_TRY(learner_->program().begin_snapshot(learner::d4pg::kPolicyGroup));
  copied_ = version();
  TROUPE_TRY(send_parameters(updates, pool));
  return !copied_;
}

Status LearnerActor::send_parameters(Outlet& updates, messages::FramePool& pool) {
  if (!copied_) return {};
  TROUPE_ASSIGN(const auto snapshot, learner_->program().snapshot());
  if (!snapshot) return {};
  if (member_.in_group()) publications_ = static_cast<std::uint64_t>(*copied_);  // goes on with whoever publishes next
  const messages::ParametersInfo info{*copied_, learner_->policy().fingerprint(), 0, DType::kF32, publications_++};
  for (std::size_t store = 0; store < pieces_.size(); ++store) {
    TROUPE_ASSIGN(auto builder, messages::ParametersBuilder::make(pool, DType::kF32, pieces_[store]));
    std::byte* to = builder.data().data();
    for (const messages::ParametersRange& range : pieces_[store].ranges) {
      const std::size_t bytes = static_cast<std::size_t>(range.count) * sizeof(float);
      std::memcpy(to, snapshot->values.data() + range.offset, bytes);
      to += bytes;
    }
    updates.send_to(store, std::move(builder).finish(info));
  }
  published_ = *copied_;
  copied_.reset();
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
  input_->report(report);
}

Result<RoleState> LearnerActor::save() const {
  RoleState state;
  TROUPE_TRY(settle());
  TROUPE_TRY(learner_->program().fetch());
  for (const messages::TensorBytes& tensor : learner::save_state(learner_->program())) {
    state.tensors.push_back({tensor.name, tensor.dtype, tensor.shape, {tensor.bytes.begin(), tensor.bytes.end()}});
  }
  state.counters = {{"steps", steps()}};
  input_->save(state);
  return state;
}

Status LearnerActor::restore(const RoleState& state) {
  TROUPE_ASSIGN(const std::int64_t steps, state.counter("steps"));
  TROUPE_TRY(input_->restore(state));
  std::vector<messages::TensorBytes> tensors;
  for (const StateTensor& tensor : state.tensors) {
    tensors.push_back({tensor.name, tensor.dtype, tensor.shape, tensor.bytes});
  }
  TROUPE_TRY(learner::restore_state(learner_->program(), tensors, steps));
  version_offset_ = std::max<std::int64_t>(version_offset_ - steps, 0);
  log::info("{}: goes on from step {}", name_, steps);
  return {};
}

}  // namespace troupe::actors
