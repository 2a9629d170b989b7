#include <troupe/actors/roles/ps_worker_actor.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <iterator>

#include <troupe/actors/roles/bad_gradient.hpp>
#include <troupe/actors/roles/replica_results.hpp>

namespace troupe::actors {
namespace {

/// Calls that are refused come back at once: without a pause they would be made in a tight loop.
constexpr Duration kPauseAfterFailure = std::chrono::milliseconds(50);

}  // namespace

RoleSpec PsWorkerActor::spec(const ParameterServerOptions& options) {
  RoleSpec spec;
  spec.name = options.name;
  spec.count = options.workers;
  spec.inlets = options.feed.inlets;
  spec.outlets = {{"pull", "ParametersPull", ChannelKind::kRequest}, {"push", "Gradient", ChannelKind::kRequest}};
  std::ranges::copy(options.publication.inlets, std::back_inserter(spec.inlets));
  std::ranges::copy(options.publication.outlets, std::back_inserter(spec.outlets));
  std::ranges::copy(options.feed.outlets, std::back_inserter(spec.outlets));
  spec.execution = Execution::kThread;
  spec.restart = {.max_restarts = 5, .from = RestartFrom::kLastCut, .quarantine = true, .ends_run = kBadGradient};
  spec.make = [options](const RoleIdentity& identity) { return make(options, identity); };
  return spec;
}

Result<std::unique_ptr<Role>> PsWorkerActor::make(const ParameterServerOptions& options, const RoleIdentity& identity) {
  std::unique_ptr<PsWorkerActor> role(new PsWorkerActor(options, identity));
  TROUPE_ASSIGN(role->feed_, options.feed.make(identity));
  if (options.publication.make) {
    TROUPE_ASSIGN(role->publication_, options.publication.make(identity));
  }
  return std::unique_ptr<Role>(std::move(role));
}

Status PsWorkerActor::start() {
  std::int64_t batches = 0;
  if (!restored_.counters.empty()) {
    TROUPE_ASSIGN(batches, restored_.counter("batches"));
  }
  learner::ParameterServerPlan own = plan(options_, identity_.index, batches);
  own.compile.device = learner::device_of(options_.devices, identity_.index);
  TROUPE_ASSIGN(worker_, learner::ParameterServerWorker::make(feed_->replica(), own, options_.transfer));
  TROUPE_TRY(feed_->connect(*worker_));
  if (!restored_.counters.empty()) return restore_program();
  return options_.begin_with ? options_.begin_with(worker_->program()) : Status();
}

Status PsWorkerActor::restore_program() {
  learner::ParamBuffer& state = worker_->program().state();
  for (const StateTensor& tensor : restored_.tensors) {
    const learner::ParamEntry* const entry = state.layout().find(tensor.name);
    if (entry == nullptr || tensor.dtype != DType::kF32 || tensor.bytes.size() != state.tensor(*entry).size_bytes()) {
      return Error{Code::kShapeMismatch, fmt::format("restore: replica state \"{}\" in {} bytes is not the replica's",
                                                     tensor.name, tensor.bytes.size())};
    }
    std::memcpy(state.tensor(*entry).data(), tensor.bytes.data(), tensor.bytes.size());
  }
  worker_->program().parameters_changed();
  TROUPE_TRY(feed_->restore(restored_));
  if (publication_ != nullptr) {
    TROUPE_ASSIGN(const std::int64_t version, restored_.counter("steps"));
    publication_->restore(version);
  }
  restored_ = {};
  return {};
}

Result<Progress> PsWorkerActor::step(RoleContext& context) {
  if (worker_ == nullptr) {
    TROUPE_TRY(start());
    for (Shard& shard : shards_) shard.answered = context.clock().now();
  }
  TROUPE_TRY(talk(context));
  const bool loaded = all(Shard::State::kLoaded);
  const bool last = options_.updates > 0 && worker_->version() >= options_.updates;
  if (publication_ != nullptr) TROUPE_TRY(publication_->advance(context, worker_->program()));
  TROUPE_TRY(feed_->take(context, *worker_, last ? 0 : 1, is_first()));
  if (!loaded) return Progress::kIdle;
  TROUPE_ASSIGN(const bool published, publish_if_due(context, last));
  if (!last) return compute(context);
  if (published) return Progress::kDone;
  return publication_->pending() ? Progress::kMore : Progress::kIdle;
}

Result<bool> PsWorkerActor::publish_if_due(RoleContext& context, bool last) {
  if (publication_ == nullptr || !(last || is_first())) return true;
  return publication_->publish_if_due(context, worker_->program(), alone_, last);
}

bool PsWorkerActor::all(Shard::State state) const {
  return std::ranges::all_of(shards_, [&](const Shard& shard) { return shard.state == state; });
}

Status PsWorkerActor::talk(RoleContext& context) {
  const Duration now = context.clock().now();
  for (std::size_t s = 0; s < shards_.size(); ++s) {
    Shard& shard = shards_[s];
    if (shard.parameters) {
      TROUPE_TRY(worker_->load(*std::exchange(shard.parameters, std::nullopt)));
      shard.state = Shard::State::kLoaded;
    }
    if (shard.state == Shard::State::kLoaded) continue;
    if (now - shard.answered > kGiveUpAfter || shard.refused >= kMaxRefused) {
      return Error{Code::kUnavailable,
                   fmt::format("shard {} has not answered for {:.0f} s and has refused {} gradients "
                               "in a row, the last: {}",
                               s, seconds(now - shard.answered), shard.refused, shard.last_error)};
    }
    if (shard.state == Shard::State::kPull) TROUPE_TRY(pull(context, s));
    if (shard.state == Shard::State::kPush) push(context, s);
  }
  return {};
}

Status PsWorkerActor::pull(RoleContext& context, std::size_t index) {
  Shard& shard = shards_[index];
  const Duration now = context.clock().now();
  if (now < shard.not_before) {
    context.wake_after(shard.not_before - now);
    return {};
  }
  Caller& caller = context.caller("pull");
  if (!caller.ready(index)) return {};
  const messages::ParametersPull request{static_cast<std::uint32_t>(identity_.index), shard.at_least,
                                         worker_->model_hash()};
  TROUPE_ASSIGN(Frame frame, messages::make_parameters_pull(context.pool(), request));
  shard.state = Shard::State::kPulling;
  // What a synchronous step still waits for may take until its stragglers are given up.
  const Duration deadline = options_.call_deadline + (shard.at_least > 0 ? options_.straggler_timeout : Duration{});
  caller.call_to(index, std::move(frame), deadline, [&shard, &clock = context.clock()](Result<Frame> answer) {
    auto parameters = answer.ok() ? messages::read_parameters(*answer) : answer.error();
    if (parameters.ok()) {
      shard.answered = clock.now();
      shard.parameters = std::move(parameters).value();
      return;
    }
    // Perhaps the version that was waited for will never come: the shard was restarted.
    shard.at_least = 0;
    shard.last_error = parameters.error().message;
    shard.not_before = clock.now() + kPauseAfterFailure;
    shard.state = Shard::State::kPull;
  });
  return {};
}

void PsWorkerActor::push(RoleContext& context, std::size_t index) {
  Shard& shard = shards_[index];
  Caller& caller = context.caller("push");
  if (!caller.ready(index)) return;
  shard.state = Shard::State::kPushing;
  caller.call_to(index, std::move(shard.gradient), options_.call_deadline,
                 [this, &shard, &clock = context.clock(), version = worker_->version(index)](Result<Frame> answer) {
                   if (answer.ok()) shard.answered = clock.now();
                   pushed(shard, version, answer);
                 });
}

void PsWorkerActor::pushed(Shard& shard, std::int64_t version, const Result<Frame>& frame) {
  shard.state = Shard::State::kPull;
  const auto answer = frame.ok() ? messages::read_gradient_answer(*frame) : frame.error();
  if (!answer.ok()) {
    ++lost_;
    shard.refused += answer.error().code == Code::kCancelled;
    shard.last_error = answer.error().message;
    shard.at_least = 0;
    return;
  }
  shard.refused = 0;
  shard.at_least = answer->outcome == messages::GradientOutcome::kTaken ? version + 1 : answer->version;
}

Result<Progress> PsWorkerActor::compute(RoleContext& context) {
  TROUPE_ASSIGN(const std::int64_t begun, feed_->begin(*worker_, 1));
  if (begun == 0) return Progress::kIdle;
  TROUPE_TRY(worker_->finish());
  auto packed = worker_->gradients(context.pool());
  if (!packed.ok() && packed.error().code == Code::kInternal) {
    return keep_bad_batch(packed.error(), feed_->last_batch(*worker_), identity_.run_directory, identity_.name());
  }
  TROUPE_ASSIGN(std::vector<Frame> gradients, std::move(packed));
  TROUPE_TRY(feed_->done(*worker_));
  for (std::size_t s = 0; s < shards_.size(); ++s) {
    shards_[s].at_least = 0;
    shards_[s].answered = context.clock().now();
    shards_[s].state = gradients.empty() ? Shard::State::kPull : Shard::State::kPush;
    if (!gradients.empty()) shards_[s].gradient = std::move(gradients[s]);
  }
  TROUPE_TRY(talk(context));
  TROUPE_TRY(feed_->take(context, *worker_, 1, is_first()));
  return Progress::kIdle;
}

std::string PsWorkerActor::waiting_for() const {
  for (std::size_t s = 0; s < shards_.size(); ++s) {
    const Shard& shard = shards_[s];
    if (shard.state == Shard::State::kLoaded) continue;
    const bool pulls = shard.state == Shard::State::kPull || shard.state == Shard::State::kPulling;
    return fmt::format("shard {}, to {} {};", s, pulls ? "pull" : "push",
                       shard.last_error.empty() ? "" : "(last failure: " + shard.last_error + ")");
  }
  return feed_->waiting_for();
}

void PsWorkerActor::report(Report& report) const {
  if (worker_ == nullptr) return;
  report.counters.push_back({"steps", static_cast<double>(std::max<std::int64_t>(worker_->version(), 0))});
  report.counters.push_back({"batches", static_cast<double>(worker_->batches())});
  report.counters.push_back({"lost_pushes", static_cast<double>(lost_)});
  report.counters.push_back({"not_finite", static_cast<double>(worker_->not_finite())});
  report.gauges.push_back({"step", static_cast<double>(worker_->version())});
  const learner::Program& program = worker_->program();
  for (Scalar& metric : scalars(program.metric_names(), program.metrics())) report.gauges.push_back(std::move(metric));
  if (publication_ != nullptr) publication_->report(program, alone_, report);
  feed_->report(*worker_, report);
}

Result<RoleState> PsWorkerActor::save() const {
  if (worker_ == nullptr) return restored_;
  RoleState saved;
  TROUPE_TRY(worker_->program().fetch());
  learner::ParamBuffer& state = worker_->program().state();
  for (const learner::ParamEntry& entry : state.layout().entries) {
    const auto bytes = std::as_bytes(state.tensor(entry));
    saved.tensors.push_back({entry.name, DType::kF32, entry.shape, {bytes.begin(), bytes.end()}});
  }
  const learner::Program& program = worker_->program();
  saved.counters = metric_counters(scalars(program.metric_names(), program.metrics()));
  saved.counters.push_back({"batches", worker_->batches()});
  saved.counters.push_back({"steps", std::max<std::int64_t>(worker_->version(), 0)});
  feed_->save(saved);
  return saved;
}

Status PsWorkerActor::restore(const RoleState& state) {
  // Nothing is what it saves before its first step.
  if (!state.counters.empty()) restored_ = state;
  return {};
}

}  // namespace troupe::actors
