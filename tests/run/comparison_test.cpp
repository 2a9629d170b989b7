// Runs with made-up numbers side by side: who is in one group with whom, and what is said of each group.
#include <gmock/gmock.h>

#include <cmath>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include <troupe/core/atomic_file.hpp>
#include <troupe/run/comparison.hpp>
#include <troupe/run/comparison_page.hpp>
#include <troupe/run/comparison_table.hpp>
#include <troupe/run/csv_metrics.hpp>
#include <troupe/run/machine.hpp>
#include <troupe/run/recorded_run.hpp>
#include <troupe/tests/apps/test_directory.hpp>

namespace troupe::apps {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

const Registry& few_environments() {
  static const Registry made = [] {
    Registry some;
    const Registry all = shipped();
    for (const auto& [name, kind] : all.algorithms()) some.algorithm(name, kind);
    for (const auto& [name, kind] : all.models()) some.model(name, kind);
    for (const char* const name : {"cartpole-swingup", "reacher-easy"}) {
      some.environment(name, envs::shared_environments(name));
    }
    return some;
  }();
  return made;
}

class Comparing : public TestDirectory {
 protected:
  /// A run whose evaluations come every 10 s and 1000 env steps.
  std::filesystem::path record(const std::string& name, const std::string& config, const std::vector<double>& returns,
                               const std::string& agent = "") const {
    const RunDirectory run{path() / name};
    std::filesystem::create_directories(run.path);
    std::ofstream(run.config()) << config;
    CsvSink sink = std::move(CsvSink::open({run.metrics(), run.channels(), run.evaluations()})).value();
    const std::string source = agent.empty() ? "evaluator" : agent + "-evaluator";
    double wall_s = 0;
    for (const double value : returns) {
      wall_s += 10;
      sink.record({wall_s,
                   source,
                   static_cast<std::int64_t>(wall_s),
                   static_cast<std::int64_t>(wall_s * 100),
                   {{"return", value}, {"episodes", 1}}})
          .value();
    }
    MetricRow row{.wall_s = wall_s,
                  .env_steps = static_cast<std::int64_t>(wall_s * 100),
                  .learner_steps = static_cast<std::int64_t>(wall_s * 10)};
    if (!agent.empty()) row.scalars = {{agent + "/env_steps", 200}, {agent + "/learner_steps", 50}};
    sink.write(row).value();
    sink.flush().value();
    return run.path;
  }

  static std::vector<RecordedRun> read(const std::vector<std::filesystem::path>& paths) {
    std::vector<RecordedRun> runs;
    for (const auto& one : paths) {
      auto run = read_recorded_run(one, few_environments());
      EXPECT_TRUE(run.ok()) << run.error().message;
      runs.push_back(std::move(run).value());
    }
    return runs;
  }

  static Comparison compared(const std::vector<RecordedRun>& runs, const ComparisonOptions& options = {}) {
    auto comparison = compare(runs, options);
    EXPECT_TRUE(comparison.ok()) << comparison.error().message;
    return std::move(comparison).value();
  }

  static std::string config(const std::string& env, int seed, const std::string& more = "") {
    return "env = \"" + env + "\"\nseed = " + std::to_string(seed) + "\n" + more;
  }
};

TEST_F(Comparing, GroupsRunsByWhatDiffersWithinATaskButTheSeed) {
  const auto runs = read({record("a1", config("cartpole-swingup", 1, "d4pg.sigma = 0.1\n"), {1, 100}),
                          record("a2", config("cartpole-swingup", 2, "name = \"x\"\nd4pg.sigma = 0.1\n"), {1, 200}),
                          record("b1", config("cartpole-swingup", 1, "d4pg.sigma = 0.2\n"), {1, 300}),
                          // Another number of learner's rows, as all runs of that task have.
                          record("r", config("reacher-easy", 1, "d4pg.sigma = 0.1\nlearner.batch_size = 64\n"), {50})});
  const Comparison comparison = compared(runs);
  EXPECT_THAT(comparison.keys, ElementsAre("d4pg.sigma"));
  EXPECT_THAT(comparison.pooled, IsEmpty());
  EXPECT_THAT(comparison.tasks, ElementsAre("cartpole-swingup", "reacher-easy"));
  EXPECT_THAT(comparison.settings, ElementsAre("d4pg.sigma=0.1", "d4pg.sigma=0.2"));
  ASSERT_EQ(comparison.groups.size(), 3u);
  EXPECT_EQ(comparison.groups[0].mean, 150);
  EXPECT_THAT(comparison.groups[0].seeds, ElementsAre(1, 2));
  EXPECT_EQ(comparison.groups[1].mean, 300);
  EXPECT_EQ(comparison.groups[2].task, "reacher-easy");
  EXPECT_EQ(comparison.groups[2].setting, "d4pg.sigma=0.1");
  ASSERT_EQ(comparison.totals.size(), 2u);
  EXPECT_EQ(comparison.totals[0].task, "all 2 tasks");
  EXPECT_NEAR(comparison.totals[0].mean, 350.0 / 3, 1e-9);
  EXPECT_EQ(comparison.totals[1].task, "1 of 2 tasks");
}

TEST_F(Comparing, LooksAtNoKeyOfAnAlgorithmThatARunHasNot) {
  Registry two = few_environments();
  two.algorithm("other", two.algorithms().at("d4pg"));
  const auto read_here = [&](const std::filesystem::path& run) { return read_recorded_run(run, two).value(); };
  const std::vector<RecordedRun> runs = {
      read_here(record("a", config("cartpole-swingup", 1, "algorithm = \"d4pg\"\nd4pg.sigma = 0.1\n"), {1})),
      read_here(record("b", config("cartpole-swingup", 1, "algorithm = \"other\"\nother.sigma = 0.3\n"), {2}))};
  const Comparison comparison = compared(runs);
  EXPECT_THAT(comparison.keys, ElementsAre("algorithm"));
  EXPECT_THAT(comparison.settings, ElementsAre("algorithm=\"d4pg\"", "algorithm=\"other\""));
  const Comparison shown = compared(runs, {.also = {"d4pg.sigma"}});
  EXPECT_THAT(shown.settings, ElementsAre("d4pg.sigma=0.1, algorithm=\"d4pg\"", "algorithm=\"other\""));
}

TEST_F(Comparing, TellsApartByTheKeysThatAreNamedAndSaysWhatIsPooled) {
  const auto runs =
      read({record("a", config("cartpole-swingup", 1, "d4pg.sigma = 0.1\nlearner.batch_size = 16\n"), {100}),
            record("b", config("cartpole-swingup", 1, "d4pg.sigma = 0.2\nlearner.batch_size = 16\n"), {200}),
            record("c", config("cartpole-swingup", 1, "d4pg.sigma = 0.2\nlearner.batch_size = 32\n"), {400})});
  const Comparison comparison = compared(runs, {.by = {"learner.batch_size"}});
  EXPECT_THAT(comparison.settings, ElementsAre("learner.batch_size=16", "learner.batch_size=32"));
  EXPECT_THAT(comparison.pooled, ElementsAre("d4pg.sigma"));
  EXPECT_EQ(comparison.groups[0].mean, 150);
  EXPECT_THAT(comparison_markdown(comparison), HasSubstr("not told apart: d4pg.sigma."));
  const Comparison shown = compared({runs[0]}, {.also = {"d4pg.sigma"}});
  EXPECT_THAT(shown.settings, ElementsAre("d4pg.sigma=0.1")) << "also when nothing differs";
}

TEST_F(Comparing, SumsUpWhatTheRunsOfAGroupHaveComeTo) {
  std::vector<std::filesystem::path> paths;
  const std::vector<std::vector<double>> returns = {
      {0, 500, 900}, {0, 100, 700}, {0, 850, 800}, {0, 10, 20}, {0, 400, 1000}};
  for (std::size_t i = 0; i < returns.size(); ++i) {
    paths.push_back(record("r" + std::to_string(i), config("cartpole-swingup", static_cast<int>(i)), returns[i]));
  }
  const auto runs = read(paths);
  const Comparison comparison = compared(runs, {.threshold = {800, false}, .at = {1500, 3100, 10000}});
  ASSERT_EQ(comparison.groups.size(), 1u);
  EXPECT_THAT(comparison.totals, IsEmpty()) << "one task is all";
  const ComparedGroup& group = comparison.groups[0];
  EXPECT_EQ(group.setting, "");
  EXPECT_DOUBLE_EQ(group.mean, 684);
  EXPECT_DOUBLE_EQ(group.iqm, 800);
  EXPECT_EQ(group.min, 20);
  EXPECT_EQ(group.max, 1000);
  EXPECT_DOUBLE_EQ(group.std, 387.65964453370691);
  EXPECT_LT(group.iqm_interval.low, 800);
  EXPECT_GT(group.iqm_interval.high, 800);
  EXPECT_EQ(group.threshold, 800);
  EXPECT_EQ(group.reached, 3u);
  EXPECT_EQ(group.threshold_env_steps, 3000) << "the third of 2000, 3000, 3000, never, never";
  EXPECT_EQ(group.threshold_wall_s, 30);
  EXPECT_DOUBLE_EQ(group.at[0], (250 + 50 + 425 + 5 + 200) / 5.0) << "half way between two evaluations";
  EXPECT_DOUBLE_EQ(group.at[1], 684) << "the end is near";
  EXPECT_TRUE(std::isnan(group.at[2])) << "no run has gone there";
  EXPECT_EQ(group.env_steps_per_s, 100);
  EXPECT_EQ(group.learner_steps_per_s, 10);

  const std::string csv = comparison_csv(comparison);
  EXPECT_THAT(csv, HasSubstr("cartpole-swingup,,5,0 1 2 3 4,684,"));
  EXPECT_THAT(csv, HasSubstr(",20,1000,800,"));
  EXPECT_THAT(csv, HasSubstr(",186,684,,800,3,3000,30,3000,30,100,10\n"));
  const ComparedGroup share = compared(runs, {.threshold = {0.5, true}}).groups[0];
  EXPECT_EQ(share.threshold, 342) << "half of the best mean return";
}

TEST_F(Comparing, SaysWhichRunsHaveNotEndedByThemselvesAndWhatTrainedThem) {
  const auto ended = record("ended", config("cartpole-swingup", 1), {1}),
             stopped = record("stopped", config("cartpole-swingup", 2), {2}),
             goes_on = record("goes_on", config("cartpole-swingup", 3), {3});
  std::ofstream(ended / "summary.json")
      << "{\"stop_reason\": \"max_env_steps\", \"version\": \"1 (abc)\", \"machine\": \"a, 2 processors\"}";
  std::ofstream(stopped / "summary.json")
      << "{\"stop_reason\": \"stop requested\", \"version\": \"1 (abc)\", \"machine\": \"b, 1 processor\"}";
  const Comparison comparison = compared(read({ended, stopped, goes_on}));
  EXPECT_THAT(comparison.unfinished, ElementsAre(stopped.string(), goes_on.string()));
  const std::string text = comparison_markdown(comparison);
  EXPECT_THAT(text,
              HasSubstr("- Stopped, or not at their ends yet: " + stopped.string() + "; " + goes_on.string() + ".\n"));
  EXPECT_THAT(text, HasSubstr("- Program: 1 (abc).\n- Machine: a, 2 processors; b, 1 processor.\n"));
}

TEST_F(Comparing, OneRunHasNoDeviationAndNoInterval) {
  const Comparison comparison = compared(read({record("a", config("cartpole-swingup", 1), {-5})}));
  EXPECT_TRUE(std::isnan(comparison.groups[0].std));
  EXPECT_TRUE(std::isnan(comparison.groups[0].iqm_interval.low));
  EXPECT_TRUE(std::isnan(comparison.groups[0].threshold)) << "a share of a return below 0 would lie above it";
  EXPECT_EQ(comparison.groups[0].reached, 0u);
  EXPECT_THAT(comparison_csv(comparison), HasSubstr("cartpole-swingup,,1,1,-5,,,,-5,-5,-5,,,,0,,,1000,10,100,10\n"));
  EXPECT_THAT(comparison_markdown(comparison), Not(HasSubstr("nan")));
  const std::string page = comparison_page(comparison, {.title = "one"}, comparison_curves(comparison));
  EXPECT_THAT(page, Not(HasSubstr("nan")));
  EXPECT_THAT(page, Not(HasSubstr("inf")));
}

TEST_F(Comparing, AgentsOfOneRunAreTasksOfTheirOwn) {
  const Comparison comparison = compared(read({record(
      "a", "[agents.alice]\nenv = \"cartpole-swingup\"\n[agents.bob]\nenv = \"reacher-easy\"\n", {7}, "alice")}));
  ASSERT_EQ(comparison.groups.size(), 1u) << "bob has not been evaluated";
  EXPECT_EQ(comparison.groups[0].task, "alice: cartpole-swingup");
  EXPECT_EQ(comparison.groups[0].env_steps, 200);
  EXPECT_EQ(comparison.groups[0].learner_steps_per_s, 5);
}

TEST_F(Comparing, RefusesWhatCannotBeCompared) {
  const auto message = [](const Result<RecordedRun>& run) { return run.ok() ? "ok" : run.error().message; };
  std::filesystem::create_directories(path() / "empty");
  EXPECT_THAT(message(read_recorded_run(path() / "empty", few_environments())),
              HasSubstr("not the directory of a run"));
  EXPECT_THAT(message(read_recorded_run(record("new", config("cartpole-swingup", 1), {}), few_environments())),
              HasSubstr("has no evaluation yet"));
  EXPECT_THAT(message(read_recorded_run(record("gan", "[replicas.gan]\nmodel = \"sngan\"\n", {}), few_environments())),
              HasSubstr("no agent"));
  const auto torn = record("torn", config("cartpole-swingup", 1), {1});
  std::ofstream(torn / "summary.json") << "{\"stop_reason\":";
  EXPECT_THAT(message(read_recorded_run(torn, few_environments())), HasSubstr("not the summary of a run"));

  const auto runs = read({record("a", config("cartpole-swingup", 1), {1})});
  EXPECT_THAT(compare({}, {}).error().message, HasSubstr("no run"));
  EXPECT_THAT(compare(std::vector{runs[0], runs[0]}, {}).error().message, HasSubstr("named twice"));
  EXPECT_THAT(compare(runs, {.by = {"d4pg.sigm"}}).error().message, HasSubstr("did you mean d4pg.sigma?"));
}

TEST(ReturnAt, LiesOnTheLineBetweenTwoEvaluationsAndNoFurtherThanFivePercentBeyond) {
  const std::vector<ReturnPoint> returns = {{1, 1000, 10}, {2, 2000, 30}};
  EXPECT_EQ(return_at(returns, &ReturnPoint::env_steps, 1000), 10);
  EXPECT_EQ(return_at(returns, &ReturnPoint::env_steps, 1250), 15);
  EXPECT_EQ(return_at(returns, &ReturnPoint::wall_s, 1.5), 20);
  EXPECT_EQ(return_at(returns, &ReturnPoint::env_steps, 960), 10);
  EXPECT_TRUE(std::isnan(return_at(returns, &ReturnPoint::env_steps, 900)));
  EXPECT_EQ(return_at(returns, &ReturnPoint::env_steps, 2100), 30);
  EXPECT_TRUE(std::isnan(return_at(returns, &ReturnPoint::env_steps, 2200)));
  EXPECT_TRUE(std::isnan(return_at({}, &ReturnPoint::env_steps, 1)));
  const std::vector<ReturnPoint> again = {{1, 1000, 10}, {2, 1000, 12}, {3, 2000, 20}, {4, 2000, 22}};
  EXPECT_EQ(return_at(again, &ReturnPoint::env_steps, 1000), 12) << "the newer of two";
  EXPECT_EQ(return_at(again, &ReturnPoint::env_steps, 2000), 22);
  EXPECT_EQ(return_at(again, &ReturnPoint::env_steps, 1500), 16);
}

TEST(MeanCurves, GoAsFarAsAllRunsOfAGroup) {
  ComparedGroup group;
  group.returns = {{{{1, 100, 0}, {2, 300, 20}}, {{1, 200, 40}, {2, 500, 40}}}};
  group.seeds = {1, 2};
  const MeanCurve curve = mean_curve(group, &ReturnPoint::env_steps);
  ASSERT_EQ(curve.points.size(), 60u);
  EXPECT_EQ(curve.points.front().x, 200);
  EXPECT_EQ(curve.points.front().mean, 25) << "of 10 and 40";
  EXPECT_EQ(curve.points.front().interval.low, 10);
  EXPECT_EQ(curve.points.front().interval.high, 40);
  EXPECT_EQ(curve.points.back().x, 300);
  EXPECT_EQ(curve.points.back().iqm, 30);
  group.returns[0][1] = {{5, 900, 1}};  // nothing that both have
  EXPECT_THAT(mean_curve(group, &ReturnPoint::env_steps).points, IsEmpty());
}

TEST(Thresholds, AreReturnsOrShares) {
  EXPECT_EQ(to_string(parse_threshold("800").value()), "800");
  EXPECT_EQ(to_string(parse_threshold("-12.5").value()), "-12.5");
  EXPECT_EQ(to_string(parse_threshold("90%").value()), "90%");
  EXPECT_EQ(parse_threshold("90%")->value, 0.9);
  for (const char* const wrong : {"", "%", "x", "0%", "101%", "nan", "inf", "90%%", "8 00"}) {
    EXPECT_FALSE(parse_threshold(wrong).ok()) << wrong;
  }
}

TEST_F(Comparing, ThePageNeedsNothingElse) {
  const Comparison comparison = compared(
      read({record("a", config("cartpole-swingup", 1), {1, 2}), record("b", config("cartpole-swingup", 2), {3, 4}),
            record("c", config("reacher-easy", 1), {5, 6})}));
  write_comparison(comparison, {.title = "<sweep>", .about = {"first & last"}}, path() / "out", "page.html").value();
  const std::string page = text_of(path() / "out/page.html");
  for (const char* const part : {"src=", "href=", "<script", "@import", "url("})
    EXPECT_THAT(page, Not(HasSubstr(part)));
  EXPECT_THAT(page, HasSubstr("<h1>&lt;sweep></h1>\n<p>first &amp; last</p>"));
  for (const char* const name : {"all-tasks", "cartpole-swingup", "reacher-easy"}) {
    const std::string svg = text_of(path() / "out/curves" / (std::string(name) + ".svg"));
    EXPECT_THAT(svg, HasSubstr("<polyline")) << name;
    EXPECT_THAT(page, HasSubstr(svg)) << name;
  }
  EXPECT_EQ(text_of(path() / "out/table.csv"), comparison_csv(comparison));
  EXPECT_EQ(text_of(path() / "out/table.md"), comparison_markdown(comparison));
}

TEST(Machine, IsTheProcessorAndHowManyThereAre) {
  EXPECT_EQ(processor_name("processor\t: 0\nmodel name\t: A  B 7\nmodel name\t: C\n"), "A  B 7");
  EXPECT_EQ(processor_name("model name\nx : y"), "unknown processor");
  EXPECT_THAT(machine(), testing::MatchesRegex(".+, ([0-9]+ of )?[0-9]+ processors?"));
}

}  // namespace
}  // namespace troupe::apps
