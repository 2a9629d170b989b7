// Topologies in the configuration, and environments of the user's own: what they become, and every mistake with its
// place, before anything is made.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include <troupe/actors/runtime/topology_dot.hpp>
#include <troupe/algorithms/d4pg/algorithm.hpp>
#include <troupe/core/text.hpp>
#include <troupe/replay/n_step_adder.hpp>
#include <troupe/run/check_begin.hpp>
#include <troupe/run/no_metrics.hpp>
#include <troupe/run/run_topology.hpp>
#include <troupe/run/train.hpp>
#include <troupe/run/train_schema.hpp>
#include <troupe/tests/actors/recording_sink.hpp>
#include <troupe/tests/run/own_registry.hpp>

namespace troupe::apps {
namespace {

using own::own_registry;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

const std::string kRoles =
    "[roles.thermometer]\n"   // 1
    "kind = 'thermometer'\n"  // 2
    "count = 2\n"             // 3
    "[roles.display]\n"       // 4
    "kind = 'display'\n";     // 5
const std::string kChannel =
    "[[channels]]\n"                  // 6
    "from = 'thermometer.celsius'\n"  // 7
    "to = 'display.celsius'\n";       // 8

Result<actors::TrainOptions> options_of(const std::string& text, const Registry& registry = own_registry()) {
  TROUPE_ASSIGN(const Config config, parse_config(text, "f", {}, train_schema(registry)));
  return to_train_options(config, registry);
}

/// What whoever begins such a run is told.
std::string said(const std::string& text, RunKind kind = RunKind::kOneProcess,
                 const Registry& registry = own_registry()) {
  const auto config = parse_config(text, "f", {}, train_schema(registry));
  if (!config.ok()) return config.error().message;
  const auto options = to_train_options(*config, registry);
  if (!options.ok()) return options.error().message;
  const Status can = check_begin(*config, *options, kind);
  return can.ok() ? "ok" : can.error().message;
}

TEST(RoleSchema, RolesAndChannelsBecomeATopology) {
  const auto options = options_of(kRoles + kChannel + "capacity = 7\n[placement.thermometer]\nnodes = 2\n");
  ASSERT_TRUE(options.ok()) << options.error().message;
  EXPECT_TRUE(options->agents.empty());
  ASSERT_EQ(options->roles.size(), 2U);
  EXPECT_EQ(options->roles[1].spec.name, "thermometer");
  EXPECT_EQ(options->roles[1].spec.count, 2);
  EXPECT_EQ(options->roles[1].nodes, 2);
  EXPECT_EQ(options->roles[0].nodes, 1);
  ASSERT_EQ(options->channels.size(), 1U);
  EXPECT_EQ(options->channels[0].name(), "thermometer.celsius -> display.celsius");
  EXPECT_EQ(options->channels[0].capacity, 7);
  actors::NoMetrics sink;
  const auto topology = actors::run_topology(*options, {sink}, 0);
  ASSERT_TRUE(topology.ok()) << topology.error().message;
  EXPECT_NE(topology->find_message("Celsius"), nullptr);
  EXPECT_TRUE(topology->find("thermometer")->elastic);
  EXPECT_EQ(topology->find("display")->restart.from, actors::RestartFrom::kLastCut);
  EXPECT_THAT(actors::to_dot(*topology),
              AllOf(HasSubstr("\"thermometer\" [label=\"thermometer x 2\"]"),
                    HasSubstr("\"thermometer\" -> \"display\" [label=\"celsius\\nstream 7\"")));
  EXPECT_EQ(actors::elastic_roles(*options).value(), std::vector<std::string>{"thermometer"});
}

TEST(RoleSchema, TheirMistakesAreSaidWithTheirPlaces) {
  EXPECT_EQ(said(kRoles + kChannel), "ok");
  EXPECT_EQ(said("[roles.t]\nkind = 'thermometr'"),
            "f:2: roles.t.kind: unknown value \"thermometr\" (did you mean \"thermometer\"?), expected one of display, "
            "thermometer");
  EXPECT_EQ(said("[roles.t]\nkind = ''\n"), "f:2: roles.t.kind: got \"\", expected one of display, thermometer");
  for (const std::string name : {"actor", "learner", "metrics", "actors", "chief", "operator", "t-1", "x-ps"}) {
    EXPECT_TRUE(said("[roles." + name + "]\nkind = 'display'").starts_with("f:2: roles." + name + ".kind: \"" + name));
  }
  EXPECT_EQ(said("[roles.learner]\nkind = 'display'"),
            "f:2: roles.learner.kind: \"learner\" is what a role or node of Troupe's own is called: expected another "
            "name");
  EXPECT_EQ(said("[roles.t-1]\nkind = 'display'"),
            "f:2: roles.t-1.kind: \"t-1\" ends in a number, as instances do: expected another name");
  EXPECT_EQ(said("[roles.g]\nkind = 'display'\n[replicas.g]\nmodel = 'classifier'\ndata = 'synthetic'"),
            "f:2: roles.g.kind: the role is called like another part of the run");
  EXPECT_EQ(said(kRoles + kChannel + "[placement.thermometer]\nnodes = 3"),
            "f:10: placement.thermometer.nodes: got 3 for 2 instances, expected no more");
  EXPECT_EQ(said(kRoles + "[[channels]]\nfrom = 'thermometer'\nto = 'display.celsius.x'"),
            "f:7: channels[0].from: got \"thermometer\", expected a role and its port: \"thermometer.celsius\"\n"
            "f:8: channels[0].to: got \"display.celsius.x\", expected a role and its port: \"thermometer.celsius\"");
  EXPECT_EQ(said(kRoles + kChannel + kChannel),
            "f:10: channels[1].from: there is a channel thermometer.celsius -> display.celsius already");
}

TEST(RoleSchema, MistakesOfTheTopologyAreSaidWithTheirPlaces) {
  EXPECT_EQ(said(kRoles),
            "f:5: roles.display: role \"display\": inlet \"celsius\" has no channel\n"
            "f:2: roles.thermometer: role \"thermometer\": outlet \"celsius\" has no channel");
  EXPECT_EQ(said(kRoles + "[[channels]]\nfrom = 'thermometer.celsius'\nto = 'display.kelvin'"),
            "f:7: channels[0]: channel thermometer.celsius -> display.kelvin: role \"display\" has no inlet "
            "\"kelvin\": there is celsius\n"
            "f:5: roles.display: role \"display\": inlet \"celsius\" has no channel");
  EXPECT_THAT(said(kRoles + "[[channels]]\nfrom = 'thermometre.celsius'\nto = 'display.celsius'"),
              HasSubstr("f:7: channels[0]: channel thermometre.celsius -> display.celsius: there is no role "
                        "\"thermometre\" (did you mean \"thermometer\"?)\n"));
  EXPECT_THAT(said(kRoles + kChannel + "[[channels]]\nfrom = 'thermometer.celsius'\nto = 'metrics.reports'"),
              AllOf(HasSubstr("f:10: channels[1]: channel thermometer.celsius -> metrics.reports: role "
                              "\"thermometer\" sends Celsius, role \"metrics\" takes Metrics"),
                    HasSubstr("f:10: channels[1]: role \"thermometer\": outlet \"celsius\" has 2 channels, expected "
                              "1")));
  Registry endless = shipped();
  endless.message("Celsius");
  endless.role("thermometer", {.outlets = {{"celsius", "Celsius"}}, .make = role_of<own::Thermometer>});
  endless.role("display", {.inlets = {{"celsius", "Celsius"}},
                           .keys = {{.path = "measurements", .default_value = std::int64_t{1}, .doc = "d"}},
                           .make = role_of<own::Display>});
  EXPECT_EQ(said(kRoles + kChannel, RunKind::kOneProcess, endless),
            "f: topology: no role completes the run, so it would never end");
}

TEST(RoleSchema, AProgramWithoutKindsSaysSo) {
  const std::string none = "none: this program has no kinds of roles, see docs/adding_a_role.md";
  EXPECT_EQ(said("[roles.t]\nkind = 'thermometer'", RunKind::kOneProcess, shipped()),
            "f:2: roles.t.kind: unknown value \"thermometer\", expected one of " + none);
  EXPECT_EQ(said("[roles.t]\nkind = '" + none + "'", RunKind::kOneProcess, shipped()),
            "f:2: roles.t.kind: got \"" + none + "\", expected one of ");
}

TEST(RoleSchema, AFactoryThatRefusesItsKeysIsAMistakeOfTheConfiguration) {
  Registry registry = own_registry();
  registry.role("strict",
                {.outlets = {{"celsius", "Celsius"}}, .make = [](const ConfigSection& keys) {
                   return Result<actors::RoleFactory>(Error{Code::kInvalidArgument, keys.name() + " needs a sensor"});
                 }});
  EXPECT_EQ(said("[roles.t]\nkind = 'strict'", RunKind::kOneProcess, registry),
            "f:2: roles.t.kind: roles.t needs a sensor");
}

TEST(RoleSchema, AnAlgorithmThatDoesNotFitIsRefusedBeforeTheRun) {
  const auto with = [](const std::function<void(Algorithm&)>& change) {
    Registry registry = own_registry();
    registry.algorithm("odd", {.make = [change](const ConfigSection&, std::int64_t) -> Result<MakeAlgorithm> {
                         return MakeAlgorithm([change](const AlgorithmContext& context) -> Result<Algorithm> {
                           TROUPE_ASSIGN(Algorithm made, learner::d4pg::algorithm({})(context));
                           change(made);
                           return made;
                         });
                       }});
    return registry;
  };
  const std::string odd = "env = 'corridor'\nalgorithm = 'odd'\n[replay]\nsampler = 'prioritized'\n";
  const auto told = [&](const std::function<void(Algorithm&)>& change) {
    return said(odd, RunKind::kOneProcess, with(change));
  };
  EXPECT_EQ(told([](Algorithm&) {}), "ok");
  EXPECT_EQ(told([](Algorithm& made) { made.greedy = nullptr; }),
            "f:2: algorithm: algorithm odd: policy, explores, greedy, adder or make_replica is null");
  EXPECT_EQ(told([](Algorithm& made) { made.priority = "surprise"; }),
            "f:2: algorithm: the step has no output \"surprise\", of which the priorities for replay.sampler "
            "or replay.remover are made");
  EXPECT_EQ(told([](Algorithm& made) {
              made.policy = [](learner::Graph& graph) { graph.output("action", graph.input("day", {1})); };
            }),
            "f:2: algorithm: policy: the network reads day, which is no column of its input");
  EXPECT_EQ(told([](Algorithm& made) {
              made.published = {"policy", "encoder"};
            }),
            "f:2: algorithm: the step has no group \"encoder\", which is published");
  EXPECT_EQ(told([](Algorithm& made) { made.published = {"critic"}; }),
            "f:2: algorithm: the policy's tensor 0 is policy/layer0/weight [1, 256], expected critic/layer0/weight [2, "
            "512] of the step, which publishes critic");
  EXPECT_EQ(told([](Algorithm& made) {
              made.published = {"policy", "critic"};
            }).substr(0, 41),
            "f:2: algorithm: the policy's tensor 10 is");
  EXPECT_EQ(told([](Algorithm& made) { made.published = {"policy.target"}; }).substr(0, 70),
            "f:2: algorithm: the policy's tensor 0 is policy/layer0/weight [1, 256]");
  EXPECT_EQ(told([](Algorithm& made) { made.published = {}; }),
            "f:2: algorithm: no group is published, expected at least one");
  EXPECT_EQ(told([](Algorithm& made) { made.adder = replay::n_step_adders(0, 1); }).substr(0, 15), "f:2: algorithm:");
}

TEST(RoleSchema, AnEnvironmentHasItsOwnSection) {
  const std::string small = "env = 'corridor'\n[corridor]\nlength = 7\n";
  const auto options = options_of(small);
  ASSERT_TRUE(options.ok()) << options.error().message;
  EXPECT_EQ(options->agents[0].make_environment(1).value()->spec().episode_steps, 7);
  EXPECT_EQ(said("env = 'corridor'\n[corridor]\nlength = 1"),
            "f:3: corridor.length: out of range: got 1, expected 2 .. 1000");
  EXPECT_EQ(said("env = 'pendulum-swingup'\n[corridor]\nlength = 7"),
            "f:3: corridor.length: has no effect here: it is used only with env = \"corridor\"");
  EXPECT_THAT(said("env = 'corridr'"), HasSubstr("(did you mean \"corridor\"?)"));
  const Registry registry = own_registry();
  const auto was = parse_config(small, "f", {}, train_schema(registry));
  const auto now = parse_config("env = 'corridor'\n[corridor]\nlength = 8\n", "f", {}, train_schema(registry));
  EXPECT_EQ(check_same_run(*now, *was, "r").error().message,
            "f:3: corridor.length: got 8, but r has 7, which is the same for all of a run");
}

TEST(RoleSchema, ARunThatGoesOnHasTheSameRolesAndChannels) {
  const Registry registry = own_registry();
  const auto config = [&](const std::string& text) {
    return parse_config(text, "f", {}, train_schema(registry)).value();
  };
  const Config was = config(kRoles + kChannel);
  EXPECT_TRUE(check_same_run(config(kRoles + kChannel + "capacity = 9"), was, "r").ok());
  EXPECT_EQ(check_same_run(config(kRoles), was, "r").error().message,
            "f: channels: got 0, but r has 1, which is the same for all of a run");
  EXPECT_THAT(check_same_run(config(kChannel + "[roles.display]\nkind = 'display'"), was, "r").error().message,
              HasSubstr("roles.thermometer: missing, but r has this role"));
}

/// Trains what a configuration says, in one process.
Result<actors::TrainSummary> run_here(const std::string& text, MetricSink& sink, const std::filesystem::path& folder,
                                      bool resume = false) {
  TROUPE_ASSIGN(const actors::TrainOptions options, options_of(text));
  return actors::train(options, {.metrics = &sink, .checkpoint_dir = folder / "checkpoints", .resume = resume});
}

TEST(RoleSchema, ATopologyOfRolesAloneRunsAndGoesOnFromItsCheckpoint) {
  const std::filesystem::path folder = std::filesystem::path(::testing::TempDir()) / "own_topology";
  for (const std::string how : {"", "deterministic = true\n"}) {
    std::filesystem::remove_all(folder);
    actors::testing::RecordingSink sink;
    const auto first = run_here(how + kRoles + "measurements = 50\n" + kChannel, sink, folder);
    ASSERT_TRUE(first.ok()) << first.error().message;
    EXPECT_EQ(first->stop_reason, actors::StopReason::kRolesDone);
    const auto second = run_here(how + kRoles + "measurements = 80\n" + kChannel, sink, folder, true);
    ASSERT_TRUE(second.ok()) << second.error().message;
    EXPECT_EQ(second->stop_reason, actors::StopReason::kRolesDone);
  }
  std::filesystem::remove_all(folder);
}

TEST(RoleSchema, D4pgLearnsInAnEnvironmentOfOnesOwnBesideRolesOfOnesOwn) {
  const std::filesystem::path folder = std::filesystem::path(::testing::TempDir()) / "own_environment";
  std::filesystem::remove_all(folder);
  actors::testing::RecordingSink sink;
  const auto summary = run_here(
      "env = 'corridor'\nmax_learner_steps = 200\n[replay]\nmin_items = 32\nsamples_per_insert = 4\ntolerance = 1\n"
      "[d4pg]\npolicy_layers = [16]\ncritic_layers = [16]\natoms = 11\nv_min = 0\nv_max = 20\n[learner]\nbatch_size = "
      "16\n"
      "[evaluator]\nepisodes = 2\n" +
          kRoles + kChannel,
      sink, folder);
  ASSERT_TRUE(summary.ok()) << summary.error().message;
  EXPECT_EQ(summary->stop_reason, actors::StopReason::kMaxLearnerSteps);
  EXPECT_EQ(summary->learner_steps, 200);
  ASSERT_TRUE(summary->agents[0].final_evaluation.has_value());
  EXPECT_EQ(find_scalar(summary->agents[0].final_evaluation->values, "episodes"), 2);
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace troupe::apps
