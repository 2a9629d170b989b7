// max_env_steps is a total of the run: whoever is killed, comes, goes, waits or is given up, all env actors together
// take that many. The account by itself, an env actor's side of it, and runs in virtual time whose faults follow from a
// seed: what counts there is what replay was given.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <tuple>

#include <troupe/actors/control/runtime.hpp>
#include <troupe/actors/roles/env_actor.hpp>
#include <troupe/actors/roles/metrics_actor.hpp>
#include <troupe/actors/roles/step_account.hpp>
#include <troupe/actors/roles/step_budget.hpp>
#include <troupe/core/log.hpp>
#include <troupe/core/rng.hpp>
#include <troupe/messages/trajectory.hpp>
#include <troupe/replay/n_step_adder.hpp>
#include <troupe/tests/actors/fake_context.hpp>
#include <troupe/tests/actors/recording_sink.hpp>
#include <troupe/tests/actors/simulation.hpp>

namespace troupe::actors {
namespace {

using messages::StepsGrant;
using messages::StepsRequest;
using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::Simulation;
using testing::SimulationOptions;

// ---- the account ----

class StepAccountTest : public ::testing::Test {
 protected:
  StepsGrant ask(StepAccount& account, std::uint32_t index, std::int64_t taken, std::int64_t allowed = 0,
                 std::int64_t wanted = 1'000'000) {
    const auto alive = [this](std::int64_t actor) { return !gone.contains(actor); };
    return account.grant({index, taken, allowed, wanted}, alive, now).value();
  }
  std::set<std::int64_t> gone;
  Duration now{};
};

TEST_F(StepAccountTest, GivesPartsThatNeverAddUpToMoreThanTheLimit) {
  for (const std::int64_t limit : {1, 2, 15, 16, 17, 1000, 100'000}) {
    StepAccount account(limit, 3);
    std::array<StepsGrant, 3> known;
    Rng rng(static_cast<std::uint64_t>(limit));
    for (int rounds = 0; !std::ranges::all_of(known, &StepsGrant::over); ++rounds) {
      ASSERT_LT(rounds, 1000) << limit;
      const auto i = static_cast<std::uint32_t>(rng.below(3));
      StepsGrant& own = known[i];
      own = ask(account, i, own.allowed, own.allowed);
      EXPECT_LE(known[0].allowed + known[1].allowed + known[2].allowed, limit);
    }
    EXPECT_EQ(account.taken(), limit);
  }
}

TEST_F(StepAccountTest, GivesNoMoreThanIsWanted) {
  StepAccount account(100'000, 1);
  EXPECT_EQ(ask(account, 0, 0, 0, 64).allowed, 64);
  EXPECT_EQ(ask(account, 0, 10, 64, 64).allowed, 74);
}

TEST_F(StepAccountTest, WhatAGoneActorHadLeftGoesToTheOthers) {
  StepAccount account(100, 2);
  StepsGrant first = ask(account, 0, 0);
  EXPECT_GT(first.allowed, 0);
  StepsGrant second = ask(account, 1, 0);
  for (int i = 0; i < 20; ++i) second = ask(account, 1, second.allowed, second.allowed);
  EXPECT_EQ(second.allowed + first.allowed, 100);
  EXPECT_FALSE(second.over) << "the first has not taken its part yet";
  gone.insert(0);
  for (int i = 0; i < 20; ++i) second = ask(account, 1, second.allowed, second.allowed);
  EXPECT_EQ(second.allowed, 100);
  EXPECT_TRUE(second.over);
}

TEST_F(StepAccountTest, ANewIncarnationGoesOnWhereTheLastWas) {
  StepAccount account(1000, 1);
  ask(account, 0, 70, 200);
  EXPECT_EQ(ask(account, 0, 0).taken, 70);
  EXPECT_EQ(account.taken(), 70);
}

TEST_F(StepAccountTest, WithoutALimitItOnlyCounts) {
  StepAccount account(0, 1);
  const StepsGrant grant = ask(account, 0, 123, 0, 64);
  EXPECT_EQ(grant.allowed, messages::kMostSteps);
  EXPECT_FALSE(grant.over);
  EXPECT_EQ(account.taken(), 123);
}

TEST_F(StepAccountTest, RestoredItGrantsNothingNewBeforeItKnowsHowFarAllAre) {
  std::vector<messages::Counter> saved;
  StepAccount before(1000, 2);
  ask(before, 0, 300, 350);
  ask(before, 1, 300, 350);
  before.save("", saved);

  StepAccount account(1000, 2);
  account.restore("", saved);
  EXPECT_EQ(account.taken(), 600);
  EXPECT_EQ(ask(account, 0, 480, 500).allowed, 500);
  EXPECT_EQ(ask(account, 1, 495, 500).allowed, 500) << "500 + 500: there is nothing left";

  StepAccount alone(1000, 2);  // the other never comes
  alone.restore("", saved);
  EXPECT_EQ(ask(alone, 0, 300).allowed, 0);
  now += seconds(4);
  gone.insert(1);
  EXPECT_GT(ask(alone, 0, 300).allowed, 300);
}

TEST_F(StepAccountTest, NewInARunThatGoesOnItGrantsNothingNewEither) {
  StepAccount account(1000, 2);  // its predecessor died before the first checkpoint
  EXPECT_EQ(ask(account, 0, 480, 500).allowed, 500);
  EXPECT_LE(ask(account, 1, 470, 490).allowed, 500) << "500 + 500";
}

TEST_F(StepAccountTest, AddsUpWhatAnOlderCheckpointHasApart) {
  StepAccount account(0, 1);
  account.restore("", {{"steps/0", 30}, {"steps_before/0", 100}, {"steps/12", 5}, {"steps/x", 1000}, {"rows", 7}});
  EXPECT_EQ(account.taken(), 135);
}

TEST_F(StepAccountTest, AnEnvActorThatCannotBeIsRefused) {
  StepAccount account(0, 1);
  const auto refused = account.grant({.producer = 1u << 20}, [](std::int64_t) { return true; }, {});
  EXPECT_EQ(refused.error().code, Code::kInvalidArgument);
}

TEST(TotalEnvSteps, AreThoseOfItsActorsAndOfTheAccountWhoeverKnowsMore) {
  const std::vector<messages::Counter> one{{"actor/env_steps", 7}};
  EXPECT_EQ(total_env_steps(one, "", "actor", "metrics"), 7);
  const std::vector<messages::Counter> many{
      {"actor-0/env_steps", 7}, {"actor-12/env_steps", 5}, {"actor-x/env_steps", 9}, {"learner/env_steps", 1000},
      {"metrics/steps/0", 6},   {"metrics/steps/3", 40},   {"metrics/steps/12", 8},  {"other/steps/0", 1000}};
  EXPECT_EQ(total_env_steps(many, "", "actor", "metrics"), 7 + 40 + 8);
  const std::vector<messages::Counter> named{{"alice-actor-1/env_steps", 7},
                                             {"metrics/alice/steps/1", 9},
                                             {"metrics/bob/steps/1", 1000},
                                             {"metrics/steps/1", 1000}};
  EXPECT_EQ(total_env_steps(named, "alice", "alice-actor", "metrics"), 9);
}

// ---- an env actor's side ----

class StepBudgetTest : public ::testing::Test {
 protected:
  StepBudgetTest() : budget({"actor", 0, 1, 0, 7}) {}
  testing::FakeCaller& account() { return context.caller("steps"); }
  void answer(std::int64_t taken, std::int64_t allowed, bool over = false) {
    ASSERT_FALSE(account().calls.empty());
    account().finish(messages::make_steps_grant(context.pool(), {taken, allowed, over}).value());
  }
  testing::FakeContext context;
  StepBudget budget;
};

TEST_F(StepBudgetTest, NoStepBeforeTheFirstAnswerWhichKnowsOfEarlierIncarnations) {
  ASSERT_TRUE(budget.refresh(context).ok());
  EXPECT_FALSE(budget.may_step());
  EXPECT_THAT(budget.waiting_for(), ::testing::HasSubstr("account"));
  answer(500, 564);
  EXPECT_TRUE(budget.may_step());
  EXPECT_EQ(budget.taken(), 500);
}

TEST_F(StepBudgetTest, GoesOnForTenSecondsWhenNobodyAnswers) {
  ASSERT_TRUE(budget.refresh(context).ok());
  answer(0, 64);
  std::int64_t wanted = 0;
  for (int i = 0; i < 200; ++i) {  // 100 steps a second, everything wanted is given
    context.manual_clock.advance(milliseconds(10));
    ASSERT_TRUE(budget.may_step()) << i;
    budget.take();
    ASSERT_TRUE(budget.refresh(context).ok());
    if (account().calls.empty()) continue;
    const auto request = messages::read_steps_request(account().calls.front().request).value();
    wanted = request.wanted;
    answer(request.taken, request.taken + request.wanted);
  }
  EXPECT_NEAR(static_cast<double>(wanted), 1000, 20);
  int more = 0;
  for (; budget.may_step(); ++more) {
    context.manual_clock.advance(milliseconds(10));
    budget.take();
    ASSERT_TRUE(budget.refresh(context).ok());
    if (!account().calls.empty()) account().finish(Error{Code::kUnavailable, "the chief is gone"});
  }
  EXPECT_NEAR(more, 1000, 50);
  EXPECT_FALSE(budget.over());
}

TEST_F(StepBudgetTest, WithoutStepsItAsksAgainUntilThereAreSomeOrTheRunHasHadThem) {
  ASSERT_TRUE(budget.refresh(context).ok());
  answer(0, 1);
  budget.take();
  for (int i = 0; i < 3; ++i) {
    while (account().calls.empty()) {
      ASSERT_TRUE(budget.refresh(context).ok());
      if (account().calls.empty()) context.manual_clock.advance(context.woken_after);
    }
    answer(1, i == 1 ? 2 : 1, i == 2);
    if (i == 1) budget.take();
  }
  EXPECT_TRUE(budget.over());
}

// ---- whole runs in virtual time ----

/// Episodes of 30 steps of one observed zero.
class Zeros final : public envs::Environment {
 public:
  Zeros() {
    spec_.name = "zeros";
    spec_.observation = {{"x", DType::kF32, {1}}};
    spec_.action = envs::ActionSpec::continuous({-1}, {1}, DType::kF32);
    spec_.episode_steps = 30;
  }
  const envs::EnvSpec& spec() const override { return spec_; }
  Result<envs::TimeStep> reset(std::uint64_t, std::span<std::byte> observation) override { return reset(observation); }
  Result<envs::TimeStep> reset(std::span<std::byte> observation) override {
    step_ = 0;
    std::ranges::fill(observation, std::byte{0});
    return envs::TimeStep{};
  }
  Result<envs::TimeStep> step(std::span<const std::byte>, std::span<std::byte> observation) override {
    std::ranges::fill(observation, std::byte{0});
    return envs::TimeStep{++step_ == 30 ? envs::StepType::kLast : envs::StepType::kMid, 1, 1};
  }
  std::vector<std::byte> save_state() const override { return {static_cast<std::byte>(step_)}; }
  Status restore_state(std::span<const std::byte> state) override {
    step_ = std::to_integer<int>(state[0]);
    return {};
  }
  Status render(const envs::RenderOptions&, std::span<std::uint8_t>) override {
    return Error{Code::kUnavailable, "nothing to see"};
  }

 private:
  envs::EnvSpec spec_;
  int step_ = 0;
};

/// One action each `period`. It fails at every step from `fails_at` on.
class Paced final : public Acting {
 public:
  Paced(Duration period, int fails_at) : period_(period), fails_at_(fails_at) {}
  Status refresh(RoleContext&) override { return {}; }
  Result<std::optional<std::int64_t>> act(RoleContext& context, const BatchView&,
                                          const MutableBatchView& outputs) override {
    const Duration now = context.clock().now();
    if (now < next_) {
      context.wake_after(next_ - now);
      return std::optional<std::int64_t>();
    }
    if (++acts_ >= fails_at_) return Error{Code::kInternal, "it broke"};
    next_ = std::max(next_, now - period_) + period_;
    std::ranges::fill(outputs.as<float>(0), 0.0f);
    return std::optional<std::int64_t>(0);
  }
  std::string waiting_for() const override { return ""; }
  void report(Report&) const override {}

 private:
  Duration period_;
  int fails_at_;
  int acts_ = 0;
  Duration next_{};
};

/// What came to replay, told apart by who sent it.
struct Delivered {
  std::set<std::tuple<std::uint32_t, std::uint32_t, std::uint64_t>> trajectories;
  std::map<std::uint32_t, std::int64_t> by_actor;
  std::int64_t steps = 0;
};

class Taker final : public Role {
 public:
  explicit Taker(std::shared_ptr<Delivered> delivered) : delivered_(std::move(delivered)) {}
  Result<Progress> step(RoleContext& context) override {
    for (Inlet& inlet = context.in("trajectories"); !inlet.empty();) {
      const auto info = messages::read_trajectory(inlet.take()).value().info();
      if (!delivered_->trajectories.emplace(info.producer, info.incarnation, info.sequence).second) continue;
      delivered_->steps += info.env_steps;
      delivered_->by_actor[info.producer] += info.env_steps;
    }
    while (!context.in("use").empty()) context.in("use").take();
    return Progress::kIdle;
  }

 private:
  std::shared_ptr<Delivered> delivered_;
};

class StepsOfARun : public ::testing::Test {
 protected:
  StepsOfARun() { log::set_level(log::Level::kOff); }

  /// fails: which env actor breaks at once in each incarnation.
  Topology make_topology(std::int64_t limit, std::int64_t actors, std::int64_t fails = -1,
                         std::int64_t environments = 1) {
    delivered = std::make_shared<Delivered>();
    EnvActorOptions options;
    options.make_environment = [](std::uint64_t) -> Result<std::unique_ptr<envs::Environment>> {
      return {std::make_unique<Zeros>()};
    };
    options.exploration = acting::no_exploration({"action", DType::kF32, {1}});
    options.adder = replay::n_step_adders(1, 0.99);
    options.environments = environments;
    options.acting.columns = {{{"x", DType::kF32, {1}}}, {{"action", DType::kF32, {1}}}};
    options.acting.make = [fails](const RoleIdentity& identity, std::int64_t) -> Result<std::unique_ptr<Acting>> {
      // Some are quicker than others.
      const Duration period = milliseconds(2 + 2 * (identity.index % 3));
      return {std::make_unique<Paced>(period, identity.index == fails ? 40 : 1 << 30)};
    };
    RoleSpec actor = EnvActor::spec("actor", actors, options);
    actor.restart = {.max_restarts = 3, .quarantine = true};
    actor.completes_run = true;
    RoleSpec taker;
    taker.name = "taker";
    taker.inlets = {{"trajectories", "Trajectory"}, {.name = "use", .type = "ParametersUse", .always_drained = true}};
    taker.make = [taken = delivered](const RoleIdentity&) -> Result<std::unique_ptr<Role>> {
      return {std::make_unique<Taker>(taken)};
    };
    taker.restart.max_restarts = 1000;
    RoleSpec metrics = MetricsActor::spec(
        "metrics",
        {.sink = &sink,
         .agents = {{.actor_role = "actor", .learner_role = "taker", .actors = actors, .max_env_steps = limit}}});
    metrics.restart = {.max_restarts = 1000, .from = RestartFrom::kLastCut};
    Topology topology;
    topology.roles = {actor, taker, metrics};
    topology.channels = {{"actor", "trajectories", "taker", "trajectories", 4},
                         {"actor", "use", "taker", "use", 4},
                         {"actor", "episodes", "metrics", "episodes", 4},
                         {"actor", "steps", "metrics", "steps", 1}};
    topology.reports = PortName{"metrics", "reports"};
    return topology;
  }

  std::shared_ptr<Delivered> delivered;
  testing::RecordingSink sink;
};

TEST_F(StepsOfARun, AreExactWithoutFaultsAndTheQuickOnesTakeMore) {
  for (const std::int64_t limit : {1, 3, 40, 4000}) {
    auto runtime = Runtime::make(make_topology(limit, 3), {.seed = 1, .deterministic = true}).value();
    EXPECT_EQ(runtime->run([] { return false; }).value(), Runtime::Ended::kComplete);
    runtime->stop();
    EXPECT_EQ(delivered->steps, limit);
  }
  EXPECT_GT(delivered->by_actor[0], delivered->by_actor[2] * 3 / 2);
}

TEST_F(StepsOfARun, AreExactWithSeveralEnvironmentsAnEnvActor) {
  for (const std::int64_t limit : {1, 7, 40, 4001}) {
    auto runtime = Runtime::make(make_topology(limit, 3, -1, 8), {.seed = 1, .deterministic = true}).value();
    EXPECT_EQ(runtime->run([] { return false; }).value(), Runtime::Ended::kComplete);
    runtime->stop();
    EXPECT_EQ(delivered->steps, limit);
  }
}

TEST_F(StepsOfARun, OfOneThatIsGivenUpAreTakenByTheOthers) {
  auto runtime = Runtime::make(make_topology(2000, 2, 1), {.seed = 1, .deterministic = true}).value();
  EXPECT_EQ(runtime->run([] { return false; }).value(), Runtime::Ended::kComplete);
  runtime->stop();
  // It took up to 39 steps in each of its four incarnations, of which it may not have told or sent the last.
  EXPECT_NEAR(static_cast<double>(delivered->steps), 2000, 4 * 39);
  EXPECT_LE(delivered->by_actor[1], 4 * 39);
}

/// Over nodes, in whose processes anything may be killed.
class StepsOverNodes : public StepsOfARun, public ::testing::WithParamInterface<std::uint64_t> {
 protected:
  static constexpr std::int64_t kLimit = 6000;
  static constexpr std::int64_t kActors = 3;
  /// What one env actor may have done and not told, or told and not sent, when it is gone: 0.1 s of 2 ms each, the time
  /// that a message needs, and a trajectory.
  static constexpr std::int64_t kSlack = 50 + 10 + 16;

  void start(std::uint64_t seed) {
    topology = make_topology(kLimit, kActors);
    for (RoleSpec& role : topology.roles) {
      role.restart.max_restarts = 1000;
      role.elastic = role.name == "actor";
    }
    options.seed = seed;
    options.topology = &topology;
    options.placement = {{kChiefNode, {{"metrics", {0}}}}, {"taker", {{"taker", {0}}}}};
    for (std::uint32_t i = 0; i < kActors; ++i) options.placement.push_back({fmt::format("n{}", i), {{"actor", {i}}}});
    simulation.emplace(options, testing::SimulatedDisk{});
    for (const PlacedNode& node : options.placement) simulation->start(node.name);
  }
  void run_to_its_end() {
    for (Duration until = simulation->now(); !simulation->ended() && until < seconds(60); until += seconds(1)) {
      simulation->run_until(until);
    }
    ASSERT_TRUE(simulation->ended()) << simulation->describe();
    EXPECT_FALSE(simulation->ended()->error);
  }

  Topology topology;
  SimulationOptions options;
  std::optional<Simulation> simulation;
};

TEST_P(StepsOverNodes, StayTheRunsWhateverIsKilledAndWhoeverComes) {
  start(GetParam());
  Rng rng(derive_seed(GetParam(), "faults", 0));
  std::int64_t gone = 0;
  // An account that is lost knows of those that died before it what the last checkpoint has of them.
  std::int64_t committed = 0, forgotten = 0;
  simulation->on_commit = [&](const auto&) { committed = delivered->steps; };
  for (Duration at = milliseconds(700); at < milliseconds(6000); at += milliseconds(150 + 50 * rng.below(8))) {
    const std::uint64_t what = rng.below(8);
    const std::string node = fmt::format("n{}", rng.below(kActors));
    const Duration pause = milliseconds(20 + 10 * rng.below(100));
    simulation->at(at, [this, what, node, pause, &gone, &committed, &forgotten] {
      if (what < 5) {
        ++gone;
        simulation->kill(node, pause);
      } else if (what == 5) {
        forgotten += delivered->steps - committed + kSlack;
        simulation->kill(kChiefNode, pause);
      } else if (simulation->alive("e0") == 0) {
        simulation->start("e0");
      } else {
        ++gone;
        simulation->leave("e0");
      }
    });
  }
  run_to_its_end();
  EXPECT_GT(gone, 3);
  EXPECT_NEAR(static_cast<double>(delivered->steps), static_cast<double>(kLimit),
              static_cast<double>(gone * kSlack + forgotten));
  RecordProperty("off", static_cast<int>(delivered->steps - kLimit));
}
INSTANTIATE_TEST_SUITE_P(Seeds, StepsOverNodes, ::testing::Range<std::uint64_t>(1, 13));

TEST_F(StepsOverNodes, AreExactWhenOnlyTheChiefIsKilled) {
  start(99);
  for (int i = 0; i < 4; ++i) {
    simulation->at(milliseconds(1500 + 1200 * i), [this] { simulation->kill(kChiefNode, milliseconds(400)); });
  }
  run_to_its_end();
  EXPECT_EQ(delivered->steps, kLimit);
}

TEST_F(StepsOverNodes, DoNotBeginAnewWhenAnActorThatIsDoneIsKilled) {
  start(7);
  for (RoleSpec& role : topology.roles) role.completes_run = role.name == "taker";
  simulation->run_until(seconds(14));
  ASSERT_EQ(delivered->steps, kLimit);
  for (const char* node : {"n0", "n1", "n2", "n0"}) {
    simulation->kill(node, milliseconds(100));
    simulation->run_until(simulation->now() + seconds(2));
  }
  simulation->start("e0");
  simulation->run_until(simulation->now() + seconds(2));
  EXPECT_EQ(delivered->steps, kLimit);
}

}  // namespace
}  // namespace troupe::actors
