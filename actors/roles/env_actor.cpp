#include <troupe/actors/roles/env_actor.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>

namespace troupe::actors {
namespace {

/// Environment steps of one slice at most, and so of one trajectory frame: enough to make the frame's cost (about 2 us)
/// vanish, few enough that new parameters are taken within about a millisecond.
constexpr std::int64_t kStepsPerTrajectory = 16;
/// Versions whose use waits to be told. Beyond, the two oldest become one, which counts as of the older version: told
/// as too stale rather than as fresher than it was.
constexpr std::size_t kMostUses = 16;
/// Episodes that wait to be told. Beyond, the oldest is dropped and counted.
constexpr std::size_t kMostEpisodes = 16;
/// Names of the noise generator's words in a checkpoint.
constexpr std::array kNoiseState = {"noise_0", "noise_1", "noise_2", "noise_3"};

}  // namespace

RoleSpec EnvActor::spec(std::string name, std::int64_t count, const EnvActorOptions& options) {
  RoleSpec spec;
  spec.name = std::move(name);
  spec.count = count;
  spec.inlets = options.acting.inlets;
  spec.outlets = {
      {"trajectories", "Trajectory"}, {"use", "ParametersUse"}, {"episodes", "Episode"}, StepBudget::port()};
  spec.outlets.insert(spec.outlets.end(), options.acting.outlets.begin(), options.acting.outlets.end());
  spec.execution = Execution::kThread;
  spec.make = [options](const RoleIdentity& identity) { return make(options, identity); };
  return spec;
}

Result<std::unique_ptr<Role>> EnvActor::make(const EnvActorOptions& options, const RoleIdentity& identity) {
  // A restarted actor must not replay the episodes of its predecessor.
  const std::uint64_t seed =
      derive_seed(identity.seed, "environment", static_cast<std::uint64_t>(identity.incarnation));
  TROUPE_ASSIGN(auto environment, options.make_environment(seed));
  TROUPE_ASSIGN(auto acting, options.acting.make(identity));
  const envs::EnvSpec& spec = environment->spec();
  TROUPE_ASSIGN(auto adder, replay::NStepAdder::make({.observation_size = spec.observation_size(),
                                                      .action_size = spec.action_size(),
                                                      .n_step = options.n_step,
                                                      .discount = options.discount}));
  return std::unique_ptr<Role>(
      new EnvActor(options, identity, std::move(environment), std::move(acting), std::move(adder)));
}

EnvActor::EnvActor(EnvActorOptions options, const RoleIdentity& identity,
                   std::unique_ptr<envs::Environment> environment, std::unique_ptr<Acting> acting,
                   replay::NStepAdder adder)
    : options_(std::move(options)),
      identity_(identity),
      environment_(std::move(environment)),
      acting_(std::move(acting)),
      budget_(identity),
      adder_(std::move(adder)),
      rng_(derive_seed(identity.seed, "noise", static_cast<std::uint64_t>(identity.incarnation))) {
  const envs::EnvSpec& spec = environment_.spec();
  signature_ =
      std::make_shared<const Signature>(replay::transition_signature(spec.observation_size(), spec.action_size()));
  observation_.resize(static_cast<std::size_t>(spec.observation_size()));
  action_.resize(static_cast<std::size_t>(spec.action_size()));
  noise_.resize(action_.size());
}

Result<Progress> EnvActor::step(RoleContext& context) {
  TROUPE_TRY(acting_->refresh(context));
  TROUPE_TRY(budget_.refresh(context));
  const Outlet& trajectories = context.out("trajectories");
  waiting_ = false;
  while (budget_.may_step() && trajectories.ready()) {
    TROUPE_ASSIGN(const Acted acted, act(context));
    waiting_ = acted == Acted::kWaiting;
    if (waiting_ || acted == Acted::kFailed) break;
    if (acted == Acted::kEpisodeEnd) end_episode();
    if (acted == Acted::kEpisodeEnd || trajectory_steps_ == kStepsPerTrajectory || !budget_.may_step()) {
      send_trajectory(context);
      break;
    }
  }
  if (budget_.over() && trajectory_steps_ > 0 && trajectories.ready()) {
    // It was restored with steps that had not left yet, and there are no more to come.
    if (!trajectory_) TROUPE_TRY(begin_trajectory(context));
    send_trajectory(context);
  }
  if (trajectory_steps_ == 0) TROUPE_TRY(send_observations(context));
  if (budget_.over() && trajectory_steps_ == 0) {
    episodes_unreported_ += static_cast<std::int64_t>(finished_.size());
    finished_.clear();
    return Progress::kDone;
  }
  // A last look at the budget: what it may still ask for must not wait until something else happens.
  if (!budget_.may_step()) TROUPE_TRY(budget_.refresh(context));
  return waiting_ || !trajectories.ready() || !budget_.may_step() ? Progress::kIdle : Progress::kMore;
}

Result<EnvActor::Acted> EnvActor::act(RoleContext& context) {
  if (!in_episode_) {
    const auto begun = environment_.reset(observation_);
    if (!begun.ok()) return environment_failed(context, begun.error());
    TROUPE_TRY(adder_.first(observation_));
    in_episode_ = true;
    episode_return_ = 0;
    episode_steps_ = 0;
  }
  TROUPE_ASSIGN(const auto version, acting_->act(context, observation_, action_));
  if (!version) return Acted::kWaiting;
  version_ = *version;
  TROUPE_TRY(add_noise());
  if (!trajectory_) TROUPE_TRY(begin_trajectory(context));
  const auto result = environment_.step(action_, observation_);
  if (!result.ok()) return environment_failed(context, result.error());
  TROUPE_ASSIGN(const std::int64_t rows,
                adder_.add({action_, result->reward, result->discount, observation_, result->last()},
                           trajectory_->rows(), trajectory_rows_));
  trajectory_rows_ += rows;
  ++trajectory_steps_;
  budget_.take();
  episode_return_ += result->reward;
  ++episode_steps_;
  count_use();
  return result->last() ? Acted::kEpisodeEnd : Acted::kStep;
}

Status EnvActor::add_noise() {
  const envs::EnvSpec& spec = environment_.spec();
  const double kept = episode_steps_ == 0 ? 0 : options_.noise_correlation;
  const double fresh = std::sqrt(1 - kept * kept);
  for (std::size_t i = 0; i < action_.size(); ++i) {
    if (!std::isfinite(action_[i])) {
      return Error{Code::kInternal, fmt::format("parameters of version {} gave action[{}] = {}, expected finite values",
                                                version_, i, action_[i])};
    }
    const double half_range = (spec.action_high[i] - spec.action_low[i]) / 2;
    noise_[i] = kept * noise_[i] + fresh * rng_.normal();
    const double noisy = action_[i] + options_.sigma * half_range * noise_[i];
    action_[i] = static_cast<float>(std::clamp(noisy, spec.action_low[i], spec.action_high[i]));
  }
  return {};
}

Result<EnvActor::Acted> EnvActor::environment_failed(RoleContext& context, const Error& cause) {
  // What is written is good, and must not be lost should this be the last failure that is borne.
  if (trajectory_steps_ > 0) send_trajectory(context);
  // Steps of the window whose transitions now never come.
  const std::int64_t unfinished = in_episode_ ? adder_.rows_of_next(true) - 1 : 0;
  in_episode_ = false;
  dropped_steps_ += unfinished;
  TROUPE_TRY(environment_.survive(identity_.name(), cause, unfinished, context.clock().now()));
  return Acted::kFailed;
}

std::int64_t EnvActor::rows_at_most() const { return kStepsPerTrajectory + options_.n_step; }

Status EnvActor::begin_trajectory(RoleContext& context) {
  messages::TrajectoryOptions layout{signature_, rows_at_most(), false};
  TROUPE_ASSIGN(trajectory_, messages::TrajectoryBuilder::make(context.pool(), layout));
  std::span<const std::byte> restored = restored_rows_;
  for (std::size_t c = 0; c < signature_->size(); ++c) {
    const std::size_t bytes = static_cast<std::size_t>(trajectory_rows_) * (*signature_)[c].bytes();
    std::ranges::copy(restored.first(bytes), trajectory_->rows().columns[c].begin());
    restored = restored.subspan(bytes);
  }
  restored_rows_.clear();
  return {};
}

void EnvActor::send_trajectory(RoleContext& context) {
  const messages::TrajectoryInfo info{static_cast<std::uint32_t>(identity_.index),
                                      static_cast<std::uint32_t>(identity_.incarnation), sequence_++, version_,
                                      trajectory_steps_};
  context.out("trajectories").send(std::move(*trajectory_).finish(info, trajectory_rows_));
  trajectory_.reset();
  trajectory_rows_ = 0;
  trajectory_steps_ = 0;
}

void EnvActor::count_use() {
  if (uses_.empty() || uses_.back().version != version_) {
    uses_.push_back({static_cast<std::uint32_t>(identity_.index), version_, 0});
  }
  ++uses_.back().env_steps;
  if (uses_.size() <= kMostUses) return;
  uses_[0].env_steps += uses_[1].env_steps;
  uses_.erase(uses_.begin() + 1);
}

void EnvActor::end_episode() {
  in_episode_ = false;
  ++episodes_;
  finished_.push_back(
      {identity_.role, static_cast<std::uint32_t>(identity_.index), episode_return_, episode_steps_, version_});
  if (finished_.size() <= kMostEpisodes) return;
  finished_.pop_front();
  ++episodes_unreported_;
}

Status EnvActor::send_observations(RoleContext& context) {
  for (Outlet& out = context.out("use"); !uses_.empty() && out.ready(0); uses_.pop_front()) {
    TROUPE_ASSIGN(Frame use, messages::make_parameters_use(context.pool(), uses_.front()));
    out.send_to(0, std::move(use));
  }
  for (Outlet& out = context.out("episodes"); !finished_.empty() && out.ready(); finished_.pop_front()) {
    TROUPE_ASSIGN(Frame episode, messages::make_episode(context.pool(), finished_.front()));
    out.send(std::move(episode));
  }
  return {};
}

std::string EnvActor::waiting_for() const { return waiting_ ? acting_->waiting_for() : budget_.waiting_for(); }

void EnvActor::report(Report& report) const {
  // Of all its incarnations; before it knows about earlier ones it has none of its own.
  if (budget_.known()) report.counters.push_back({"steps", static_cast<double>(budget_.taken())});
  report.counters.push_back({"episodes", static_cast<double>(episodes_)});
  report.counters.push_back({"episodes_unreported", static_cast<double>(episodes_unreported_)});
  report.counters.push_back({"env_failures", static_cast<double>(environment_.failures())});
  report.counters.push_back({"steps_dropped", static_cast<double>(dropped_steps_)});
  if (version_ >= 0) report.gauges.push_back({"version", static_cast<double>(version_)});
  acting_->report(report);
}

Result<RoleState> EnvActor::save() const {
  RoleState state;
  const Rng::State& rng = rng_.state();
  for (std::size_t i = 0; i < rng.size(); ++i) {
    state.counters.push_back({kNoiseState[i], std::bit_cast<std::int64_t>(rng[i])});
  }
  for (std::size_t i = 0; i < noise_.size(); ++i) {
    state.counters.push_back({fmt::format("noise/{}", i), std::bit_cast<std::int64_t>(noise_[i])});
  }
  state.counters.push_back({"in_episode", in_episode_});
  state.counters.push_back({"env_steps", budget_.taken()});
  state.counters.push_back({"episodes", episodes_});
  state.counters.push_back({"sequence", static_cast<std::int64_t>(sequence_)});
  state.counters.push_back({"episode_return_bits", std::bit_cast<std::int64_t>(episode_return_)});
  state.counters.push_back({"episode_steps", episode_steps_});
  state.counters.push_back({"trajectory_steps", trajectory_steps_});
  state.counters.push_back({"trajectory_rows", trajectory_rows_});
  state.chunks.push_back(environment_.save_state());
  state.chunks.push_back(adder_.save_state());
  const auto observation = std::as_bytes(std::span(observation_));
  state.chunks.emplace_back(observation.begin(), observation.end());
  state.chunks.push_back(restored_rows_);
  for (std::size_t c = 0; trajectory_ && c < signature_->size(); ++c) {
    const auto written = static_cast<std::size_t>(trajectory_rows_) * (*signature_)[c].bytes();
    const auto column = trajectory_->rows().columns[c].first(written);
    state.chunks.back().insert(state.chunks.back().end(), column.begin(), column.end());
  }
  return state;
}

Status EnvActor::restore(const RoleState& state) {
  TROUPE_TRY(state.expect_chunks(4));
  if (state.chunks[2].size() != observation_.size() * sizeof(float)) {
    return Error{Code::kShapeMismatch, fmt::format("state has an observation of {} bytes, expected {} floats",
                                                   state.chunks[2].size(), observation_.size())};
  }
  Rng::State rng;
  for (std::size_t i = 0; i < rng.size(); ++i) {
    TROUPE_ASSIGN(const std::int64_t word, state.counter(kNoiseState[i]));
    rng[i] = std::bit_cast<std::uint64_t>(word);
  }
  for (std::size_t i = 0; i < noise_.size(); ++i) {
    // Checkpoints of versions whose noise was independent have none.
    const auto bits = state.counter(fmt::format("noise/{}", i));
    noise_[i] = bits.ok() ? std::bit_cast<double>(*bits) : 0;
    if (!std::isfinite(noise_[i])) {
      return Error{Code::kCorrupt, fmt::format("state has noise[{}] = {}, expected finite values", i, noise_[i])};
    }
  }
  TROUPE_ASSIGN(const std::int64_t in_episode, state.counter("in_episode"));
  TROUPE_ASSIGN(const std::int64_t env_steps, state.counter("env_steps"));
  TROUPE_ASSIGN(episodes_, state.counter("episodes"));
  TROUPE_ASSIGN(const std::int64_t sequence, state.counter("sequence"));
  TROUPE_ASSIGN(const std::int64_t return_bits, state.counter("episode_return_bits"));
  TROUPE_ASSIGN(episode_steps_, state.counter("episode_steps"));
  TROUPE_ASSIGN(trajectory_steps_, state.counter("trajectory_steps"));
  TROUPE_ASSIGN(trajectory_rows_, state.counter("trajectory_rows"));
  if (trajectory_steps_ < 0 || trajectory_steps_ >= kStepsPerTrajectory || trajectory_rows_ < 0 ||
      trajectory_rows_ > rows_at_most() ||
      state.chunks[3].size() != static_cast<std::size_t>(trajectory_rows_) * row_bytes(*signature_)) {
    return Error{
        Code::kShapeMismatch,
        fmt::format("state has a trajectory of {} steps and {} rows in {} bytes, expected at most {} rows of {}",
                    trajectory_steps_, trajectory_rows_, state.chunks[3].size(), rows_at_most(),
                    row_bytes(*signature_))};
  }
  TROUPE_TRY(environment_.restore_state(state.chunks[0]));
  TROUPE_TRY(adder_.restore_state(state.chunks[1]));
  std::memcpy(observation_.data(), state.chunks[2].data(), state.chunks[2].size());
  restored_rows_ = state.chunks[3];
  rng_.set_state(rng);
  budget_.restore(env_steps);
  in_episode_ = in_episode != 0;
  sequence_ = static_cast<std::uint64_t>(sequence);
  episode_return_ = std::bit_cast<double>(return_bits);
  // The policy itself comes again from the parameter store; until then the actor waits.
  return {};
}

}  // namespace troupe::actors
