#include <troupe/actors/roles/metrics_actor.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fmt/format.h>

#include <cmath>

#include <troupe/tests/actors/fake_context.hpp>

namespace troupe::actors {
namespace {

using testing::FakeContext;

class RowsSink final : public MetricSink {
 public:
  Status write(const MetricRow& row) override {
    rows.push_back(row);
    return result;
  }
  Status record(const Evaluation& evaluation) override {
    evaluations.push_back(evaluation);
    return result;
  }
  Status flush() override { return {}; }

  double scalar(std::size_t row, const std::string& name) const {
    for (const Scalar& scalar : rows.at(row).scalars) {
      if (scalar.name == name) return scalar.value;
    }
    ADD_FAILURE() << "no scalar " << name << " in row " << row;
    return 0;
  }

  std::vector<MetricRow> rows;
  std::vector<Evaluation> evaluations;
  Status result;
};

class MetricsActorTest : public ::testing::Test {
 protected:
  MetricsActor make(std::int64_t actors = 1) {
    return MetricsActor({.sink = &sink,
                         .period = std::chrono::seconds(1),
                         .wall_s = 100,
                         .agents = {{.actor_role = "actor", .learner_role = "learner", .actors = actors}},
                         .evaluators = {{"evaluator", "learner"}, {"gan-evaluator", "gan"}},
                         .kept_roles = {"learner"}});
  }
  void report(const std::string& role, std::int64_t index, double steps, double loss) {
    InstanceReport report{role, index, {{{"steps", steps}}, {{"loss", loss}}, {{"items", 10 * loss}}}};
    context.in("reports").frames.push_back(make_instance_report(context.pool(), report).value());
  }
  void ask_for_steps(std::uint32_t index, std::int64_t taken) {
    context.server("steps").requests.push_back(
        messages::make_steps_request(context.pool(), {index, taken, taken, 16}).value());
  }
  void episode(double episode_return) {
    context.in("episodes")
        .frames.push_back(messages::make_episode(context.pool(), {"actor", 0, episode_return, 1000, 40}).value());
  }
  void evaluation(const std::string& source, std::int64_t version, std::vector<Scalar> values) {
    context.in("evaluations")
        .frames.push_back(messages::make_evaluation(context.pool(), {source, version, std::move(values)}).value());
  }

  RowsSink sink;
  FakeContext context;
};

TEST_F(MetricsActorTest, WhatIsMalformedIsRefusedAndTheOthersAreCounted) {
  MetricsActor metrics = make();
  const std::vector<std::byte> noise(64, std::byte{0x5a});
  for (const char* port : {"reports", "episodes", "evaluations"}) {
    context.in(port).frames.push_back(context.pool().copy(noise).value());
  }
  // Legal metrics that are no report: no role, two instances in one, totals that no counter can have.
  const std::vector<std::vector<Scalar>> wrong = {{{"loss", 1}},
                                                  {{"actor/x/total/steps", 1}},
                                                  {{"actor/0/total/steps", 1}, {"actor/1/total/steps", 1}},
                                                  {{"actor/-1/total/steps", 1}},
                                                  {{"actor/0/total/steps", 1e300}},
                                                  {{"actor/0/total/steps", std::nan("")}}};
  for (const auto& scalars : wrong) {
    context.in("reports").frames.push_back(messages::make_metrics(context.pool(), {0, 0, 0, scalars}).value());
  }
  report("actor", 0, 100, 1);
  report("learner", 0, 7, 5);
  ASSERT_TRUE(metrics.step(context).ok());
  EXPECT_EQ(context.refused.size(), wrong.size() + 3);
  context.manual_clock.advance(std::chrono::seconds(1));
  ASSERT_TRUE(metrics.step(context).ok());
  ASSERT_EQ(sink.rows.size(), 1u);
  EXPECT_EQ(sink.rows[0].env_steps, 100);
}

TEST_F(MetricsActorTest, ReportsWithTensOfThousandsOfNewNamesCostNothingForLong) {
  MetricsActor metrics = make();
  const auto flood = [&](int round, std::size_t names) {
    InstanceReport report{"actor", 1, {}};
    for (std::size_t i = 0; i < names; ++i) {
      report.content.counters.push_back({fmt::format("n{}-{}", round, i), static_cast<double>(i)});
    }
    context.in("reports").frames.push_back(make_instance_report(context.pool(), report).value());
  };
  report("actor", 0, 100, 1);
  report("learner", 0, 7, 5);
  const auto begin = std::chrono::steady_clock::now();
  for (int round = 0; round < 20; ++round) flood(round, 65'536);
  for (int round = 20; round < 40; ++round) flood(round, 1000);
  for (std::int64_t index = 0; index < 100; ++index) report("role-" + std::to_string(index), index, 1, 1);
  ASSERT_TRUE(metrics.step(context).ok());
  context.manual_clock.advance(std::chrono::seconds(1));
  ASSERT_TRUE(metrics.step(context).ok());
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(20));
  EXPECT_GE(context.refused.size(), 36u);
  ASSERT_EQ(sink.rows.size(), 1u);
  EXPECT_LT(sink.rows[0].scalars.size(), 5000u) << "columns of the file";
  report("actor", 0, 200, 1);
  context.manual_clock.advance(std::chrono::seconds(1));
  ASSERT_TRUE(metrics.step(context).ok());
  EXPECT_EQ(sink.rows.back().env_steps, 200) << "who was there before is heard on";
}

TEST_F(MetricsActorTest, SumsCountersAndSumsOverInstancesAndAveragesGauges) {
  MetricsActor metrics = make();
  report("actor", 0, 100, 1);
  report("actor", 1, 50, 3);
  report("learner", 0, 7, 5);
  ASSERT_TRUE(metrics.step(context).ok());
  EXPECT_TRUE(sink.rows.empty());
  context.manual_clock.advance(std::chrono::seconds(1));
  ASSERT_TRUE(metrics.step(context).ok());
  ASSERT_EQ(sink.rows.size(), 1u);
  EXPECT_DOUBLE_EQ(sink.rows[0].wall_s, 101);
  EXPECT_EQ(sink.rows[0].env_steps, 150);
  EXPECT_EQ(sink.rows[0].learner_steps, 7);
  EXPECT_DOUBLE_EQ(sink.scalar(0, "actor/loss"), 2);
  EXPECT_DOUBLE_EQ(sink.scalar(0, "actor/items"), 40);

  report("actor", 1, 150, 3);
  context.manual_clock.advance(std::chrono::seconds(2));
  ASSERT_TRUE(metrics.step(context).ok());
  EXPECT_DOUBLE_EQ(sink.scalar(1, "actor/steps_per_s"), 50);
}

TEST_F(MetricsActorTest, ARestartedInstanceDoesNotTakeTotalsBack) {
  MetricsActor metrics = make();
  report("learner", 0, 1, 0);
  report("actor", 0, 100, 0);
  ASSERT_TRUE(metrics.step(context).ok());
  ask_for_steps(0, 0);  // its next incarnation
  ASSERT_TRUE(metrics.step(context).ok());
  ASSERT_EQ(context.server("steps").answers.size(), 1u);
  EXPECT_EQ(messages::read_steps_grant(context.server("steps").answers[0]).value().taken, 100);
  ask_for_steps(0, 110);
  context.manual_clock.advance(std::chrono::seconds(1));
  ASSERT_TRUE(metrics.step(context).ok());
  EXPECT_EQ(sink.rows[0].env_steps, 110);
}

TEST_F(MetricsActorTest, AMalformedRequestForStepsIsDroppedAndNothingElse) {
  MetricsActor metrics = make();
  context.server("steps").requests.push_back(messages::make_steps_grant(context.pool(), {}).value());
  context.server("steps").requests.push_back(messages::make_steps_request(context.pool(), {1u << 30, 0, 0, 0}).value());
  ask_for_steps(3, 7);
  ASSERT_TRUE(metrics.step(context).ok());
  EXPECT_EQ(context.server("steps").answers.size(), 1u);
}

TEST_F(MetricsActorTest, ARestartedLearnerGoesBackToItsCheckpoint) {
  MetricsActor metrics = make();
  report("learner", 0, 100, 0);
  report("actor", 0, 1, 0);
  ASSERT_TRUE(metrics.step(context).ok());
  context.manual_clock.advance(std::chrono::seconds(1));
  ASSERT_TRUE(metrics.step(context).ok());
  report("learner", 0, 90, 0);
  context.manual_clock.advance(std::chrono::seconds(1));
  ASSERT_TRUE(metrics.step(context).ok());
  EXPECT_EQ(sink.rows[1].learner_steps, 90);
  EXPECT_EQ(sink.scalar(1, "learner/steps_per_s"), 0);
}

TEST_F(MetricsActorTest, EnvStepsOutliveItsOwnRestart) {
  MetricsActor metrics = make();
  report("learner", 0, 1, 0);
  report("actor", 0, 100, 0);
  ask_for_steps(1, 30);
  ASSERT_TRUE(metrics.step(context).ok());

  MetricsActor next = make();
  ASSERT_TRUE(next.restore(metrics.save().value()).ok());
  report("learner", 0, 1, 0);
  report("actor", 1, 40, 0);
  ASSERT_TRUE(next.step(context).ok());
  context.manual_clock.advance(std::chrono::seconds(1));
  ASSERT_TRUE(next.step(context).ok());
  EXPECT_EQ(sink.rows[0].env_steps, 100 + 40);
}

TEST_F(MetricsActorTest, TheFirstRowOfARunThatGoesOnWaitsForAllActorsButNotForEver) {
  MetricsActor before = make();
  report("actor", 0, 40, 0);
  report("actor", 1, 40, 0);
  ASSERT_TRUE(before.step(context).ok());
  const RoleState state = before.save().value();

  // Each actor has done ten steps more than the state had heard of. Nobody else knows that before it says so.
  for (const bool comes : {true, false}) {
    sink.rows.clear();
    MetricsActor after = make(2);
    ASSERT_TRUE(after.restore(state).ok());
    report("learner", 0, 1, 0);
    report("actor", 0, 50, 0);
    ASSERT_TRUE(after.step(context).ok());
    context.manual_clock.advance(std::chrono::seconds(1));
    ASSERT_TRUE(after.step(context).ok());
    EXPECT_TRUE(sink.rows.empty());
    if (comes) report("actor", 1, 50, 0);
    for (int period = 0; sink.rows.empty() && period < 3; ++period) {
      context.manual_clock.advance(std::chrono::seconds(1));
      ASSERT_TRUE(after.step(context).ok());
    }
    ASSERT_EQ(sink.rows.size(), 1u);
    EXPECT_EQ(sink.rows[0].env_steps, comes ? 100 : 90);
  }
}

TEST_F(MetricsActorTest, ANewRunsFirstRowWaitsForNoMoreThanOneActor) {
  MetricsActor metrics = make(2);
  report("learner", 0, 1, 0);
  report("actor", 0, 50, 0);
  ASSERT_TRUE(metrics.step(context).ok());
  context.manual_clock.advance(std::chrono::seconds(1));
  ASSERT_TRUE(metrics.step(context).ok());
  ASSERT_EQ(sink.rows.size(), 1u);
  EXPECT_EQ(sink.rows[0].env_steps, 50);
}

TEST_F(MetricsActorTest, TheFirstRowWaitsForActorsAndLearner) {
  MetricsActor metrics = make();
  report("actor", 0, 100, 0);
  context.manual_clock.advance(std::chrono::seconds(1));
  ASSERT_TRUE(metrics.step(context).ok());
  context.manual_clock.advance(std::chrono::seconds(1));
  ASSERT_TRUE(metrics.step(context).ok());
  EXPECT_TRUE(sink.rows.empty());
}

TEST_F(MetricsActorTest, ARowHasTheMeanReturnOfThePeriodsEpisodes) {
  MetricsActor metrics = make();
  report("actor", 0, 700, 0);
  report("learner", 0, 41, 0);
  episode(500);
  episode(600);
  ASSERT_TRUE(metrics.step(context).ok());
  for (int i = 0; i < 2; ++i) {
    context.manual_clock.advance(std::chrono::seconds(1));
    ASSERT_TRUE(metrics.step(context).ok());
  }
  EXPECT_DOUBLE_EQ(sink.scalar(0, "actor/episode_return"), 550);
  EXPECT_FALSE(find_scalar(sink.rows.at(1).scalars, "actor/episode_return")) << "it is not said again";
}

TEST_F(MetricsActorTest, WhatAPortCountsIsTrafficAndNoScalar) {
  MetricsActor metrics = make();
  report("learner", 0, 1, 0);
  const auto report_port = [&](std::int64_t index, double frames) {
    InstanceReport said{"actor", index, {}};
    said.content.counters = {{"steps", 5},
                             {"frames/out", frames},
                             {"bytes/out", 8 * frames},
                             {"wait_s/out", frames / 4},
                             {"refused/out", 1}};
    said.content.gauges = {{"depth/out", 3}};
    context.in("reports").frames.push_back(make_instance_report(context.pool(), said).value());
  };
  const auto period = [&] {
    ASSERT_TRUE(metrics.step(context).ok());
    context.manual_clock.advance(std::chrono::seconds(1));
    ASSERT_TRUE(metrics.step(context).ok());
  };
  report_port(0, 0);
  report_port(1, 0);
  period();
  EXPECT_TRUE(sink.rows.at(0).ports.empty()) << "there is no rate yet";
  report_port(0, 2);
  report_port(1, 6);
  period();
  const MetricRow& row = sink.rows.at(1);
  ASSERT_EQ(row.ports.size(), 1u);
  EXPECT_EQ(row.ports[0].role, "actor");
  EXPECT_EQ(row.ports[0].port, "out");
  EXPECT_DOUBLE_EQ(row.ports[0].frames_per_s, 8);
  EXPECT_DOUBLE_EQ(row.ports[0].bytes_per_s, 64);
  EXPECT_DOUBLE_EQ(row.ports[0].waiting, 2);
  EXPECT_DOUBLE_EQ(row.ports[0].refused_per_s, 0);
  EXPECT_EQ(row.ports[0].depth, 3);
  for (const Scalar& scalar : row.scalars) EXPECT_EQ(scalar.name.find("out"), std::string::npos) << scalar.name;
}

TEST_F(MetricsActorTest, AnEvaluationIsRecordedOnceSomebodyKnowsHowFarTheRunIsAndThenTaken) {
  MetricsActor metrics = make();
  evaluation("evaluator", 40, {{"return", 20}, {"return_std", 8}});
  ASSERT_TRUE(metrics.step(context).ok());
  EXPECT_TRUE(sink.evaluations.empty());
  EXPECT_EQ(context.in("evaluations").frames.size(), 1u) << "who has sent it still has it";
  report("actor", 0, 700, 0);
  report("learner", 0, 41, 0);
  ASSERT_TRUE(metrics.step(context).ok());
  EXPECT_TRUE(sink.rows.empty()) << "before the period is over";
  ASSERT_EQ(sink.evaluations.size(), 1u);
  EXPECT_EQ(context.in("evaluations").held, 0) << "its credit has gone back";
  const Evaluation& found = sink.evaluations[0];
  EXPECT_EQ(found.source, "evaluator");
  EXPECT_EQ(found.step, 40);
  EXPECT_EQ(found.env_steps, 700);
  EXPECT_DOUBLE_EQ(found.wall_s, 100);
  EXPECT_EQ(find_scalar(found.values, "return"), 20);
  EXPECT_EQ(find_scalar(found.values, "return_std"), 8);
}

TEST_F(MetricsActorTest, AnEvaluationSaysTheStepsOfItsOwnTrainerAlsoWhenVersionsRunAhead) {
  MetricsActor metrics = make();
  report("actor", 0, 700, 0);
  InstanceReport learner{"learner", 0, {{{"steps", 45}}, {{"version", 10'045}}, {}}};
  context.in("reports").frames.push_back(make_instance_report(context.pool(), learner).value());
  evaluation("evaluator", 10'040, {{"return", 1}});
  evaluation("gan-evaluator", 12'000, {{"frechet_distance", 30}});
  ASSERT_TRUE(metrics.step(context).ok());
  ASSERT_EQ(sink.evaluations.size(), 2u);
  EXPECT_EQ(sink.evaluations[0].step, 40);
  EXPECT_EQ(sink.evaluations[1].step, 12'000);
}

TEST_F(MetricsActorTest, AnEvaluationOfNobodyOrWithTooManyNamesIsRefused) {
  MetricsActor metrics = make();
  report("actor", 0, 700, 0);
  report("learner", 0, 41, 0);
  evaluation("actor", 40, {{"return", 1}});
  for (int round = 0; round < 8; ++round) {
    std::vector<Scalar> values;
    for (int i = 0; i < 256; ++i) values.push_back({fmt::format("{}-{}", round, i), 1});
    evaluation("evaluator", 41 + round, values);
  }
  evaluation("evaluator", 60, {{"0-0", 1}});
  ASSERT_TRUE(metrics.step(context).ok());
  EXPECT_EQ(context.refused.size(), 5u);
  ASSERT_EQ(sink.evaluations.size(), 5u) << "1024 names";
  EXPECT_EQ(sink.evaluations.back().step, 60) << "names that are there already";
}

TEST_F(MetricsActorTest, InANewRunEvaluationsWaitForNobody) {
  MetricsActor metrics({.sink = &sink,
                        .agents = {{.actor_role = "actor", .learner_role = "learner"}},
                        .evaluators = {{"evaluator", "learner"}}});
  ask_for_steps(0, 70);
  evaluation("evaluator", 3, {{"return", 1}});
  ASSERT_TRUE(metrics.step(context).ok());
  ASSERT_EQ(sink.evaluations.size(), 1u) << "it may be over before the first report";
  EXPECT_EQ(sink.evaluations[0].step, 3);
  EXPECT_EQ(sink.evaluations[0].env_steps, 70);
}

TEST_F(MetricsActorTest, WithoutAnEnvironmentEvaluationsWaitForNobody) {
  MetricsActor metrics(
      {.sink = &sink, .wall_s = 5, .replica_roles = {"gan"}, .evaluators = {{"gan-evaluator", "gan"}}});
  evaluation("gan-evaluator", 3, {{"loss", 1}});
  ASSERT_TRUE(metrics.step(context).ok());
  EXPECT_EQ(sink.evaluations.size(), 1u);
}

TEST_F(MetricsActorTest, ItsStateSaysHowFarItKnewEveryTrainerToBe) {
  MetricsActor metrics = make();
  report("actor", 0, 700, 0);
  report("learner", 0, 41, 0);
  report("gan", 0, 90, 0);
  ASSERT_TRUE(metrics.step(context).ok());
  const RoleState state = metrics.save().value();
  EXPECT_EQ(state.counter(std::string(kKnownStepsOf) + "learner").value(), 41);
  EXPECT_EQ(state.counter(std::string(kKnownStepsOf) + "gan").value(), 90);
}

TEST_F(MetricsActorTest, ASinkThatFailsEndsTheRole) {
  MetricsActor metrics = make();
  sink.result = Error{Code::kIo, "disk full"};
  report("actor", 0, 700, 0);
  report("learner", 0, 41, 0);
  evaluation("evaluator", 1, {{"return", 1}});
  EXPECT_EQ(metrics.step(context).error().message, "disk full");
  EXPECT_EQ(context.in("evaluations").held, 1) << "it comes again";
}

TEST(InstanceReport, OtherScalarNamesAreRefused) {
  messages::FramePool pool;
  const auto read = [&](const char* name) {
    return read_instance_report(messages::make_metrics(pool, {0, 0, 0, {{name, 1}}}).value());
  };
  EXPECT_EQ(read("actor/12/now/loss")->index, 12);
  for (const char* name :
       {"actor/loss", "actor/1/then/loss", "actor//now/loss", "actor/x/now/loss", "actor/1x/now/loss",
        "actor/-1/now/loss", "actor/ 1/now/loss", "actor/9223372036854775808/now/loss"}) {
    const auto got = read(name);
    ASSERT_FALSE(got.ok()) << name;
    EXPECT_EQ(got.error().code, Code::kInvalidArgument) << name;
  }
}

}  // namespace
}  // namespace troupe::actors
