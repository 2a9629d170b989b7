#include <troupe/actors/roles/env_actor.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <utility>

#include <troupe/actors/roles/player.hpp>
#include <troupe/core/rng.hpp>

namespace troupe::actors {
namespace {

/// Environment steps of one slice at least, and so of one trajectory frame: enough to make the frame's cost (about 2
/// us) vanish, few enough that new parameters are taken within about a millisecond.
constexpr std::int64_t kStepsPerTrajectory = 16;
/// Versions whose use waits to be told. Beyond, the two oldest become one, which counts as of the older version: told
/// as too stale rather than as fresher than it was.
constexpr std::size_t kMostUses = 16;
/// Episodes of an environment that wait to be told. Beyond, the oldest is dropped and counted.
constexpr std::size_t kMostEpisodes = 16;
/// What a checkpoint has of the whole instance, and of each environment: its state, its adder's, its exploration's, its
/// newest observation and its recurrent state.
constexpr std::size_t kChunksOfAll = 1;
constexpr std::size_t kChunksOfEach = 5;

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
  const auto incarnation = static_cast<std::uint64_t>(identity.incarnation);
  const std::uint64_t seed = derive_seed(identity.seed, "environment", incarnation);
  const std::int64_t count = options.environments;
  std::vector<std::unique_ptr<envs::Environment>> guarded;
  for (std::int64_t i = 0; i < count; ++i) {
    TROUPE_ASSIGN(auto environment, options.make_environment(instance_seed(seed, i)));
    guarded.push_back(std::make_unique<GuardedEnvironment>(std::move(environment)));
  }
  TROUPE_ASSIGN(auto environments, envs::VectorEnv::make(std::move(guarded), options.threads));
  const envs::EnvSpec& spec = environments->spec();
  TROUPE_ASSIGN(auto acting, options.acting.make(identity, count));
  TROUPE_ASSIGN(auto rows, PolicyRows::make(options.acting.columns, spec.observation, count));
  TROUPE_ASSIGN(auto explorations, make_explorations(options.exploration, spec, count,
                                                     {.seed = derive_seed(identity.seed, "noise", incarnation),
                                                      .index = identity.index * count,
                                                      .count = identity.count * count}));
  std::vector<Slot> slots(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < slots.size(); ++i) {
    slots[i].exploration = std::move(explorations[i]);
    TROUPE_ASSIGN(slots[i].adder, options.adder(spec.observation, slots[i].exploration->acted()));
  }
  return std::unique_ptr<Role>(
      new EnvActor(identity, std::move(environments), std::move(rows), std::move(acting), std::move(slots)));
}

EnvActor::EnvActor(const RoleIdentity& identity, std::unique_ptr<envs::VectorEnv> environments,
                   std::unique_ptr<PolicyRows> rows, std::unique_ptr<Acting> acting, std::vector<Slot> slots)
    : identity_(identity),
      environments_(std::move(environments)),
      rows_(std::move(rows)),
      acting_(std::move(acting)),
      slots_(std::move(slots)),
      budget_(identity),
      signature_(std::make_shared<const Signature>(slots_.front().adder->signature())),
      moves_(slots_.size(), envs::Move::kRest),
      acted_bytes_(row_bytes(slots_.front().exploration->acted())) {
  acted_.resize(slots_.size() * acted_bytes_);
  actions_.resize(slots_.size() * environments_->spec().action.tensor.bytes());
}

Result<Progress> EnvActor::step(RoleContext& context) {
  TROUPE_TRY(acting_->refresh(context));
  TROUPE_TRY(budget_.refresh(context));
  const Outlet& trajectories = context.out("trajectories");
  waiting_ = false;
  while (budget_.may_step() && trajectories.ready()) {
    TROUPE_ASSIGN(const Acted acted, act(context));
    waiting_ = acted == Acted::kWaiting;
    const bool failed = any_failed();
    if (failed) TROUPE_TRY(tell_failures(context));
    if (waiting_ || failed) break;
    if (acted == Acted::kEpisodeEnd || trajectory_steps_ >= kStepsPerTrajectory || !room_for_a_round() ||
        !budget_.may_step()) {
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
  TROUPE_TRY(begin_episodes());
  if (std::ranges::none_of(slots_, &Slot::in_episode)) return Acted::kSteps;  // all have failed
  TROUPE_ASSIGN(const auto version, acting_->act(context, rows_->inputs(), rows_->mutable_outputs()));
  if (!version) return Acted::kWaiting;
  version_ = *version;
  TROUPE_TRY(rows_->check_finite(version_));
  if (!trajectory_) TROUPE_TRY(begin_trajectory(context));
  TROUPE_TRY(choose_actions());
  environments_->advance(moves_, actions_);
  TROUPE_ASSIGN(const bool ended, take_steps());
  return ended ? Acted::kEpisodeEnd : Acted::kSteps;
}

Status EnvActor::begin_episodes() {
  for (std::size_t i = 0; i < slots_.size(); ++i) {
    moves_[i] = slots_[i].in_episode ? envs::Move::kRest : envs::Move::kReset;
  }
  if (std::ranges::count(moves_, envs::Move::kReset) == 0) return {};
  environments_->advance(moves_, actions_);
  for (std::size_t i = 0; i < slots_.size(); ++i) {
    if (moves_[i] != envs::Move::kReset) continue;
    Slot& slot = slots_[i];
    const Result<envs::TimeStep>& begun = environments_->result(i);
    if (!begun.ok()) {
      break_off(i, begun.error());
      continue;
    }
    TROUPE_TRY(slot.adder->first(environments_->observation(i)));
    rows_->first(static_cast<std::int64_t>(i), environments_->observation(i));
    slot.in_episode = true;
    slot.episode_return = 0;
    slot.episode_steps = 0;
  }
  return {};
}

Status EnvActor::choose_actions() {
  const std::size_t action_bytes = environments_->spec().action.tensor.bytes();
  std::ranges::fill(moves_, envs::Move::kRest);
  std::int64_t left = budget_.left();
  const std::size_t begin = turn_;
  for (std::size_t n = 0; n < slots_.size() && left > 0; ++n) {
    const std::size_t i = (begin + n) % slots_.size();
    if (!slots_[i].in_episode) continue;
    const auto acted = std::span(acted_).subspan(i * acted_bytes_, acted_bytes_);
    TROUPE_TRY(slots_[i].exploration->choose(
        {rows_->inputs(), rows_->outputs(), static_cast<std::int64_t>(i), slots_[i].episode_steps == 0}, acted));
    std::ranges::copy(acted.first(action_bytes), actions_.begin() + static_cast<std::ptrdiff_t>(i * action_bytes));
    moves_[i] = envs::Move::kStep;
    --left;
    turn_ = left > 0 ? begin : (i + 1) % slots_.size();
  }
  return {};
}

Result<bool> EnvActor::take_steps() {
  bool ended = false;
  std::int64_t steps = 0;
  for (std::size_t i = 0; i < slots_.size(); ++i) {
    if (moves_[i] != envs::Move::kStep) continue;
    Slot& slot = slots_[i];
    const Result<envs::TimeStep>& result = environments_->result(i);
    if (!result.ok()) {
      break_off(i, result.error());
      continue;
    }
    const std::span<const std::byte> observation = std::as_const(*environments_).observation(i);
    TROUPE_ASSIGN(const std::int64_t rows,
                  slot.adder->add({std::span(acted_).subspan(i * acted_bytes_, acted_bytes_), result->reward,
                                   result->discount, observation, result->last()},
                                  trajectory_->rows(), trajectory_rows_));
    trajectory_rows_ += rows;
    ++trajectory_steps_;
    ++steps;
    budget_.take();
    slot.episode_return += result->reward;
    ++slot.episode_steps;
    if (result->last()) {
      end_episode(slot);
      ended = true;
    } else {
      rows_->next(static_cast<std::int64_t>(i), observation);
    }
  }
  if (steps > 0) count_use(steps);
  return ended;
}

void EnvActor::break_off(std::size_t slot, const Error& cause) {
  slots_[slot].failed = cause;
  slots_[slot].in_episode = false;  // the next round begins another
}

bool EnvActor::any_failed() const {
  return std::ranges::any_of(slots_, [](const Slot& slot) { return slot.failed.has_value(); });
}

Status EnvActor::tell_failures(RoleContext& context) {
  // What is written is good, and must not be lost should this be the last failure that is borne.
  if (trajectory_steps_ > 0) send_trajectory(context);
  for (Slot& slot : slots_) {
    if (!slot.failed) continue;
    const Error cause = *std::exchange(slot.failed, std::nullopt);
    const std::int64_t unfinished = slot.adder->unfinished();
    dropped_steps_ += unfinished;
    TROUPE_TRY(
        slot.failures.survive(identity_.name(), environments_->spec().name, cause, unfinished, context.clock().now()));
  }
  return {};
}

std::int64_t EnvActor::rows_of_round() const {
  return static_cast<std::int64_t>(slots_.size()) * slots_.front().adder->most_rows();
}

bool EnvActor::room_for_a_round() const { return trajectory_rows_ + rows_of_round() <= rows_at_most(); }

std::int64_t EnvActor::rows_at_most() const {
  // One a step, and all episodes may end in the last round.
  return kStepsPerTrajectory + static_cast<std::int64_t>(slots_.size()) - 1 + rows_of_round();
}

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

void EnvActor::count_use(std::int64_t steps) {
  if (uses_.empty() || uses_.back().version != version_) {
    uses_.push_back({static_cast<std::uint32_t>(identity_.index), version_, 0});
  }
  uses_.back().env_steps += steps;
  if (uses_.size() <= kMostUses) return;
  uses_[0].env_steps += uses_[1].env_steps;
  uses_.erase(uses_.begin() + 1);
}

void EnvActor::end_episode(Slot& slot) {
  slot.in_episode = false;
  ++episodes_;
  finished_.push_back(
      {identity_.role, static_cast<std::uint32_t>(identity_.index), slot.episode_return, slot.episode_steps, version_});
  if (finished_.size() <= kMostEpisodes * slots_.size()) return;
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
  std::int64_t failures = 0;
  for (const Slot& slot : slots_) failures += slot.failures.count();
  // Of all its incarnations; before it knows about earlier ones it has none of its own.
  if (budget_.known()) report.counters.push_back({"steps", static_cast<double>(budget_.taken())});
  report.counters.push_back({"episodes", static_cast<double>(episodes_)});
  report.counters.push_back({"episodes_unreported", static_cast<double>(episodes_unreported_)});
  report.counters.push_back({"env_failures", static_cast<double>(failures)});
  report.counters.push_back({"steps_dropped", static_cast<double>(dropped_steps_)});
  if (version_ >= 0) report.gauges.push_back({"version", static_cast<double>(version_)});
  acting_->report(report);
}

std::vector<std::byte> EnvActor::written_rows() const {
  std::vector<std::byte> written = restored_rows_;
  for (std::size_t c = 0; trajectory_ && c < signature_->size(); ++c) {
    const auto bytes = static_cast<std::size_t>(trajectory_rows_) * (*signature_)[c].bytes();
    const auto column = trajectory_->rows().columns[c].first(bytes);
    written.insert(written.end(), column.begin(), column.end());
  }
  return written;
}

Result<RoleState> EnvActor::save() const {
  RoleState state;
  state.counters = {{"env_steps", budget_.taken()},
                    {"episodes", episodes_},
                    {"sequence", static_cast<std::int64_t>(sequence_)},
                    {"turn", static_cast<std::int64_t>(turn_)},
                    {"trajectory_steps", trajectory_steps_},
                    {"trajectory_rows", trajectory_rows_}};
  state.chunks.push_back(written_rows());
  for (std::size_t i = 0; i < slots_.size(); ++i) {
    const Slot& slot = slots_[i];
    state.counters.push_back({fmt::format("in_episode/{}", i), slot.in_episode});
    state.counters.push_back(
        {fmt::format("episode_return_bits/{}", i), std::bit_cast<std::int64_t>(slot.episode_return)});
    state.counters.push_back({fmt::format("episode_steps/{}", i), slot.episode_steps});
    const auto observation = std::as_const(*environments_).observation(i);
    state.chunks.push_back(std::as_const(*environments_).environment(i).save_state());
    state.chunks.push_back(slot.adder->save_state());
    state.chunks.push_back(slot.exploration->save_state());
    state.chunks.emplace_back(observation.begin(), observation.end());
    state.chunks.push_back(rows_->save_state(static_cast<std::int64_t>(i)));
  }
  return state;
}

Status EnvActor::restore(const RoleState& state) {
  TROUPE_TRY(state.expect_chunks(kChunksOfAll + kChunksOfEach * slots_.size()));
  TROUPE_ASSIGN(const std::int64_t env_steps, state.counter("env_steps"));
  TROUPE_ASSIGN(episodes_, state.counter("episodes"));
  TROUPE_ASSIGN(const std::int64_t sequence, state.counter("sequence"));
  TROUPE_ASSIGN(const std::int64_t turn, state.counter("turn"));
  TROUPE_ASSIGN(trajectory_steps_, state.counter("trajectory_steps"));
  TROUPE_ASSIGN(trajectory_rows_, state.counter("trajectory_rows"));
  const auto& written = state.chunks[0];
  if (trajectory_steps_ < 0 || trajectory_steps_ >= kStepsPerTrajectory || trajectory_rows_ < 0 ||
      trajectory_rows_ > rows_at_most() ||
      written.size() != static_cast<std::size_t>(trajectory_rows_) * row_bytes(*signature_)) {
    return Error{
        Code::kShapeMismatch,
        fmt::format("state has a trajectory of {} steps and {} rows in {} bytes, expected at most {} rows of {}",
                    trajectory_steps_, trajectory_rows_, written.size(), rows_at_most(), row_bytes(*signature_))};
  }
  for (std::size_t i = 0; i < slots_.size(); ++i) {
    Slot& slot = slots_[i];
    const auto* const chunks = &state.chunks[kChunksOfAll + kChunksOfEach * i];
    const auto observation = environments_->observation(i);
    if (chunks[3].size() != observation.size()) {
      return Error{Code::kShapeMismatch, fmt::format("state has an observation of {} bytes, expected {}",
                                                     chunks[3].size(), observation.size())};
    }
    TROUPE_ASSIGN(const std::int64_t in_episode, state.counter(fmt::format("in_episode/{}", i)));
    TROUPE_ASSIGN(const std::int64_t return_bits, state.counter(fmt::format("episode_return_bits/{}", i)));
    TROUPE_ASSIGN(slot.episode_steps, state.counter(fmt::format("episode_steps/{}", i)));
    TROUPE_TRY(environments_->environment(i).restore_state(chunks[0]));
    TROUPE_TRY(slot.adder->restore_state(chunks[1]));
    TROUPE_TRY(slot.exploration->restore_state(chunks[2]));
    std::ranges::copy(chunks[3], observation.begin());
    TROUPE_TRY(rows_->restore_state(static_cast<std::int64_t>(i), observation, chunks[4]));
    slot.in_episode = in_episode != 0;
    slot.episode_return = std::bit_cast<double>(return_bits);
  }
  restored_rows_ = written;
  budget_.restore(env_steps);
  sequence_ = static_cast<std::uint64_t>(sequence);
  turn_ = static_cast<std::size_t>(turn) % slots_.size();
  // The policy itself comes again from the parameter store; until then the actor waits.
  return {};
}

}  // namespace troupe::actors
