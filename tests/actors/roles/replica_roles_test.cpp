// The roles of a replica group by hand: steps, what is published, what is kept over a restart, how it is evaluated.
#include <troupe/actors/roles/trainer.hpp>

#include <gtest/gtest.h>

#include <troupe/actors/roles/evaluation_publication.hpp>
#include <troupe/actors/roles/evaluator.hpp>
#include <troupe/actors/roles/input_feed.hpp>
#include <troupe/actors/roles/replica_results.hpp>
#include <troupe/messages/parameters.hpp>
#include <troupe/messages/reports.hpp>
#include <troupe/tests/actors/fake_context.hpp>
#include <troupe/tests/actors/small_replica.hpp>

namespace troupe::actors {
namespace {

using testing::FakeContext;
using testing::line_model;

TrainerOptions line(std::int64_t steps, const ReplicaModel& model = line_model()) {
  return {.feed = input_feed(model.make),
          .publication = evaluation_publication(model, 4),
          .how = {.global_batch = 8},
          .max_steps = steps};
}

std::unique_ptr<Role> make(const TrainerOptions& options) {
  auto role = Trainer::make(options, {.role = "line"});
  EXPECT_TRUE(role.ok()) << role.error().message;
  return std::move(role).value();
}

/// Calls step() until it is done; returns how often.
int run(Role& role, FakeContext& context, int limit = 1000) {
  for (int calls = 1; calls <= limit; ++calls) {
    const auto progress = role.step(context);
    EXPECT_TRUE(progress.ok()) << progress.error().message;
    if (!progress.ok() || *progress == Progress::kDone) return calls;
  }
  return limit;
}

std::vector<std::int64_t> versions(FakeContext& context) {
  std::vector<std::int64_t> all;
  for (const Frame& frame : context.out("parameters").sent) {
    all.push_back(messages::read_parameters(frame).value().info().version);
  }
  return all;
}

std::vector<messages::EvaluationReport> evaluations(FakeContext& context) {
  std::vector<messages::EvaluationReport> all;
  for (const Frame& frame : context.out("evaluations").sent) all.push_back(messages::read_evaluation(frame).value());
  return all;
}

/// The counters of an evaluator's state as a checkpoint has them.
std::vector<messages::Counter> named(const RoleState& state) {
  std::vector<messages::Counter> counters;
  for (const auto& counter : state.counters) counters.push_back({"line-evaluator/" + counter.name, counter.value});
  return counters;
}

TEST(Trainer, TakesItsStepsAndPublishesWhatIsDueAndTheLast) {
  FakeContext context;
  const auto role = make(line(10));
  EXPECT_EQ(run(*role, context), 10);
  EXPECT_EQ(versions(context), (std::vector<std::int64_t>{1, 4, 8, 10}));
  Report report;
  role->report(report);
  ASSERT_EQ(report.counters.size(), 1U);
  EXPECT_EQ(report.counters[0].value, 10);
}

TEST(Trainer, PublishesNothingWithoutAnEvaluation) {
  FakeContext context;
  ReplicaModel model = line_model();
  model.make_evaluation = nullptr;
  EXPECT_TRUE(Trainer::spec("line", line(3, model)).outlets.empty());
  const auto role = make(line(3, model));
  EXPECT_EQ(run(*role, context), 3);
}

TEST(Trainer, GoesOnFromItsStateBitForBit) {
  FakeContext context;
  const auto whole = make(line(10)), first = make(line(4)), second = make(line(10));
  run(*whole, context);
  run(*first, context);
  const auto state = first->save();
  ASSERT_TRUE(state.ok());
  ASSERT_TRUE(second->restore(*state).ok());
  EXPECT_EQ(second->save()->tensors.size(), state->tensors.size());  // a cut before its first step
  EXPECT_EQ(run(*second, context), 6);
  const auto expected = whole->save(), got = second->save();
  ASSERT_EQ(got->tensors.size(), expected->tensors.size());
  for (std::size_t i = 0; i < got->tensors.size(); ++i) EXPECT_EQ(got->tensors[i].bytes, expected->tensors[i].bytes);
}

TEST(Trainer, GoesOnInTheMiddleOfAnUpdateThatIsAccumulated) {
  FakeContext context;
  TrainerOptions options = line(5);
  options.how.compile.accumulate = 3;
  const auto whole = make(options), first = make(options), second = make(options);
  EXPECT_EQ(run(*whole, context), 15);
  for (int call = 0; call < 7; ++call) ASSERT_EQ(first->step(context).value(), Progress::kMore);
  ASSERT_TRUE(second->restore(first->save().value()).ok());
  EXPECT_EQ(run(*second, context), 8);
  const auto expected = whole->save(), got = second->save();
  ASSERT_EQ(got->tensors.size(), expected->tensors.size());
  for (std::size_t i = 0; i < got->tensors.size(); ++i) EXPECT_EQ(got->tensors[i].bytes, expected->tensors[i].bytes);
}

TEST(Evaluator, JudgesWhatWasPublishedOverAllOfItsData) {
  FakeContext trained, context;
  const auto role = make(line(60));
  run(*role, trained);
  const EvaluatorActorOptions options{.examine = examine_by_data(line_model()), .last = 60};
  auto evaluator = Evaluator::make(options, {.role = "line-evaluator"});
  ASSERT_TRUE(evaluator.ok()) << evaluator.error().message;
  auto step = [&] { return (*evaluator)->step(context).value(); };
  EXPECT_EQ(step(), Progress::kIdle);
  context.in("parameters").frames.push_back(trained.out("parameters").sent.front());
  EXPECT_EQ(step(), Progress::kMore);  // begins
  EXPECT_EQ(step(), Progress::kMore);  // 32 rows
  EXPECT_EQ(step(), Progress::kMore);  // and the other 32
  EXPECT_EQ(step(), Progress::kIdle);
  context.in("parameters").frames.push_back(trained.out("parameters").sent.back());
  for (int i = 0; i < 3; ++i) EXPECT_EQ(step(), Progress::kMore);
  context.out("evaluations").fewer[0] = 1;
  EXPECT_EQ(step(), Progress::kIdle) << "nobody has recorded the last one yet";
  context.out("evaluations").fewer.clear();
  EXPECT_EQ(step(), Progress::kDone);
  const std::vector<messages::EvaluationReport> told = evaluations(context);
  ASSERT_EQ(told.size(), 2U);
  EXPECT_EQ(told[0].source, "line-evaluator");
  EXPECT_EQ(told[0].version, 1);
  EXPECT_EQ(told[1].version, 60);
  ASSERT_EQ(told[1].values.size(), 1U);
  EXPECT_EQ(told[1].values[0].name, "loss");
  EXPECT_GT(told[0].values[0].value, 1);
  EXPECT_LT(told[1].values[0].value, 1e-6);  // 60 steps of 0.1 shrink the error by about 0.8 each

  const auto saved = (*evaluator)->save();
  std::vector<messages::Counter> counters = named(*saved);
  const auto trained_state = role->save();
  for (const auto& counter : trained_state->counters) counters.push_back({"line/" + counter.name, counter.value});
  const ReplicaSummary summary = replica_summary("line", counters);
  EXPECT_EQ(summary.steps, 60);
  EXPECT_EQ(summary.evaluated_step, 60);
  ASSERT_EQ(summary.evaluation.size(), 1U);
  EXPECT_EQ(summary.evaluation[0].value, told[1].values[0].value);
  auto again = Evaluator::make(options, {.role = "line-evaluator"});
  ASSERT_TRUE((*again)->restore(*saved).ok());
  EXPECT_EQ((*again)->step(context).value(), Progress::kDone);  // what it had evaluated counts
}

TEST(Evaluator, KeepsAnEvaluationForWhichThereIsNoRoom) {
  FakeContext trained, context;
  run(*make(line(8)), trained);
  const EvaluatorActorOptions options{.examine = examine_by_data(line_model()), .last = 8};
  const auto evaluator = Evaluator::make(options, {.role = "line-evaluator"}).value();
  context.out("evaluations").room = 0;
  context.in("parameters").frames.push_back(trained.out("parameters").sent.back());
  for (int i = 0; i < 3; ++i) EXPECT_EQ(evaluator->step(context).value(), Progress::kMore);
  EXPECT_EQ(evaluator->step(context).value(), Progress::kIdle);
  // A checkpoint has it, and who goes on from that sends it.
  const auto next = Evaluator::make(options, {.role = "line-evaluator"}).value();
  ASSERT_TRUE(next->restore(evaluator->save().value()).ok());
  context.out("evaluations").room = 10;
  EXPECT_EQ(next->step(context).value(), Progress::kDone);
  ASSERT_EQ(evaluations(context).size(), 1U);
  EXPECT_EQ(evaluations(context)[0].version, 8);
  EXPECT_EQ(evaluations(context)[0].values.size(), 1U);
}

/// Takes its time to prepare, counts what it is given and shows a picture of it.
class CountingJudge final : public learner::Judge {
 public:
  Result<bool> prepare() override { return ++slices_ == 3; }
  Status take(const learner::Program& program, std::int64_t rows) override {
    EXPECT_EQ(slices_, 3);
    EXPECT_EQ(program.metric_names().size(), 1U);
    rows_.push_back(static_cast<double>(rows));
    return {};
  }
  Result<learner::Verdict> verdict() override {
    learner::Verdict verdict;
    for (const double rows : rows_) verdict.scalars.push_back({"rows_" + std::to_string(verdict.scalars.size()), rows});
    verdict.pictures.push_back({.name = "samples", .height = 1, .width = 1, .pixels = {9}});
    rows_.clear();
    return verdict;
  }

 private:
  int slices_ = 0;
  std::vector<double> rows_;
};

class KeptPictures final : public PictureSink {
 public:
  Status write(const Picture& picture) override {
    pictures.push_back(picture);
    return {};
  }
  std::vector<Picture> pictures;
};

TEST(Evaluator, LeavesTheVerdictToTheModelsJudge) {
  FakeContext trained, context;
  run(*make(line(8)), trained);
  ReplicaModel model = line_model();
  model.evaluation_rows = [] { return Result<std::int64_t>(80); };  // 32, 32 and half of a batch
  model.make_judge = [] { return Result<std::unique_ptr<learner::Judge>>(std::make_unique<CountingJudge>()); };
  KeptPictures kept;
  const auto evaluator = Evaluator::make(
      {.examine = examine_by_data(model), .last = 8, .trainer = "line", .pictures = &kept, .has_listener = false},
      {.role = "line-evaluator"});
  context.in("parameters").frames.push_back(trained.out("parameters").sent.back());
  EXPECT_EQ(run(**evaluator, context), 7);  // two slices, the last and the beginning, three batches, done
  EXPECT_TRUE(context.out("evaluations").sent.empty()) << "it has no listener";
  const auto state = (*evaluator)->save();
  std::vector<double> rows;
  for (const Scalar& value : replica_summary("line", named(*state)).evaluation) rows.push_back(value.value);
  EXPECT_EQ(rows, (std::vector<double>{32, 32, 16}));
  ASSERT_EQ(kept.pictures.size(), 1U);
  EXPECT_EQ(kept.pictures[0].source, "line");
  EXPECT_EQ(kept.pictures[0].name, "samples");
  EXPECT_EQ(kept.pictures[0].step, 8);
}

TEST(Evaluator, RefusesParametersOfAnotherNetwork) {
  FakeContext context;
  auto evaluator = Evaluator::make({.examine = examine_by_data(line_model()), .last = 1}, {.role = "line-evaluator"});
  auto builder = messages::ParametersBuilder::make(context.pool(), DType::kF32, 3).value();
  std::ranges::fill(builder.data(), std::byte{0});
  messages::ParametersInfo info;
  info.version = 1;
  info.layout_hash = 5;
  context.in("parameters").frames.push_back(std::move(builder).finish(info));
  ASSERT_TRUE((*evaluator)->step(context).ok());
  ASSERT_EQ(context.refused.size(), 1u);
  EXPECT_EQ(context.refused[0], "parameters: line-evaluator: got parameters of another network");
}

TEST(ReplicaSummary, IsOfTheInstanceThatIsFurthest) {
  const std::vector<Scalar> metrics = {{"loss", 0.25}};
  std::vector<messages::Counter> counters = {{"a-0/steps", 7}, {"a-1/steps", 8}, {"a-ps/steps", 99}, {"ab/steps", 50}};
  for (auto& counter : metric_counters(metrics)) counters.push_back({"a-1/" + counter.name, counter.value});
  const ReplicaSummary summary = replica_summary("a", counters);
  EXPECT_EQ(summary.steps, 8);
  EXPECT_EQ(summary.evaluated_step, -1);
  ASSERT_EQ(summary.metrics.size(), 1U);
  EXPECT_EQ(summary.metrics[0].name, "loss");
  EXPECT_EQ(summary.metrics[0].value, 0.25);
}

}  // namespace
}  // namespace troupe::actors
