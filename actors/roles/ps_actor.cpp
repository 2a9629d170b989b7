#include <troupe/actors/roles/ps_actor.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include <troupe/core/log.hpp>

namespace troupe::actors {
namespace {

/// Until what the shard had no memory for is tried again: readers give theirs back meanwhile.
constexpr Duration kMemoryPatience = std::chrono::milliseconds(10);

}  // namespace

RoleSpec PsActor::spec(const ParameterServerOptions& options) {
  RoleSpec spec;
  spec.name = options.name + "-ps";
  spec.count = options.shards;
  spec.inlets = {{"pull", "ParametersPull", ChannelKind::kRequest}, {"push", "Gradient", ChannelKind::kRequest}};
  spec.execution = Execution::kThread;
  spec.restart = {.max_restarts = 5, .from = RestartFrom::kLastCut};
  spec.make = [options](const RoleIdentity& identity) { return make(options, identity); };
  return spec;
}

Result<std::unique_ptr<Role>> PsActor::make(const ParameterServerOptions& options, const RoleIdentity& identity) {
  // Built as worker 0 builds it, for its layout and first parameters; it runs no step.
  TROUPE_ASSIGN(const auto feed, options.feed.make(identity));
  TROUPE_ASSIGN(learner::ServedReplica served, learner::build_served(feed->replica(), plan(options, 0, 0)));
  if (options.begin_with) TROUPE_TRY(options.begin_with(*served.program));
  const learner::ParameterShardOptions shard_options{
      .workers = static_cast<std::size_t>(options.workers),
      .transfer = options.transfer,
      .stale = options.stale,
      .max_staleness = options.max_staleness,
      .gradients_per_update =
          options.synchronous ? static_cast<std::size_t>(options.workers - options.backup_workers) : 0,
      .max_updates = options.updates,
      .memory = identity.frame_memory};
  auto shard = std::make_unique<learner::ParameterShard>(
      served.model, served.plans[static_cast<std::size_t>(identity.index)], shard_options);
  for (std::size_t g = 0; g < served.model->groups.size(); ++g) {
    shard->load(g, served.program->params(served.model->groups[g].name)->values());
  }
  return std::unique_ptr<Role>(new PsActor(options, identity, std::move(shard)));
}

PsActor::PsActor(const ParameterServerOptions& options, const RoleIdentity& identity,
                 std::unique_ptr<learner::ParameterShard> shard)
    : options_(options), identity_(identity), shard_(std::move(shard)) {}

Result<Progress> PsActor::step(RoleContext& context) {
  // Gradients first: a worker that pulls behind its push then sees what it pushed.
  TROUPE_ASSIGN(const bool took, take_gradient(context));
  TROUPE_TRY(end_late_step(context));
  take_pulls(context);
  if (took && !context.server("push").empty()) return Progress::kMore;
  answer_pulls(context);
  return Progress::kIdle;
}

Result<bool> PsActor::take_gradient(RoleContext& context) {
  if (!push_) {
    Server& pushes = context.server("push");
    if (pushes.empty()) return false;
    auto [frame, answer] = pushes.take();
    push_ = Push{std::move(frame), std::move(answer)};
  }
  const auto gradient = messages::read_gradient(push_->frame);
  const auto outcome = gradient.ok() ? shard_->push(*gradient) : gradient.error();
  if (!outcome.ok() && outcome.error().code == Code::kUnavailable) {
    context.wake_after(kMemoryPatience);
    return false;
  }
  const Push push = *std::exchange(push_, std::nullopt);
  if (!outcome.ok()) {
    refuse(outcome.error());
    return true;
  }
  push_bytes_ += static_cast<std::int64_t>(push.frame.size());
  TROUPE_ASSIGN(Frame reply, messages::make_gradient_answer(context.pool(), {*outcome, shard_->version()}));
  push.answer(std::move(reply));
  return true;
}

void PsActor::refuse(const Error& error) {
  if (refused_++ == 0) {
    log::warn("{}: refused (further ones are only counted): {}", identity_.name(), error.message);
  }
}

Status PsActor::end_late_step(RoleContext& context) {
  if (shard_->taken() == 0) {
    step_began_.reset();
    return {};
  }
  const Duration now = context.clock().now();
  if (!step_began_) step_began_ = now;
  const Duration left = *step_began_ + options_.straggler_timeout - now;
  if (left > Duration::zero()) {
    context.wake_after(push_ ? std::min(left, kMemoryPatience) : left);
    return {};
  }
  const std::size_t taken = shard_->taken();
  const Status closed = shard_->close_step();
  if (!closed.ok() && closed.error().code == Code::kUnavailable) {
    context.wake_after(kMemoryPatience);
    return {};
  }
  TROUPE_TRY(closed);
  log::info("{}: step {} ends with {} gradients after {:.1f} s", identity_.name(), shard_->version() - 1, taken,
            seconds(options_.straggler_timeout));
  ++late_steps_;
  step_began_.reset();
  return {};
}

void PsActor::take_pulls(RoleContext& context) {
  Server& server = context.server("pull");
  while (!server.empty()) {
    auto [frame, answer] = server.take();
    const auto request = messages::read_parameters_pull(frame);
    if (!request.ok()) {
      refuse(request.error());
      continue;
    }
    if (request->model_hash != shard_->model_hash() || request->worker >= options_.workers) {
      refuse({Code::kShapeMismatch,
              fmt::format("pull of worker {} of model {:016x}, expected one of {} of {:016x}", request->worker,
                          request->model_hash, options_.workers, shard_->model_hash())});
      continue;
    }
    shard_->heard_of(request->worker);
    std::erase_if(pulls_, [&](const Pull& older) { return older.request.worker == request->worker; });
    pulls_.push_back({*request, std::move(answer)});
  }
}

void PsActor::answer_pulls(RoleContext& context) {
  bool no_memory = false;
  std::erase_if(pulls_, [&](const Pull& pull) {
    if (no_memory || (shard_->version() < pull.request.at_least && !shard_->finished())) return false;
    auto parameters = shard_->parameters();
    if (!parameters.ok()) {
      no_memory = true;
      return false;
    }
    pull_bytes_ += static_cast<std::int64_t>(parameters->size());
    pull.answer(std::move(parameters).value());
    return true;
  });
  if (no_memory) context.wake_after(kMemoryPatience);
}

std::string PsActor::waiting_for() const {
  if (shard_->taken() == 0) return {};
  return fmt::format("the other gradients of step {}, {} are here;", shard_->version(), shard_->taken());
}

void PsActor::report(Report& report) const {
  const learner::ParameterShardCounts& counts = shard_->counts();
  const auto count = [&](const char* name, std::int64_t value) {
    report.counters.push_back({name, static_cast<double>(value)});
  };
  count("applied", counts.applied);
  count("dropped_stale", counts.stale);
  count("dropped_unknown", counts.unknown);
  count("refused", refused_);
  count("late_steps", late_steps_);
  count("push_bytes", push_bytes_);
  count("pull_bytes", pull_bytes_);
  const auto judged = static_cast<double>(counts.applied + counts.stale);
  report.gauges.push_back({"version", static_cast<double>(shard_->version())});
  report.gauges.push_back({"staleness_mean", judged > 0 ? counts.staleness_sum / judged : 0});
  report.gauges.push_back({"staleness_max", static_cast<double>(counts.staleness_max)});
}

Result<RoleState> PsActor::save() const {
  RoleState state;
  for (const messages::TensorBytes& tensor : shard_->save()) {
    state.tensors.push_back({tensor.name, tensor.dtype, tensor.shape, {tensor.bytes.begin(), tensor.bytes.end()}});
  }
  state.counters = {{"steps", shard_->version()},
                    {"fingerprint_bits", std::bit_cast<std::int64_t>(shard_->fingerprint())}};
  return state;
}

Status PsActor::restore(const RoleState& state) {
  TROUPE_ASSIGN(const std::int64_t version, state.counter("steps"));
  TROUPE_ASSIGN(const std::int64_t fingerprint, state.counter("fingerprint_bits"));
  std::vector<messages::TensorBytes> tensors;
  for (const StateTensor& tensor : state.tensors) {
    tensors.push_back({tensor.name, tensor.dtype, tensor.shape, tensor.bytes});
  }
  return shard_->restore(tensors, version, std::bit_cast<std::uint64_t>(fingerprint));
}

}  // namespace troupe::actors
