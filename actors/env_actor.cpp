#include <troupe/actors/env_actor.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

#include <troupe/messages/reports.hpp>
#include <troupe/messages/trajectory.hpp>

namespace troupe::actors {
namespace {

/// Environment steps of one slice, and so of one trajectory frame: enough to make the frame's cost (about 2 us) vanish,
/// few enough that new parameters are taken within about a millisecond.
constexpr std::int64_t kStepsPerSlice = 16;
/// Names of the noise generator's words in a checkpoint.
constexpr std::array kNoiseState = {"noise_0", "noise_1", "noise_2", "noise_3"};

}  // namespace

RoleSpec EnvActor::spec(std::string name, std::int64_t count, const EnvActorOptions& options) {
  RoleSpec spec;
  spec.name = std::move(name);
  spec.count = count;
  spec.inlets = {{"parameters", "Parameters", ChannelKind::kLatest}};
  spec.outlets = {{"trajectories", "Trajectory"}, {"use", "ParametersUse"}, {"episodes", "Episode"}};
  spec.execution = Execution::kThread;
  spec.make = [options](const RoleIdentity& identity) { return make(options, identity); };
  return spec;
}

Result<std::unique_ptr<Role>> EnvActor::make(const EnvActorOptions& options, const RoleIdentity& identity) {
  // A restarted actor must not replay the episodes of its predecessor.
  const std::uint64_t seed =
      derive_seed(identity.seed, "environment", static_cast<std::uint64_t>(identity.incarnation));
  TROUPE_ASSIGN(auto environment, envs::make_environment(options.env, seed));
  TROUPE_ASSIGN(auto policy, options.make_policy());
  const envs::EnvSpec& spec = environment->spec();
  TROUPE_ASSIGN(auto adder, replay::NStepAdder::make({.observation_size = spec.observation_size(),
                                                      .action_size = spec.action_size(),
                                                      .n_step = options.n_step,
                                                      .discount = options.discount}));
  EnvActorOptions own = options;
  if (options.max_env_steps > 0) {
    own.max_env_steps =
        options.max_env_steps / identity.count + (identity.index < options.max_env_steps % identity.count);
  }
  return std::unique_ptr<Role>(
      new EnvActor(std::move(own), identity, std::move(environment), std::move(policy), std::move(adder)));
}

EnvActor::EnvActor(EnvActorOptions options, const RoleIdentity& identity,
                   std::unique_ptr<envs::Environment> environment, std::unique_ptr<learner::Policy> policy,
                   replay::NStepAdder adder)
    : options_(std::move(options)),
      identity_(identity),
      environment_(std::move(environment)),
      policy_(std::move(policy)),
      adder_(std::move(adder)),
      rng_(derive_seed(identity.seed, "noise", static_cast<std::uint64_t>(identity.incarnation))) {
  const envs::EnvSpec& spec = environment_->spec();
  signature_ =
      std::make_shared<const Signature>(replay::transition_signature(spec.observation_size(), spec.action_size()));
  raw_observation_.resize(row_bytes(spec.observation));
  observation_.resize(static_cast<std::size_t>(spec.observation_size()));
  action_.resize(static_cast<std::size_t>(spec.action_size()));
  env_action_.resize(action_.size());
}

Result<Progress> EnvActor::step(RoleContext& context) {
  TROUPE_TRY(take_parameters(context));
  if (options_.max_env_steps > 0 && env_steps_ >= options_.max_env_steps) return Progress::kDone;
  if (version_ < 0 || !context.out("trajectories").ready() || !context.out("use").ready(0) ||
      !context.out("episodes").ready()) {
    return Progress::kIdle;
  }

  messages::TrajectoryOptions layout{signature_, kStepsPerSlice + options_.n_step, false};
  TROUPE_ASSIGN(auto builder, messages::TrajectoryBuilder::make(context.pool(), layout));
  std::int64_t rows = 0;
  std::int64_t steps = 0;
  bool ended = false;
  while (steps < kStepsPerSlice && !ended && (options_.max_env_steps == 0 || env_steps_ < options_.max_env_steps)) {
    if (!in_episode_) TROUPE_TRY(reset());
    TROUPE_ASSIGN(ended, act(builder.rows(), rows));
    ++steps;
    ++env_steps_;
  }
  if (rows > 0) {
    const messages::TrajectoryInfo info{static_cast<std::uint32_t>(identity_.index),
                                        static_cast<std::uint32_t>(identity_.incarnation), sequence_++, version_,
                                        steps};
    context.out("trajectories").send(std::move(builder).finish(info, rows));
  }
  TROUPE_ASSIGN(Frame use, messages::make_parameters_use(
                               context.pool(), {static_cast<std::uint32_t>(identity_.index), version_, steps}));
  context.out("use").send_to(0, std::move(use));
  if (ended) {
    TROUPE_ASSIGN(Frame episode,
                  messages::make_episode(context.pool(), {identity_.role, static_cast<std::uint32_t>(identity_.index),
                                                          episode_return_, episode_steps_, version_}));
    context.out("episodes").send(std::move(episode));
    ++episodes_;
    in_episode_ = false;
  }
  return Progress::kMore;
}

Status EnvActor::take_parameters(RoleContext& context) {
  TROUPE_ASSIGN(const auto parameters, assembler_.take(context.in("parameters")));
  if (!parameters) return {};
  TROUPE_TRY(policy_->load(parameters->values, parameters->layout_hash));
  version_ = parameters->version;
  return {};
}

Status EnvActor::reset() {
  TROUPE_TRY(environment_->reset(raw_observation_));
  envs::flatten_observation(environment_->spec(), raw_observation_, observation_);
  TROUPE_TRY(adder_.first(observation_));
  in_episode_ = true;
  episode_return_ = 0;
  episode_steps_ = 0;
  return {};
}

Result<bool> EnvActor::act(const MutableBatchView& out, std::int64_t& row) {
  TROUPE_TRY(policy_->act(observation_, action_));
  const envs::EnvSpec& spec = environment_->spec();
  for (std::size_t i = 0; i < action_.size(); ++i) {
    const double half_range = (spec.action_high[i] - spec.action_low[i]) / 2;
    const double noisy = action_[i] + options_.sigma * half_range * rng_.normal();
    action_[i] = static_cast<float>(std::clamp(noisy, spec.action_low[i], spec.action_high[i]));
    env_action_[i] = action_[i];
  }
  TROUPE_ASSIGN(const envs::TimeStep result, environment_->step(env_action_, raw_observation_));
  envs::flatten_observation(spec, raw_observation_, observation_);
  episode_return_ += result.reward;
  ++episode_steps_;
  TROUPE_ASSIGN(const std::int64_t written,
                adder_.add({action_, result.reward, result.discount, observation_, result.last()}, out, row));
  row += written;
  return result.last();
}

std::string EnvActor::waiting_for() const { return version_ < 0 ? "no parameters have come yet;" : ""; }

void EnvActor::report(Report& report) const {
  report.counters.push_back({"steps", static_cast<double>(env_steps_)});
  report.counters.push_back({"episodes", static_cast<double>(episodes_)});
}

Result<RoleState> EnvActor::save() const {
  RoleState state;
  const Rng::State& rng = rng_.state();
  for (std::size_t i = 0; i < rng.size(); ++i) {
    state.counters.push_back({kNoiseState[i], std::bit_cast<std::int64_t>(rng[i])});
  }
  state.counters.push_back({"in_episode", in_episode_});
  state.counters.push_back({"env_steps", env_steps_});
  state.counters.push_back({"episodes", episodes_});
  state.counters.push_back({"sequence", static_cast<std::int64_t>(sequence_)});
  state.counters.push_back({"episode_return_bits", std::bit_cast<std::int64_t>(episode_return_)});
  state.counters.push_back({"episode_steps", episode_steps_});
  state.chunks.push_back(environment_->save_state());
  state.chunks.push_back(adder_.save_state());
  const auto observation = std::as_bytes(std::span(observation_));
  state.chunks.emplace_back(observation.begin(), observation.end());
  return state;
}

Status EnvActor::restore(const RoleState& state) {
  TROUPE_TRY(state.expect_chunks(3));
  if (state.chunks[2].size() != observation_.size() * sizeof(float)) {
    return Error{Code::kShapeMismatch, fmt::format("state has an observation of {} bytes, expected {} floats",
                                                   state.chunks[2].size(), observation_.size())};
  }
  Rng::State rng;
  for (std::size_t i = 0; i < rng.size(); ++i) {
    TROUPE_ASSIGN(const std::int64_t word, state.counter(kNoiseState[i]));
    rng[i] = std::bit_cast<std::uint64_t>(word);
  }
  TROUPE_ASSIGN(const std::int64_t in_episode, state.counter("in_episode"));
  TROUPE_ASSIGN(env_steps_, state.counter("env_steps"));
  TROUPE_ASSIGN(episodes_, state.counter("episodes"));
  TROUPE_ASSIGN(const std::int64_t sequence, state.counter("sequence"));
  TROUPE_ASSIGN(const std::int64_t return_bits, state.counter("episode_return_bits"));
  TROUPE_ASSIGN(episode_steps_, state.counter("episode_steps"));
  TROUPE_TRY(environment_->restore_state(state.chunks[0]));
  TROUPE_TRY(adder_.restore_state(state.chunks[1]));
  std::memcpy(observation_.data(), state.chunks[2].data(), state.chunks[2].size());
  rng_.set_state(rng);
  in_episode_ = in_episode != 0;
  sequence_ = static_cast<std::uint64_t>(sequence);
  episode_return_ = std::bit_cast<double>(return_bits);
  // The policy itself comes again from the parameter store; until then the actor waits.
  return {};
}

}  // namespace troupe::actors
