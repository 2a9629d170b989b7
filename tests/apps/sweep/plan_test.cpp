#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <troupe/apps/sweep/plan.hpp>
#include <troupe/apps/sweep/sweep_directory.hpp>
#include <troupe/tests/apps/test_directory.hpp>

namespace troupe::apps {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Pair;

const Registry& cartpole_alone() {
  static const Registry made = [] {
    Registry some;
    const Registry all = shipped();
    for (const auto& [name, kind] : all.algorithms()) some.algorithm(name, kind);
    for (const auto& [name, kind] : all.models()) some.model(name, kind);
    some.environment("cartpole-swingup", envs::shared_environments("cartpole-swingup"));
    return some;
  }();
  return made;
}

class Planning : public TestDirectory {
 protected:
  Planning() { write("tiny.toml", "seed = 9\n"); }

  void write(const std::string& file, const std::string& more) const {
    std::filesystem::create_directories((path() / file).parent_path());
    std::ofstream(path() / file) << "env = \"cartpole-swingup\"\nmax_env_steps = 1000\n" << more;
  }
  SweepRequest request(const std::vector<std::string>& configs, const std::vector<std::string>& settings = {},
                       const std::string& seeds = "") const {
    SweepRequest made;
    for (const std::string& config : configs) made.configs.push_back((path() / config).string());
    made.keys = parse_swept_keys(settings).value();
    if (!seeds.empty()) made.seeds = parse_seeds(seeds).value();
    return made;
  }
  SweepPlan plan(const SweepRequest& request) const {
    auto made = plan_sweep(request, cartpole_alone());
    EXPECT_TRUE(made.ok()) << made.error().message;
    return made.value();
  }
  std::string refusal(const SweepRequest& request) const {
    const auto made = plan_sweep(request, cartpole_alone());
    return made.ok() ? "ok" : made.error().message;
  }
};

TEST_F(Planning, EveryConfigurationHasEveryCombinationAndEverySeed) {
  write("more/a.toml", "");
  write("more/b.toml", "");
  const SweepPlan made = plan(request({"tiny.toml", "more"}, {"d4pg.sigma=2e-1,0.3"}, "1..2"));
  ASSERT_EQ(made.configs.size(), 3u) << "a folder stands for its files";
  ASSERT_EQ(made.runs.size(), 12u);
  EXPECT_THAT(made.keys, ElementsAre("d4pg.sigma"));
  EXPECT_EQ(made.runs[0].name, "tiny-seed-1-d4pg.sigma-0.2");
  EXPECT_THAT(made.runs[0].settings, ElementsAre(Pair("d4pg.sigma", "0.2"))) << "in the one form of the value";
  EXPECT_EQ(in_words(made.runs[3]), "tiny, d4pg.sigma=0.3, seed 2");
  EXPECT_THAT(overrides_of(made.runs[3]), ElementsAre("d4pg.sigma=0.3", "seed=2"));
  EXPECT_EQ(made.runs[11].config, "b");
}

TEST_F(Planning, WithoutSeedsEachConfigurationHasItsOwn) {
  const SweepPlan made = plan(request({"tiny.toml"}));
  ASSERT_EQ(made.runs.size(), 1u);
  EXPECT_EQ(made.runs[0].seed, 9);
  EXPECT_EQ(made.runs[0].name, "tiny-seed-9");
}

TEST_F(Planning, NamesSayWhatTheRunsAre) {
  const SweepPlan made = plan(request({"tiny.toml"}, {"algorithm=d4pg", "learner.batch_size=16,32"}, "3"));
  EXPECT_EQ(made.runs[0].name, "tiny-seed-3-algorithm-d4pg-learner.batch_size-16");
  EXPECT_EQ(made.runs[1].name, "tiny-seed-3-algorithm-d4pg-learner.batch_size-32");
}

TEST_F(Planning, ListsAreValuesAndLongNamesStayUnique) {
  const SweepPlan made =
      plan(request({"tiny.toml"}, {"d4pg.policy_layers=[64,64],[64]", "d4pg.critic_layers=[64,64],[32]"}));
  ASSERT_EQ(made.runs.size(), 4u);
  EXPECT_EQ(made.runs[0].settings[0].second, "[64, 64]");
  for (std::size_t i = 0; i < 4; ++i) {
    EXPECT_LE(made.runs[i].name.size(), 64u);
    EXPECT_TRUE(made.runs[i].name.starts_with("tiny-seed-9-"));
    for (std::size_t j = 0; j < i; ++j) EXPECT_NE(made.runs[i].name, made.runs[j].name);
  }
}

TEST_F(Planning, EveryMistakeIsFoundBeforeTheFirstRunAndNamesItsCombination) {
  EXPECT_THAT(refusal(request({"tiny.toml"}, {"d4pg.sgma=1,2"})),
              HasSubstr("tiny with d4pg.sgma=1:\n--set d4pg.sgma=1: unknown key d4pg.sgma (did you mean d4pg.sigma?)"));
  EXPECT_THAT(refusal(request({"tiny.toml"}, {"d4pg.sigma=0.1,-1"})), HasSubstr("tiny with d4pg.sigma=-1:"));
  EXPECT_THAT(refusal(request({"tiny.toml"}, {"d4pg.sigma=0.1,1e-1"})), HasSubstr("stands for one run twice"));
  EXPECT_THAT(refusal(request({"tiny.toml", "tiny.toml"})), HasSubstr("is called tiny already"));
  EXPECT_THAT(refusal(request({"tiny.toml"}, {"max_env_steps=1000,0"})), HasSubstr("the run would never end"));
  EXPECT_THAT(refusal(request({"none.toml"})), HasSubstr("none.toml"));
  std::filesystem::create_directories(path() / "empty");
  EXPECT_THAT(refusal(request({"empty"})), HasSubstr("a folder without a configuration"));
  std::ofstream(path() / "net.toml") << "[replicas.net]\nmodel = \"classifier\"\ndata = \"synthetic\"\nsteps = 10\n";
  EXPECT_THAT(refusal(request({"net.toml"})), HasSubstr("net.toml: no agent"));
  EXPECT_THAT(refusal(request({"tiny.toml"}, {"d4pg.sigma=1,2"}, "1..4096")), HasSubstr("more than 4096 runs"));
}

TEST_F(Planning, GrowsBySeedsValuesAndConfigurationsAndNeverShrinks) {
  write("other.toml", "");
  const SweepPlan small = plan(request({"tiny.toml"}, {"d4pg.sigma=0.1"}, "1..2"));
  const SweepPlan large = plan(request({"tiny.toml", "other.toml"}, {"d4pg.sigma=0.3,0.1"}, "1..3"));
  const auto both = grown(small, large, cartpole_alone());
  ASSERT_TRUE(both.ok()) << both.error().message;
  EXPECT_EQ(both->runs.size(), 12u);
  EXPECT_EQ(both->configs.size(), 2u);
  EXPECT_EQ(both->runs[0], small.runs[0]) << "a run keeps its number";
  EXPECT_EQ(both->runs[1], small.runs[1]);
  EXPECT_THAT(grown(large, small, cartpole_alone()).error().message,
              HasSubstr("it has runs that this grid lacks: tiny, d4pg.sigma=0.3, seed 1, "));
  const SweepPlan keyless = plan(request({"tiny.toml"}, {}, "1..2"));
  EXPECT_THAT(grown(small, keyless, cartpole_alone()).error().message,
              HasSubstr("it was begun with --set d4pg.sigma, and not with no --set"));
}

TEST_F(Planning, AConfigurationThatHasChangedIsRefusedButNotItsComments) {
  const SweepPlan before = plan(request({"tiny.toml"}));
  write("tiny.toml", "seed = 9  # the same\n");
  EXPECT_TRUE(grown(before, plan(request({"tiny.toml"})), cartpole_alone()).ok());
  write("tiny.toml", "seed = 9\n[d4pg]\natoms = 21\n");
  EXPECT_THAT(grown(before, plan(request({"tiny.toml"})), cartpole_alone()).error().message,
              HasSubstr("tiny has changed since: d4pg.atoms was 51, is 21"));
}

TEST_F(Planning, ASweepIsReadBackAsItWasWritten) {
  RecordedSweep sweep{.plan = plan(request({"tiny.toml"}, {"d4pg.sigma=0.1,0.2", "algorithm=d4pg"}, "1..2")),
                      .version = "1 (abc)",
                      .machine = "a machine",
                      .compared = {.threshold = {800, false}, .at = {10, 20}}};
  const SweepDirectory directory{path() / "sweep"};
  EXPECT_FALSE(is_sweep(directory));
  write_sweep(directory, sweep).value();
  const auto back = read_sweep(directory);
  ASSERT_TRUE(back.ok()) << back.error().message;
  EXPECT_EQ(back->plan.runs, sweep.plan.runs);
  EXPECT_EQ(back->plan.keys, sweep.plan.keys);
  EXPECT_EQ(back->plan.configs[0].text, sweep.plan.configs[0].text);
  EXPECT_EQ(back->version, sweep.version);
  EXPECT_EQ(back->machine, sweep.machine);
  EXPECT_EQ(to_string(back->compared.threshold), "800");
  EXPECT_EQ(back->compared.at, sweep.compared.at);
}

TEST_F(Planning, DamagedPlansAreRefused) {
  const SweepDirectory directory{path() / "sweep"};
  write_sweep(directory, {.plan = plan(request({"tiny.toml"})), .version = "v", .machine = "m", .compared = {}})
      .value();
  const std::string good = text_of(directory.plan());
  const auto refused = [&](const std::string& text) {
    std::ofstream(directory.plan()) << text;
    const auto sweep = read_sweep(directory);
    return sweep.ok() ? "ok" : sweep.error().message;
  };
  EXPECT_EQ(refused(good), "ok");
  EXPECT_THAT(refused(good.substr(0, good.size() / 2)), HasSubstr("not the plan of a sweep"));
  EXPECT_THAT(refused("[]"), HasSubstr("not the plan of a sweep"));
  EXPECT_THAT(refused(""), HasSubstr("not the plan of a sweep: it is empty"));
  EXPECT_THAT(refused(std::string(100, '[')), HasSubstr("too many levels"));
  std::string other = good;
  other.replace(other.find("\"format\": 1"), 11, "\"format\": 2");
  EXPECT_THAT(refused(other), HasSubstr("got format 2, expected 1"));
  other = good;
  other.replace(other.find("tiny-seed-9"), 11, "../outside!");
  EXPECT_THAT(refused(other), HasSubstr("is no name of a run")) << "no run lies outside of the sweep";
  std::filesystem::remove(directory.configs() / "tiny.toml");
  EXPECT_THAT(refused(good), HasSubstr("tiny.toml"));
}

TEST_F(Planning, ARunIsFinishedWhenItHasMetALimitOfItsOwn) {
  const RunDirectory run{path() / "run"};
  std::filesystem::create_directories(run.path);
  EXPECT_EQ(state_of(run), RunState::kNew);
  std::ofstream(run.summary()) << R"({"stop_reason": "stop requested"})";
  EXPECT_EQ(state_of(run), RunState::kNew);
  std::filesystem::create_directories(run.checkpoints() / "step-000000000001");
  EXPECT_EQ(state_of(run), RunState::kBegun);
  std::ofstream(run.summary()) << R"({"stop_reason": "max_env_steps"})";
  EXPECT_EQ(state_of(run), RunState::kFinished);
}

}  // namespace
}  // namespace troupe::apps
