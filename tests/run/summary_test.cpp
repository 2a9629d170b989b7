#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include <troupe/run/summary.hpp>
#include <troupe/run/units.hpp>

namespace troupe::apps {
namespace {

const std::vector<Evaluation> kEvaluations = {{.wall_s = 10, .source = "evaluator", .values = {{"return", 120}}},
                                              {.wall_s = 61.5, .source = "evaluator", .values = {{"return", 850}}}};

actors::AgentSummary agent(const std::string& name) {
  return {.name = name,
          .env = "cartpole-swingup",
          .env_steps = 100000,
          .learner_steps = 12345,
          .final_evaluation =
              Evaluation{.source = "final", .values = {{"return", 850}, {"return_std", 1.5}, {"episodes", 10}}}};
}

RunSummary summary() {
  return {.seed = 3,
          .version = "0.1.0 (abc)",
          .machine = "a machine",
          .config_hash = "0123456789abcdef",
          .train = {.stop_reason = actors::StopReason::kMaxEnvSteps,
                    .wall_s = 70.25,
                    .env_steps = 100000,
                    .learner_steps = 12345,
                    .agents = {agent("")}},
          .evaluations = kEvaluations};
}

TEST(SummaryJson, HasTheFieldsThatScriptsReadInAFixedOrder) {
  const std::string expected = R"json({
  "env": "cartpole-swingup",
  "seed": 3,
  "version": "0.1.0 (abc)",
  "machine": "a machine",
  "config_hash": "0123456789abcdef",
  "stop_reason": "max_env_steps",
  "wall_s": 70.25,
  "env_steps": 100000,
  "learner_steps": 12345,
  "final_return": {"mean": 850, "std": 1.5, "episodes": 10},
  "first_reached": {"100": 10, "200": 61.5, "300": 61.5, "400": 61.5, "500": 61.5, "600": 61.5, "700": 61.5, "800": 61.5},
  "agents": {},
  "replicas": {}
}
)json";
  EXPECT_EQ(summary_json(summary()), expected);
}

TEST(SummaryJson, StaysJsonWithoutAnEvaluationAndWithOddValues) {
  RunSummary odd = summary();
  odd.train.agents[0].final_evaluation.reset();
  odd.train.wall_s = std::nan("");
  odd.evaluations = {};
  odd.version = "quote\" slash\\ line\n";
  const std::string json = summary_json(odd);
  EXPECT_NE(json.find("\"final_return\": null"), std::string::npos);
  EXPECT_NE(json.find("\"first_reached\": {}"), std::string::npos);
  EXPECT_NE(json.find("\"wall_s\": null"), std::string::npos);
  EXPECT_NE(json.find("quote\\\" slash\\\\ line\\u000a"), std::string::npos) << json;
}

TEST(SummaryTable, SaysWhatAPersonWantsToKnow) {
  EXPECT_EQ(summary_table(summary()),
            "  ended by       max_env_steps\n"
            "  wall time      1m10s\n"
            "  environment    cartpole-swingup\n"
            "  env steps      100k\n"
            "  learner steps  12.3k\n"
            "  final return   850.0 +- 1.5 over 10 episodes\n"
            "  first reached  100 at 10.0s, 200 at 1m02s, 300 at 1m02s, 400 at 1m02s, 500 at 1m02s, 600 at 1m02s, "
            "700 at 1m02s, 800 at 1m02s\n");
}

TEST(SummaryJson, AgentsWithNamesHaveNumbersOfTheirOwn) {
  RunSummary two = summary();
  two.train.agents = {agent("alice"), agent("bob")};
  two.train.agents[1].final_evaluation.reset();
  const std::vector<Evaluation> evaluations = {{.wall_s = 3, .source = "bob-evaluator", .values = {{"return", 150}}},
                                               {.wall_s = 4, .source = "alice-final", .values = {{"return", 250}}}};
  two.evaluations = evaluations;
  const std::string json = summary_json(two);
  EXPECT_NE(json.find("\"bob\": {\"env\": \"cartpole-swingup\", \"env_steps\": 100000, \"learner_steps\": 12345, "
                      "\"final_return\": null, \"first_reached\": {\"100\": 3}}"),
            std::string::npos)
      << json;
  EXPECT_NE(json.find("\"first_reached\": {\"100\": 4, \"200\": 4},\n  \"agents\""), std::string::npos) << json;
  EXPECT_NE(summary_table(two).find("alice\n  environment    cartpole-swingup\n"), std::string::npos);
}

TEST(Units, DurationsKeepTheirTwoLargestParts) {
  EXPECT_EQ(format_duration(0), "0.0s");
  EXPECT_EQ(format_duration(59.94), "59.9s");
  EXPECT_EQ(format_duration(59.96), "1m00s");
  EXPECT_EQ(format_duration(3599.4), "59m59s");
  EXPECT_EQ(format_duration(3600), "1h00m");
  EXPECT_EQ(format_duration(7384), "2h03m");
  EXPECT_EQ(format_duration(-1), "?");
  EXPECT_EQ(format_duration(std::nan("")), "?");
  EXPECT_EQ(format_duration(std::numeric_limits<double>::infinity()), "?");
}

TEST(Units, CountsKeepThreeDigits) {
  EXPECT_EQ(format_count(0), "0");
  EXPECT_EQ(format_count(999), "999");
  EXPECT_EQ(format_count(1000), "1.00k");
  EXPECT_EQ(format_count(12345), "12.3k");
  EXPECT_EQ(format_count(999400), "999k");
  EXPECT_EQ(format_count(999600), "1.00M");
  EXPECT_EQ(format_count(2.5e9), "2.50G");
  EXPECT_EQ(format_count(-1500), "-1.50k");
  EXPECT_EQ(format_count(std::nan("")), "?");
}

TEST(Units, TicksAreShort) {
  EXPECT_EQ(format_tick(0), "0");
  EXPECT_EQ(format_tick(-0.5), "-0.5");
  EXPECT_EQ(format_tick(1000), "1000");
  EXPECT_EQ(format_tick(50000), "50k");
  EXPECT_EQ(format_tick(1.5e6), "1.5M");
}

TEST(Summary, HasEveryReplicaGroup) {
  RunSummary summary;
  summary.train.stop_reason = actors::StopReason::kReplicaSteps;
  summary.train.replicas = {{"mlp", 400, {{"loss", 0.5}}, 400, {{"accuracy", 0.875}, {"loss", 0.25}}},
                            {"gan", 90, {{"generator_loss", std::nan("")}}, -1, {}}};
  EXPECT_NE(summary_json(summary).find(
                "\"replicas\": {\"mlp\": {\"steps\": 400, \"evaluated_step\": 400, \"metrics\": {\"loss\": 0.5}, "
                "\"evaluation\": {\"accuracy\": 0.875, \"loss\": 0.25}}, \"gan\": {\"steps\": 90, "
                "\"evaluated_step\": -1, \"metrics\": {\"generator_loss\": null}, \"evaluation\": {}}}"),
            std::string::npos)
      << summary_json(summary);
  const std::string table = summary_table(summary);
  EXPECT_NE(table.find("mlp            400 steps, accuracy 0.875, loss 0.25\n"), std::string::npos) << table;
  EXPECT_EQ(table.find("env steps"), std::string::npos) << table;
}

}  // namespace
}  // namespace troupe::apps
