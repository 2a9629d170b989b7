// The roles of a parameter server: one shard with calls made by hand, and whole runs of a problem with a known optimum,
// most of them in virtual time.
#include <troupe/actors/roles/input_feed.hpp>
#include <troupe/actors/roles/parameter_server.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <map>
#include <mutex>

#include <troupe/actors/control/runtime.hpp>
#include <troupe/actors/roles/ps_actor.hpp>
#include <troupe/actors/roles/ps_worker_actor.hpp>
#include <troupe/actors/runtime/protocol.hpp>
#include <troupe/tests/actors/fake_context.hpp>
#include <troupe/tests/actors/roles/line_parameters.hpp>
#include <troupe/tests/learner/replicate/parameter_server/line.hpp>

namespace troupe::actors {
namespace {

using namespace std::chrono_literals;
using learner::testing::kFeatures;
using learner::testing::kIntercept;
using learner::testing::kSlopes;
using learner::testing::LineReplica;
using messages::GradientOutcome;
using testing::FakeContext;
using ::testing::HasSubstr;

/// Rates at which plain descent still converges with gradients that are three versions old.
ParameterServerOptions line(std::int64_t workers, std::int64_t shards) {
  ParameterServerOptions options;
  options.name = "line";
  options.feed = input_feed([]() -> Result<std::unique_ptr<learner::Replica>> {
    return {std::make_unique<LineReplica>(learner::OptimizerSpec{.rule = learner::Sgd{.learning_rate = 0.1}})};
  });
  options.workers = workers;
  options.batch = 8 * workers;
  options.shards = shards;
  options.updates = 500;
  return options;
}

/// One shard, and what a worker would send to it.
class PsActorTest : public ::testing::Test {
 protected:
  void make(const ParameterServerOptions& chosen) {
    options = chosen;
    role = PsActor::make(options, {options.name + "-ps", 0, options.shards}).value();
    feed = options.feed.make({options.name, 0, options.workers}).value();
    for (std::int64_t w = 0; w < options.workers; ++w) {
      workers.push_back(
          learner::ParameterServerWorker::make(feed->replica(), plan(options, w, 0), options.transfer).value());
    }
  }
  void pull(std::uint32_t worker, std::int64_t at_least) {
    context.server("pull").requests.push_back(
        messages::make_parameters_pull(context.pool(), {worker, at_least, workers[0]->model_hash()}).value());
  }
  void push(std::size_t worker, const Frame& parameters) {
    ASSERT_TRUE(workers[worker]->load(messages::read_parameters(parameters).value()).ok());
    ASSERT_TRUE(workers[worker]->step().ok());
    context.server("push").requests.push_back(workers[worker]->gradients(context.pool())->at(0));
  }
  void step() {
    while (role->step(context).value() == Progress::kMore) {
    }
  }
  std::vector<Frame>& pulled() { return context.server("pull").answers; }
  GradientOutcome outcome(std::size_t index) {
    return messages::read_gradient_answer(context.server("push").answers.at(index))->outcome;
  }
  double counter(const std::string& name) {
    Report report;
    role->report(report);
    for (const Scalar& scalar : report.counters) {
      if (scalar.name == name) return scalar.value;
    }
    ADD_FAILURE() << name;
    return 0;
  }

  ParameterServerOptions options;
  FakeContext context;
  std::unique_ptr<Role> role;
  std::unique_ptr<Feed> feed;
  std::vector<std::unique_ptr<learner::ParameterServerWorker>> workers;
};

TEST_F(PsActorTest, PullsOfOneVersionShareItsOneCopyAndANewVersionComesWithAPush) {
  make(line(2, 1));
  pull(0, 0);
  pull(1, 0);
  step();
  ASSERT_EQ(pulled().size(), 2u);
  EXPECT_EQ(pulled()[0].bytes().data(), pulled()[1].bytes().data());
  pull(1, 1);
  step();
  EXPECT_EQ(pulled().size(), 2u) << "version 1 is not there yet";
  push(0, pulled()[0]);
  pull(0, 0);
  step();
  EXPECT_EQ(outcome(0), GradientOutcome::kApplied);
  ASSERT_EQ(pulled().size(), 4u) << "a pull behind a push sees what was pushed";
  for (std::size_t i : {2, 3}) EXPECT_EQ(messages::read_parameters(pulled()[i])->info().version, 1);
  EXPECT_EQ(counter("applied"), 1);
}

TEST_F(PsActorTest, ANewerPullOfAWorkerTakesThePlaceOfItsOlderOne) {
  make(line(1, 1));
  pull(0, 7);
  pull(0, 0);
  step();
  EXPECT_EQ(pulled().size(), 1u);
  push(0, pulled()[0]);
  step();
  EXPECT_EQ(pulled().size(), 1u) << "nobody waits for the first one's answer any more";
}

TEST_F(PsActorTest, ASynchronousStepEndsWithoutItsStragglersWhenTheirTimeIsUp) {
  ParameterServerOptions synchronous = line(3, 1);
  synchronous.synchronous = true;
  make(synchronous);
  pull(0, 0);
  step();
  push(0, pulled()[0]);
  push(1, pulled()[0]);
  pull(0, 1);
  step();
  EXPECT_EQ(outcome(0), GradientOutcome::kTaken);
  EXPECT_EQ(outcome(1), GradientOutcome::kTaken);
  EXPECT_EQ(pulled().size(), 1u);
  EXPECT_EQ(context.woken_after, options.straggler_timeout);
  EXPECT_THAT(role->waiting_for(), HasSubstr("2 are here"));
  context.manual_clock.advance(options.straggler_timeout);
  step();
  ASSERT_EQ(pulled().size(), 2u);
  EXPECT_EQ(counter("late_steps"), 1);
  EXPECT_EQ(counter("applied"), 2);
  push(2, pulled()[0]);
  step();
  EXPECT_EQ(outcome(2), GradientOutcome::kStale);
}

TEST_F(PsActorTest, WhatIsNotForItIsRefusedAndCounted) {
  make(line(1, 1));
  pull(0, 0);
  step();
  const Frame good = pulled()[0];
  pull(5, 0);
  context.server("pull").requests.push_back(messages::make_parameters_pull(context.pool(), {0, 0, 1}).value());
  context.server("pull").requests.push_back(good);
  push(0, good);
  std::vector<std::byte> bytes(context.server("push").requests[0].bytes().begin(),
                               context.server("push").requests[0].bytes().end());
  const std::uint32_t infinity = 0x7f800000;
  std::memcpy(bytes.data() + bytes.size() - sizeof(infinity), &infinity, sizeof(infinity));
  context.server("push").requests[0] = context.pool().copy(bytes).value();
  step();
  EXPECT_EQ(counter("refused"), 4);
  EXPECT_EQ(counter("applied"), 0);
  EXPECT_EQ(pulled().size(), 1u);
}

TEST(ParameterServerOptionsTest, NonsenseIsNamed) {
  Topology topology;
  const auto error = [&](auto change) {
    ParameterServerOptions options = line(2, 1);
    change(options);
    return add_parameter_server(topology, options).error().message;
  };
  EXPECT_THAT(error([](auto& o) { o.workers = 0; }), HasSubstr("workers is 0"));
  EXPECT_THAT(error([](auto& o) { o.shards = 0; }), HasSubstr("shards is 0"));
  EXPECT_THAT(error([](auto& o) { o.batch = 1; }), HasSubstr("batch is 1"));
  EXPECT_THAT(error([](auto& o) { o.updates = -1; }), HasSubstr("updates is -1"));
  EXPECT_THAT(error([](auto& o) { o.backup_workers = 1; }), HasSubstr("backup_workers is 1"));
  EXPECT_THAT(error([](auto& o) { o.synchronous = true, o.backup_workers = 2; }), HasSubstr("fewer than workers"));
  EXPECT_THAT(error([](auto& o) { o.transfer = DType::kF64; }), HasSubstr("float64"));
  EXPECT_TRUE(topology.roles.empty());
}

/// Runs a parameter server to its end and looks at what it has come to.
struct Training {
  explicit Training(const ParameterServerOptions& chosen) : options(chosen) {
    const Status added = add_parameter_server(topology, options);
    EXPECT_TRUE(added.ok()) << added.error().message;
    role(options.name).completes_run = true;
  }
  RoleSpec& role(const std::string& name) { return *std::ranges::find(topology.roles, name, &RoleSpec::name); }

  /// The parameters at the end, in the model's flat space.
  std::vector<float> run(RuntimeOptions runtime_options) {
    runtime_options.seed = 1;
    runtime_options.write_cut = [this](const std::shared_ptr<const Cut>& cut) -> Status {
      const std::lock_guard lock(mutex);
      for (const Cut::Instance& instance : cut->instances) states[instance.name] = instance.state->role;
      ++cuts;
      return {};
    };
    auto runtime = Runtime::make(topology, std::move(runtime_options)).value();
    const auto until = std::chrono::steady_clock::now() + 60s;
    const auto ended = runtime->run([&] { return std::chrono::steady_clock::now() > until; });
    EXPECT_TRUE(ended.ok()) << ended.error().message;
    if (!ended.ok()) return {};
    EXPECT_EQ(*ended, Runtime::Ended::kComplete);
    const auto saved = runtime->checkpoint();
    EXPECT_TRUE(saved.ok()) << saved.error().message;
    runtime->stop();
    return flat();
  }
  std::vector<float> flat() {
    const auto feed = options.feed.make({options.name, 0, 1}).value();
    const learner::ServedReplica served = learner::build_served(feed->replica(), plan(options, 0, 0)).value();
    std::vector<float> values(static_cast<std::size_t>(served.model->elements));
    for (std::size_t s = 0; s < served.plans.size(); ++s) {
      const RoleIdentity identity{options.name + "-ps", static_cast<std::int64_t>(s), options.shards};
      const RoleState& state = states.at(identity.name());
      EXPECT_GE(state.counter("steps").value(), options.updates);
      const auto tensor = std::ranges::find(state.tensors, "line", &StateTensor::name);
      const float* from = reinterpret_cast<const float*>(tensor->bytes.data());
      for (const messages::ParametersRange& range : served.plans[s].piece.ranges) {
        std::copy_n(from, range.count, values.begin() + range.offset);
        from += range.count;
      }
    }
    return values;
  }
  static void expect_optimum(std::span<const float> values, double tolerance = 1e-3) {
    ASSERT_EQ(values.size(), 32u);
    // Without noise descent ends at the optimum itself; 500 steps shrink the error by e^-30.
    for (std::size_t i = 0; i < kFeatures; ++i) EXPECT_NEAR(values[i], kSlopes[i], tolerance) << i;
    EXPECT_NEAR(values[16], kIntercept, tolerance);
  }

  ParameterServerOptions options;
  Topology topology;
  std::mutex mutex;
  std::map<std::string, RoleState> states;
  std::atomic<int> cuts = 0;
};

class Sizes : public ::testing::TestWithParam<std::tuple<std::int64_t, std::int64_t, bool>> {};
INSTANTIATE_TEST_SUITE_P(ParameterServer, Sizes,
                         ::testing::Combine(::testing::Values(1, 2, 4), ::testing::Values(1, 2, 3), ::testing::Bool()));

TEST_P(Sizes, ReachTheOptimum) {
  ParameterServerOptions options = line(std::get<0>(GetParam()), std::get<1>(GetParam()));
  options.synchronous = std::get<2>(GetParam());
  options.backup_workers = options.synchronous && options.workers == 4 ? 1 : 0;
  Training training(options);
  Training::expect_optimum(training.run({.deterministic = true}));
}

TEST(ParameterServer, SynchronousStepsAreTheSameHoweverManyShardsThereAre) {
  std::vector<float> first;
  for (const std::int64_t shards : {1, 2, 3}) {
    ParameterServerOptions options = line(3, shards);
    options.synchronous = true;
    options.updates = 20;
    Training training(options);
    const auto values = training.run({.deterministic = true});
    if (first.empty()) first = values;
    for (std::size_t i = 0; i < values.size(); ++i) {
      // The last lanes of a part go through another loop of the kernel, in which other products may be fused.
      EXPECT_NEAR(values[i], first[i], 1e-6) << i;
    }
  }
}

TEST(ParameterServer, HalfTheBytesReachTheOptimumNearly) {
  ParameterServerOptions options = line(2, 2);
  options.transfer = DType::kBF16;
  Training training(options);
  // Gradients are taken at parameters with 8 bits, so the last of them point to what rounds to the optimum.
  Training::expect_optimum(training.run({.deterministic = true}), 0.02);
}

/// Counts what it is given, and knows whether the last was of the end.
class EvaluatingServed final : public Role {
 public:
  EvaluatingServed(std::int64_t last, std::atomic<int>& seen) : last_(last), seen_(seen) {}
  Result<Progress> step(RoleContext& context) override {
    Inlet& parameters = context.in("parameters");
    if (parameters.empty()) return Progress::kIdle;
    TROUPE_ASSIGN(const auto view, messages::read_parameters(parameters.take()));
    ++seen_;
    return view.info().version >= last_ ? Progress::kDone : Progress::kMore;
  }

 private:
  std::int64_t last_;
  std::atomic<int>& seen_;
};

TEST(ParameterServer, WorkersHandOnWhatIsToBeEvaluatedAndTheEndForSure) {
  ParameterServerOptions options = line(2, 2);
  options.publication =
      step_publication([]() -> Result<MakeParametersFrame> { return {testing::line_parameters}; }, 100);
  Training training(options);
  std::atomic<int> seen = 0;
  training.role("line").completes_run = false;
  training.topology.roles.push_back({.name = "evaluator",
                                     .inlets = {{"parameters", "Parameters", ChannelKind::kLatest}},
                                     .make = [&](const RoleIdentity&) -> Result<std::unique_ptr<Role>> {
                                       return {std::make_unique<EvaluatingServed>(options.updates, seen)};
                                     },
                                     .completes_run = true});
  training.topology.channels.push_back({"line", "parameters", "evaluator", "parameters", 1});
  Training::expect_optimum(training.run({.deterministic = true}));
  // At the start, after each 100 of 500 updates, and the end once or twice.
  EXPECT_GE(seen, 6);
  EXPECT_LE(seen, 8);
}

TEST(ParameterServer, ThreadsReachTheOptimum) {
  for (const bool synchronous : {false, true}) {
    ParameterServerOptions options = line(2, 2);
    options.synchronous = synchronous;
    Training training(options);
    Training::expect_optimum(training.run({}));
  }
}

/// Fails when told to.
class Breaking final : public Role {
 public:
  Breaking(std::unique_ptr<Role> inner, std::function<bool()> fails, std::function<void(const RoleState&)> restored)
      : inner_(std::move(inner)), fails_(std::move(fails)), restored_(std::move(restored)) {}
  Result<Progress> step(RoleContext& context) override {
    if (fails_()) return Error{Code::kInternal, "told to fail"};
    return inner_->step(context);
  }
  Result<RoleState> save() const override { return inner_->save(); }
  Status restore(const RoleState& state) override {
    restored_(state);
    return inner_->restore(state);
  }

 private:
  std::unique_ptr<Role> inner_;
  std::function<bool()> fails_;
  std::function<void(const RoleState&)> restored_;
};

TEST(ParameterServer, AWorkerThatDiesIsMissingUntilItIsBack) {
  for (const bool synchronous : {false, true}) {
    ParameterServerOptions options = line(3, 2);
    options.synchronous = synchronous;
    Training training(options);
    std::atomic<int> incarnations = 0;
    RoleSpec& workers = training.role("line");
    workers.make = [make = workers.make, &incarnations](const RoleIdentity& identity) -> Result<std::unique_ptr<Role>> {
      TROUPE_ASSIGN(auto inner, make(identity));
      if (identity.index == 1) ++incarnations;
      const bool breaks = identity.index == 1 && identity.incarnation == 0;
      auto fails = [breaks, steps = 0]() mutable { return breaks && ++steps == 50; };
      return {std::make_unique<Breaking>(std::move(inner), fails, [](const RoleState&) {})};
    };
    Training::expect_optimum(training.run({.deterministic = true}));
    EXPECT_EQ(incarnations, 2);
  }
}

TEST(ParameterServer, SynchronousStepsGoOnWithoutAWorkerThatNeverComesBack) {
  ParameterServerOptions options = line(3, 2);
  options.synchronous = true;
  Training training(options);
  RoleSpec& workers = training.role("line");
  workers.make = [make = workers.make](const RoleIdentity& identity) -> Result<std::unique_ptr<Role>> {
    TROUPE_ASSIGN(auto inner, make(identity));
    auto fails = [breaks = identity.index == 2, steps = 0]() mutable { return breaks && ++steps == 20; };
    return {std::make_unique<Breaking>(std::move(inner), fails, [](const RoleState&) {})};
  };
  Training::expect_optimum(training.run({.deterministic = true}));
}

TEST(ParameterServer, AShardThatDiesComesBackFromTheLastCutAndWorkersGoOn) {
  for (const bool synchronous : {false, true}) {
    ParameterServerOptions options = line(2, 2);
    options.synchronous = synchronous;
    options.updates = 3000;
    Training training(options);
    std::atomic<std::int64_t> restored_version = -1;
    RoleSpec& shards = training.role("line-ps");
    shards.make = [&, make = shards.make](const RoleIdentity& identity) -> Result<std::unique_ptr<Role>> {
      TROUPE_ASSIGN(auto inner, make(identity));
      const bool breaks = identity.index == 1 && identity.incarnation == 0;
      return {std::make_unique<Breaking>(
          std::move(inner), [&, breaks] { return breaks && training.cuts >= 2; },
          [&, index = identity.index](const RoleState& state) {
            if (index == 1) restored_version = state.counter("steps").value();
          })};
    };
    Training::expect_optimum(training.run({.checkpoint_period = 10ms}));
    EXPECT_GT(restored_version, 0);
    EXPECT_LT(restored_version, 3000);
  }
}

}  // namespace
}  // namespace troupe::actors
