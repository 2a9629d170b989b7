#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include <troupe/run/models/image_keys.hpp>
#include <troupe/run/replica_schema.hpp>
#include <troupe/run/train_schema.hpp>
#include <troupe/tests/paths.hpp>
#include <troupe/tests/run/section.hpp>

namespace troupe::apps {
namespace {

/// What ships, of environments only those that the shipped configurations name.
const Registry& registry() {
  static const Registry made = [] {
    Registry some;
    const Registry all = shipped();
    for (const auto& [name, kind] : all.algorithms()) some.algorithm(name, kind);
    for (const auto& [name, kind] : all.models()) some.model(name, kind);
    for (const auto& [name, kind] : all.wrappers()) some.wrapper(name, kind);
    for (const char* const name : {"Pendulum-v1",
                                   "acrobot-swingup",
                                   "ball_in_cup-catch",
                                   "cartpole-balance",
                                   "cartpole-balance_sparse",
                                   "cartpole-swingup",
                                   "cartpole-swingup_sparse",
                                   "cheetah-run",
                                   "dog-walk",
                                   "finger-spin",
                                   "finger-turn_easy",
                                   "finger-turn_hard",
                                   "hopper-hop",
                                   "hopper-stand",
                                   "humanoid-walk",
                                   "pendulum-swingup",
                                   "reacher-easy",
                                   "reacher-hard",
                                   "walker-run",
                                   "walker-stand",
                                   "walker-walk"}) {
      some.environment(name, envs::shared_environments(name));
    }
    return some;
  }();
  return made;
}

std::string message_of(const std::string& text) {
  const Result<Config> config = parse_config(text, "f", {}, train_schema(registry()));
  if (!config.ok()) return config.error().message;
  const Result<actors::TrainOptions> options = to_train_options(*config, registry());
  return options.ok() ? "ok" : options.error().message;
}

TEST(TrainSchema, DefaultsAreThoseOfTheOptionsAndPassTheirOwnChecks) {
  const Result<Config> config = parse_config("env = 'cartpole-swingup'", "f", {}, train_schema(registry()));
  ASSERT_TRUE(config.ok()) << config.error().message;
  // The resolved file goes through every range check again.
  const Result<Config> again = parse_config(config->to_toml(), "f", {}, train_schema(registry()));
  ASSERT_TRUE(again.ok()) << again.error().message;
  const Result<actors::TrainOptions> options = to_train_options(*again, registry());
  ASSERT_TRUE(options.ok()) << options.error().message;
  const actors::TrainOptions d;
  EXPECT_EQ(options->agents[0].env, "cartpole-swingup");
  EXPECT_EQ(options->seed, d.seed);
  const actors::AgentOptions agent;
  EXPECT_EQ(options->agents[0].algorithm, "d4pg");
  EXPECT_EQ(options->agents[0].learner.batch_size, agent.learner.batch_size);
  EXPECT_EQ(options->agents[0].replay.samples_per_insert, agent.replay.samples_per_insert);
  EXPECT_EQ(options->supervisor.backoff_max_s, d.supervisor.backoff_max_s);
}

TEST(TrainSchema, EveryKeyIsDocumentedAndReachesItsField) {
  std::string text = "env = 'reacher-easy'\n";
  ConfigSchema schema = train_schema(registry());
  for (const ConfigKey& key : schema) {
    EXPECT_GT(key.doc.size(), 8u) << key.path;
    EXPECT_LT(key.doc.size(), 80u) << key.path;
  }
  std::erase_if(schema, [](const ConfigKey& key) {  // see below, role_schema_test.cpp, and the tests of algorithms
    return key.path.find_first_of("*[") != std::string::npos;
  });
  // Values that no default has, each its own: a key wired to a neighbour's field shows.
  const std::vector<std::string> set = {"name=n",
                                        "seed=11",
                                        "deterministic=true",
                                        "init=other",
                                        "max_minutes=12",
                                        "max_env_steps=13",
                                        "max_learner_steps=14",
                                        "actors.count=17",
                                        "actors.envs_per_actor=52",
                                        "actors.threads=51",
                                        "actors.inference=server",
                                        "inference.count=46",
                                        "inference.batch_size=47",
                                        "inference.max_wait_ms=48",
                                        "staleness.max_versions=49",
                                        "replay.shards=5",
                                        "replay.max_items=1900000",
                                        "replay.max_bytes=2000000",
                                        "replay.min_items=2100",
                                        "replay.samples_per_insert=22",
                                        "replay.tolerance=0.23",
                                        "replay.limiter=queue",
                                        "replay.sampler=prioritized",
                                        "replay.remover=min_heap",
                                        "replay.max_times_sampled=96",
                                        "replay.priority_exponent=0.24",
                                        "replay.durability=durable",
                                        "replay.device=cpu",
                                        "replay.external=true",
                                        "algorithm=d4pg",
                                        "learner.reduce=hierarchical_copy",
                                        "learner.devices=1",
                                        "learner.accumulate=1",
                                        "learner.wire=fp32",
                                        "learner.batch_size=56",
                                        "learner.count=1",
                                        "learner.replicator=central_storage",
                                        "learner.ps_shards=57",
                                        "learner.ps_partition=max_size",
                                        "learner.staleness=drop",
                                        "learner.max_staleness=58",
                                        "learner.backup_workers=0",
                                        "learner.deterministic=true",
                                        "learner.kind=program",
                                        "learner.publish_period=45",
                                        "learner.compute=bf16",
                                        "learner.threads=36",
                                        "learner.device=[\"cpu\", \"cpu\"]",
                                        "inference.device=[\"cuda:4\", \"cpu\"]",
                                        "wrappers=[\"time_limit\", \"crop\"]",
                                        "evaluator.env=cheetah-run",
                                        "evaluator.wrappers=[\"resize\"]",
                                        "evaluator.episodes=37",
                                        "evaluator.every_learner_steps=38",
                                        "checkpoint.every_s=39",
                                        "checkpoint.keep=40",
                                        "metrics.every_s=41",
                                        "supervisor.max_restarts=42",
                                        "supervisor.backoff_first_s=43",
                                        "supervisor.backoff_max_s=44",
                                        "security.nccl_interface=ib0",
                                        "placement.actors.nodes=2",
                                        "placement.replay.nodes=3",
                                        "placement.learner.nodes=0",
                                        "placement.learner_ps.nodes=4",
                                        "placement.parameters.nodes=0",
                                        "placement.evaluator.nodes=0",
                                        "placement.inference.nodes=6"};
  const auto elsewhere = [](const std::string& section) {  // they have tests of their own
    return registry().algorithms().contains(section) || registry().wrappers().contains(section);
  };
  const auto of_those = std::ranges::count_if(schema, [&](const ConfigKey& key) {
    const std::string section = key.path.substr(0, key.path.find('.'));
    return section != key.path && elsewhere(section);
  });
  EXPECT_EQ(set.size() + 1 + static_cast<std::size_t>(of_those), schema.size()) << "a key is missing from this test";
  const Result<Config> config = parse_config(text, "f", set, schema);
  ASSERT_TRUE(config.ok()) << config.error().message;
  const Result<actors::TrainOptions> made = to_train_options(*config, registry());
  ASSERT_TRUE(made.ok()) << made.error().message;
  const actors::TrainOptions& o = *made;
  EXPECT_EQ(o.name, "n");
  EXPECT_EQ(o.agents[0].env, "reacher-easy");
  EXPECT_EQ(o.seed, 11u);
  EXPECT_TRUE(o.deterministic);
  EXPECT_EQ(o.init, "other");
  EXPECT_NE(o.begin_with, nullptr);
  EXPECT_EQ(o.max_minutes, 12);
  EXPECT_EQ(o.agents[0].max_env_steps, 13);
  EXPECT_EQ(o.agents[0].max_learner_steps, 14);
  EXPECT_EQ(o.agents[0].actors.count, 17);
  EXPECT_EQ(o.agents[0].actors.envs_per_actor, 52);
  EXPECT_EQ(o.agents[0].actors.threads, 51);
  EXPECT_EQ(o.agents[0].actors.inference, "server");
  EXPECT_EQ(o.agents[0].inference.count, 46);
  EXPECT_EQ(o.agents[0].inference.batch_size, 47);
  EXPECT_EQ(o.agents[0].inference.max_wait_ms, 48);
  EXPECT_EQ(o.agents[0].staleness.max_versions, 49);
  EXPECT_EQ(o.agents[0].replay.shards, 5);
  EXPECT_EQ(o.agents[0].replay.max_items, 1900000);
  EXPECT_EQ(o.agents[0].replay.max_bytes, 2000000);
  EXPECT_EQ(o.agents[0].replay.min_items, 2100);
  EXPECT_EQ(o.agents[0].replay.samples_per_insert, 22);
  EXPECT_EQ(o.agents[0].replay.tolerance, 0.23);
  EXPECT_EQ(o.agents[0].replay.limiter, "queue");
  EXPECT_EQ(o.agents[0].replay.sampler, "prioritized");
  EXPECT_EQ(o.agents[0].replay.remover, "min_heap");
  EXPECT_EQ(o.agents[0].replay.max_times_sampled, 96);
  EXPECT_EQ(o.agents[0].replay.priority_exponent, 0.24);
  EXPECT_TRUE(o.agents[0].replay.external);
  EXPECT_EQ(o.agents[0].replay.durability, "durable");
  EXPECT_EQ(o.agents[0].replay.device, std::vector<std::string>{"cpu"});
  EXPECT_EQ(o.agents[0].learner.batch_size, 56);
  EXPECT_EQ(o.agents[0].learner.replicator, "central_storage");
  EXPECT_EQ(o.agents[0].learner.ps_shards, 57);
  EXPECT_EQ(o.agents[0].learner.ps_partition, "max_size");
  EXPECT_EQ(o.agents[0].learner.staleness, "drop");
  EXPECT_EQ(o.agents[0].learner.max_staleness, 58);
  EXPECT_TRUE(o.agents[0].learner.deterministic);
  EXPECT_EQ(o.agents[0].publish_period, 45);
  EXPECT_EQ(o.agents[0].learner.compute, "bf16");
  EXPECT_EQ(o.agents[0].learner.threads, 36);
  EXPECT_EQ(o.agents[0].learner.device, (std::vector<std::string>{"cpu", "cpu"}));
  EXPECT_EQ(o.agents[0].inference.device, (std::vector<std::string>{"cuda:4", "cpu"}));
  ASSERT_EQ(o.agents[0].wrappers.size(), 2u);
  EXPECT_EQ(o.agents[0].wrappers[0].name, "time_limit");
  EXPECT_EQ(o.agents[0].wrappers[1].name, "crop");
  EXPECT_EQ(o.agents[0].evaluator.env, "cheetah-run");
  EXPECT_NE(o.agents[0].evaluator.make_environment, nullptr);
  ASSERT_EQ(o.agents[0].evaluator.wrappers.size(), 1u);
  EXPECT_EQ(o.agents[0].evaluator.wrappers[0].name, "resize");
  EXPECT_EQ(o.agents[0].evaluator.episodes, 37);
  EXPECT_EQ(o.agents[0].evaluator.every_learner_steps, 38);
  EXPECT_EQ(o.checkpoint.every_s, 39);
  EXPECT_EQ(o.checkpoint.keep, 40);
  EXPECT_EQ(o.metrics.every_s, 41);
  EXPECT_EQ(o.supervisor.max_restarts, 42);
  EXPECT_EQ(o.supervisor.backoff_first_s, 43);
  EXPECT_EQ(o.supervisor.backoff_max_s, 44);
  EXPECT_EQ(o.security.nccl_interface, "ib0");
  EXPECT_EQ(o.agents[0].placement.actors, 2);
  EXPECT_EQ(o.agents[0].placement.replay, 3);
  EXPECT_EQ(o.agents[0].placement.learner, 0);
  EXPECT_EQ(o.agents[0].placement.learner_ps, 4);
  EXPECT_EQ(o.agents[0].placement.parameters, 0);
  EXPECT_EQ(o.agents[0].placement.evaluator, 0);
  EXPECT_EQ(o.agents[0].placement.inference, 6);
}

TEST(TrainSchema, ReportsWhatOnlySeveralKeysTogetherGetWrong) {
  const std::string env = "env = 'cheetah-run'\n";
  EXPECT_EQ(message_of(env + "name = '../x'"),
            "f:2: name \"../x\" cannot be part of a directory name: expected 1 .. 100 letters, digits, '-', '_' or "
            "'.', a letter or digit first");
  EXPECT_EQ(message_of(env + "[d4pg]\nv_min = 150"), "f:3: d4pg.v_min: got 150 with v_max 150, expected less");
  EXPECT_EQ(message_of(env + "[replay]\nmin_items = 20\nmax_items = 10\n[supervisor]\nbackoff_first_s = 11"),
            "f:3: replay.min_items must not exceed replay.max_items: got 20 and 10\n"
            "f:3: replay.min_items * replay.tolerance * replay.samples_per_insert = 64 samples of error buffer "
            "would block actors and learner for ever: expected at least 144\n"
            "f:6: supervisor.backoff_first_s must not exceed supervisor.backoff_max_s: got 11 and 10");
  EXPECT_EQ(message_of(env + "[replay]\nshards = 8\nmin_items = 7\ntolerance = 10\n"),
            "f:3: replay.shards must not exceed replay.min_items: got 8 and 7");
  // 3200 samples of buffer: 144 for each shard.
  EXPECT_EQ(message_of(env + "[replay]\nshards = 22"), "ok");
  EXPECT_EQ(message_of(env + "[replay]\nshards = 23"),
            "f:3: replay.min_items * replay.tolerance * replay.samples_per_insert = 3200 samples of error buffer would "
            "block actors and learner for ever: expected at least 3312 for 23 replay.shards");
  EXPECT_EQ(message_of(env + "[replay]\ndevice = 'cuda:1'\n[learner]\ndevice = 'cuda:1'"), "ok");
  EXPECT_EQ(message_of(env + "[replay]\ndevice = 'cuda:1'\n[learner]\ndevice = ['cuda:0', 'cuda:1']\ncount = 2"),
            "f:3: replay.device must be cpu, or what learner.device is, GPUs or devices of a PJRT plug-in alone, with "
            "replay.shards = 1 and, of several learners, learner.replicator = \"multi_worker\": got \"cuda:1\" with "
            "learner.device \"cuda:0\", \"cuda:1\", 1 shards, 2 learners and learner.replicator \"multi_worker\"");
  EXPECT_EQ(message_of(env + "[replay]\ndevice = 'tpu:1'\n[learner]\ndevice = 'tpu:1'"), "ok");
  EXPECT_EQ(message_of(env + "[replay]\ndevice = 'pjrt:cpu'\n[learner]\ndevice = 'pjrt:cpu#0'"), "ok");
  EXPECT_THAT(message_of(env + "[replay]\ndevice = ['pjrt:cpu#0', 'cuda:1']\n[learner]\ndevice = ['pjrt:cpu#0', "
                               "'cuda:1']\ncount = 2"),
              ::testing::StartsWith("f:3: replay.device must be cpu"));
  const std::string gpus = env + "[replay]\ndevice = ['cuda:0', 'cuda:1']\n";
  const std::string learners = "[learner]\ndevice = ['cuda:0', 'cuda:1']\ncount = 2\n";
  EXPECT_EQ(message_of(gpus + learners), "ok");
  EXPECT_EQ(message_of(env + "[replay]\ndevice = 'cuda:0'\n[learner]\ndevice = 'cuda:0'\ncount = 2"), "ok");
  EXPECT_THAT(message_of(gpus + learners + "replicator = 'multi_device'"),
              ::testing::StartsWith("f:3: replay.device must be cpu"));
  EXPECT_THAT(message_of(gpus + "shards = 2\n" + learners), ::testing::StartsWith("f:3: replay.device must be cpu"));
  EXPECT_THAT(
      message_of(env + "[replay]\ndevice = ['cpu', 'cuda:1']\n[learner]\ndevice = ['cpu', 'cuda:1']\ncount = 2"),
      ::testing::StartsWith("f:3: replay.device must be cpu"));
  EXPECT_EQ(message_of(gpus + "tolerance = 0.008\n" + learners),
            "f:4: replay.min_items * replay.tolerance * replay.samples_per_insert = 256 samples of error buffer would "
            "block actors and learner for ever: expected at least 288 for 2 learners");
  EXPECT_THAT(message_of(env + "[replay]\ndevice = 'cuda:1'\n[learner]\ndevice = 'cuda:1'\nreplicator = "
                               "'parameter_server'"),
              ::testing::StartsWith("f:3: replay.device must be cpu"));
  EXPECT_EQ(
      message_of(env + "[replay]\ndevice = 'cuda:1'\nexternal = true\n[learner]\ndevice = 'cuda:1'"),
      "f:4: replay.external: got true, expected false with replay.device \"cuda:1\", as the learner holds replay");
  EXPECT_EQ(message_of(env + "[learner]\nreplicator = 'sync_replicas'\ncount = 2\nps_shards = 2\n[placement]\n"
                             "learner.nodes = 2\nlearner_ps.nodes = 2"),
            "ok");
  EXPECT_EQ(message_of(env + "[learner]\nreplicator = 'parameter_server'\n[placement]\nlearner_ps.nodes = 2"),
            "f:5: placement.learner_ps.nodes must not exceed learner.ps_shards: got 2 and 1");
  EXPECT_EQ(message_of(env + "[placement]\nactors.nodes = 3\n[actors]\ncount = 2"),
            "f:3: placement.actors.nodes must not exceed actors.count: got 3 and 2");
}

TEST(TrainSchema, NcclGetsTheNameOfOneInterface) {
  const std::string env = "env = 'cheetah-run'\n";
  for (const std::string good : {"", "eth0", "enp129s0f1np1.2", "br-lan_2"}) {
    EXPECT_EQ(message_of(env + "[security]\nnccl_interface = '" + good + "'"), "ok");
  }
  EXPECT_EQ(
      message_of(env + "[security]\nnccl_interface = 'eth0,eth1'"),
      "f:3: security.nccl_interface is \"eth0,eth1\", expected the name of a network interface as `ip link` shows "
      "it");
  for (const std::string bad : {"^lo", "=eth0", "a name", "eth/0", "sixteen_letters_", "..", "lo\\u0007", "\\n"}) {
    EXPECT_THAT(message_of(env + "[security]\nnccl_interface = \"" + bad + "\""),
                ::testing::HasSubstr("f:3: security.nccl_interface"))
        << bad;
  }
  const auto config = parse_config("[security]\nnccl_interface = 'eth0'\n[replicas.g]\nmodel = 'classifier'", "f", {},
                                   train_schema(registry()));
  EXPECT_EQ(to_train_options(*config, registry())->replicas[0].group.nccl_interface, "eth0");
}

TEST(TrainSchema, LearnersShareABatchEvenly) {
  const std::string env = "env = 'cartpole-swingup'\n";
  EXPECT_EQ(message_of(env + "[learner]\ncount = 4"), "ok");
  EXPECT_EQ(message_of(env + "[learner]\ncount = 3"),
            "f:3: learner.batch_size must be a multiple of learner.count: got 256 and 3");
  EXPECT_EQ(message_of(env + "deterministic = true\n[learner]\ncount = 2"), "ok");
  EXPECT_EQ(
      message_of(env + "[learner]\ndeterministic = true\nbatch_size = 36\ncount = 4"),
      "f:3: learner.deterministic: got learner.count = 4 and learner.batch_size = 36, expected 1, 2, 4 or 8 and a "
      "multiple of 8");
  EXPECT_EQ(message_of(env + "[learner]\ncount = 2\nreplicator = 'multi_device'\n[placement]\nlearner.nodes = 2"),
            "f:6: placement.learner.nodes is 2, but learner.replicator = \"multi_device\" has all learners in one "
            "instance");
  EXPECT_EQ(message_of(env + "[learner]\ncount = 2\n[placement]\nlearner.nodes = 3"),
            "f:5: placement.learner.nodes must not exceed learner.count: got 3 and 2");
}

TEST(TrainSchema, AnUnknownEnvironmentGetsTheNearestOne) {
  EXPECT_THAT(
      message_of("env = 'cheetah_run'"),
      ::testing::StartsWith("f:1: env: unknown value \"cheetah_run\" (did you mean \"cheetah-run\"?), expected one of "
                            "Pendulum-v1, acrobot-swingup, "));
}

TEST(TrainSchema, ShippedConfigsAreGood) {
  int files = 0;
  for (const auto& file : shipped_config_files()) {
    const Result<Config> config = load_config(file, {}, train_schema(registry()));
    ASSERT_TRUE(config.ok()) << config.error().message;
    const Result<actors::TrainOptions> options = to_train_options(*config, registry());
    ASSERT_TRUE(options.ok()) << options.error().message;
    ++files;
    if (!options->replicas.empty()) continue;
    if (file.parent_path().filename() == "agents") {  // each for any environment
      EXPECT_EQ(options->agents[0].algorithm, file.stem().string());
      continue;
    }
    // cartpole_swingup.toml trains cartpole-swingup, pendulum_v1.toml Pendulum-v1, cheetah_run_td3.toml not by D4PG,
    // and cartpole_swingup_pixels_drqv2.toml from pixels.
    std::string env = options->agents[0].env;
    const auto& wrappers = options->agents[0].wrappers;
    if (std::ranges::find(wrappers, "pixels", &envs::NamedWrap::name) != wrappers.end()) env += "_pixels";
    if (options->agents[0].algorithm != "d4pg") env += "_" + options->agents[0].algorithm;
    for (char& c : env) c = c == '-' ? '_' : static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    EXPECT_EQ(env, file.stem().string());
  }
  EXPECT_GE(files, 38);
}

TEST(TrainSchema, ConfigsOfTheSuiteDifferInTheEnvironmentAlone) {
  std::map<std::string, std::string> text_of_env;
  for (const auto& entry : std::filesystem::directory_iterator(source_dir() + "/apps/configs/suite")) {
    const Result<Config> config = load_config(entry.path(), {}, train_schema(registry()));
    ASSERT_TRUE(config.ok()) << config.error().message;
    std::string settings;
    for (const ConfigKey& key : config->schema()) {
      if (key.path != "env") settings += fmt::format("{} = {}\n", key.path, to_toml(config->value(key.path)));
    }
    text_of_env[config->get_string("env")] = settings;
  }
  EXPECT_EQ(text_of_env.size(), 18);
  for (const auto& [env, settings] : text_of_env) EXPECT_EQ(settings, text_of_env.begin()->second) << env;
}

TEST(TrainSchema, EveryKeyOfAReplicaGroupReachesItsField) {
  const std::vector<std::string> set = {"replicator=sync_replicas",
                                        "count=5",
                                        "devices=1",
                                        "reduce=collective",
                                        "batch_size=11",
                                        "accumulate=1",
                                        "steps=12",
                                        "compute=bf16",
                                        "threads=2",
                                        "device=auto",
                                        "wire=bf16",
                                        "ps_shards=20",
                                        "ps_partition=max_size",
                                        "staleness=scale",
                                        "max_staleness=21",
                                        "backup_workers=2",
                                        "discriminators=1",
                                        "evaluate_every_steps=22",
                                        "nodes=3",
                                        "ps_nodes=4",
                                        "discriminator_nodes=5"};
  // model, and deterministic, which goes without bf16.
  EXPECT_EQ(set.size() + 2, common_group_keys().size()) << "a key is missing from this test";
  std::vector<std::string> overrides;
  for (const std::string& one : set) overrides.push_back("replicas.g." + one);
  const auto config = parse_config("[replicas.g]\nmodel = 'classifier'", "f", overrides, train_schema(registry()));
  ASSERT_TRUE(config.ok()) << config.error().message;
  const auto made = to_train_options(*config, registry());
  ASSERT_TRUE(made.ok()) << made.error().message;
  EXPECT_TRUE(made->agents.empty());
  ASSERT_EQ(made->replicas.size(), 1U);
  const actors::ReplicaRun& run = made->replicas[0];
  const actors::ReplicaGroupOptions& group = run.group;
  EXPECT_EQ(group.name, "g");
  EXPECT_EQ(group.replicator, "sync_replicas");
  EXPECT_EQ(group.count, 5);
  EXPECT_EQ(group.devices, 1);
  EXPECT_EQ(group.reduce, "collective");
  EXPECT_EQ(group.batch_size, 11);
  EXPECT_EQ(group.steps, 12);
  EXPECT_EQ(group.accumulate, 1);
  const auto same_bits = parse_config("[replicas.g]\nmodel = 'classifier'\ndeterministic = true\naccumulate = 4", "f",
                                      {}, train_schema(registry()));
  ASSERT_TRUE(same_bits.ok()) << same_bits.error().message;
  EXPECT_TRUE(to_train_options(*same_bits, registry())->replicas[0].group.deterministic);
  EXPECT_EQ(to_train_options(*same_bits, registry())->replicas[0].group.accumulate, 4);
  EXPECT_EQ(group.wire, "bf16");
  EXPECT_EQ(group.compute, "bf16");
  EXPECT_EQ(group.threads, 2);
  EXPECT_EQ(group.device, std::vector<std::string>{"auto"});
  EXPECT_EQ(group.ps_shards, 20);
  EXPECT_EQ(group.ps_partition, "max_size");
  EXPECT_EQ(group.staleness, "scale");
  EXPECT_EQ(group.max_staleness, 21);
  EXPECT_EQ(group.backup_workers, 2);
  EXPECT_EQ(group.evaluate_every_steps, 22);
  EXPECT_EQ(run.model, "classifier");
  EXPECT_EQ(run.nodes, 3);
  EXPECT_EQ(run.ps_nodes, 4);
  EXPECT_EQ(run.discriminator_nodes, 5);
}

TEST(TrainSchema, EveryKeyOfImagesReachesItsField) {
  const ConfigSection keys = troupe::testing::section(actors::image_keys(), {{"data", std::string("synthetic")},
                                                                             {"data_dir", std::string("/images")},
                                                                             {"image_size", std::int64_t{32}},
                                                                             {"classes", std::int64_t{33}},
                                                                             {"channels", std::int64_t{3}},
                                                                             {"crop", std::string("pad")},
                                                                             {"flip", true},
                                                                             {"normalize", std::string("imagenet")},
                                                                             {"data_threads", std::int64_t{5}},
                                                                             {"skip_damaged", true}});
  const actors::ImageDataOptions images = actors::read_images(keys);
  EXPECT_EQ(images.data, "synthetic");
  EXPECT_EQ(images.data_dir, "/images");
  EXPECT_EQ(images.image_size, 32);
  EXPECT_EQ(images.classes, 33);
  EXPECT_EQ(images.channels, 3);
  EXPECT_EQ(images.crop, "pad");
  EXPECT_TRUE(images.flip);
  EXPECT_EQ(images.normalize, "imagenet");
  EXPECT_EQ(images.data_threads, 5);
  EXPECT_TRUE(images.skip_damaged);
  EXPECT_EQ(actors::image_keys().size(), 10u) << "a key is missing from this test";
}

TEST(TrainSchema, AgentsWithNamesHaveSectionsOfTheirOwn) {
  const std::string two =
      "[agents.alice]\nenv = 'cartpole-swingup'\nmax_env_steps = 7\n[agents.alice.d4pg]\natoms = 21\n"
      "[agents.bob]\nenv = 'reacher-easy'\n[agents.bob.learner]\ncount = 2\n[agents.bob.placement]\nactors.nodes = 0\n";
  const auto config = parse_config(two, "f", {}, train_schema(registry()));
  ASSERT_TRUE(config.ok()) << config.error().message;
  const auto options = to_train_options(*config, registry());
  ASSERT_TRUE(options.ok()) << options.error().message;
  ASSERT_EQ(options->agents.size(), 2u);
  EXPECT_EQ(options->agents[0].name, "alice");
  EXPECT_EQ(options->agents[0].max_env_steps, 7);
  EXPECT_EQ(options->agents[1].env, "reacher-easy");
  EXPECT_EQ(options->agents[1].learner.count, 2);
  EXPECT_EQ(options->agents[1].placement.actors, 0);
  EXPECT_EQ(message_of(two + "[agents.bob.replay]\nmin_items = 20\nmax_items = 10"),
            "f:13: agents.bob.replay.min_items must not exceed agents.bob.replay.max_items: got 20 and 10\n"
            "f:13: agents.bob.replay.min_items * agents.bob.replay.tolerance * agents.bob.replay.samples_per_insert = "
            "64 samples of error buffer would block actors and learner for ever: expected at least 144");
  EXPECT_EQ(
      message_of("[agents.alice]\nmax_env_steps = 7"),
      "f:1: missing key agents.alice.env: Environment of the agent, one of `troupe envs`; empty: there is no agent");
  EXPECT_EQ(
      message_of("env = 'reacher-easy'\n" + two),
      "f:1: env: got \"reacher-easy\", but the run's agents have names: expected it in an [agents.NAME], with its "
      "sections");
  EXPECT_EQ(
      message_of("[agents.a-learner]\nenv = 'reacher-easy'"),
      "f:2: agents.a-learner: \"a-learner\" ends in \"-learner\", as roles of agents and groups do: expected another "
      "name");
  EXPECT_EQ(message_of("[agents.g]\nenv = 'reacher-easy'\n[replicas.g]\nmodel = 'classifier'"),
            "f:2: agents.g: the agent is called like another part of the run");
  EXPECT_EQ(message_of("[agents.a]\nenv = 'reacher-easy'\n[agents.a.d4pg]\nv_min = 150"),
            "f:4: agents.a.d4pg.v_min: got 150 with v_max 150, expected less");
}

TEST(TrainSchema, AKeyThatMovedIsToldWhereItIs) {
  EXPECT_EQ(message_of("env = 'reacher-easy'\nn_step = 3\n[learner]\nv_min = -1\ngradient_norm_clip = 2"),
            "f:2: n_step has moved: it is d4pg.n_step now\n"
            "f:4: learner.v_min has moved: it is d4pg.v_min now\n"
            "f:5: learner.gradient_norm_clip has moved: it is d4pg.policy_gradient_norm_clip and "
            "d4pg.critic_gradient_norm_clip now");
}

TEST(TrainSchema, MistakesInReplicaGroupsNameLineAndKey) {
  const std::string model = "[replicas.g]\nmodel = 'classifier'\n";
  EXPECT_EQ(message_of(model + "data = 'cifar10'"),
            "f:2: replicas.g.data_dir: empty, expected the folder of \"cifar10\"");
  EXPECT_EQ(
      message_of(model + "data = 'tfrecord'\ndata_dir = '/x'\nimage_size = 0"),
      "f:5: replicas.g.image_size: 0, but images of \"tfrecord\" are of several sizes, expected theirs in training");
  EXPECT_EQ(message_of("[replicas.g]\nmodel = 'sngan'\nnormalize = 'imagenet'\nchannels = 3"),
            "f:3: replicas.g.normalize: got \"imagenet\", but sngan makes images in [-1, 1]");
  EXPECT_EQ(message_of("[replicas.g]\nmodel = 'sngan'\nconditional = true"),
            "f:3: replicas.g.conditional: true, but network \"mlp\" does not look at labels, expected \"resnet\"");
  EXPECT_EQ(
      message_of(model + "optimizer = 'adamw'"),
      "f:2: replicas.g.weight_decay: got 0, but without it optimizer \"adamw\" is \"adam\": expected more than 0");
  for (const std::string all : {"central_storage", "parameter_server", "sync_replicas"}) {
    EXPECT_EQ(message_of(model + "accumulate = 2\nreplicator = '" + all + "'"),
              "f:3: replicas.g.accumulate: got 2, but replicator \"" + all + "\" makes an update of every batch");
  }
  EXPECT_EQ(message_of(model + "channels = 2"), "f:3: replicas.g.channels: got 2, expected 1, 3, or 0");
  EXPECT_EQ(message_of(""),
            "f: missing key env: the environment of an agent, or an [agents.NAME], [replicas.NAME] or [roles.NAME]");
  EXPECT_EQ(message_of(model), "ok");
  EXPECT_EQ(message_of(model + "replicator = 'multi_wroker'"),
            "f:3: replicas.g.replicator: unknown value \"multi_wroker\" (did you mean \"multi_worker\"?), expected one "
            "of one_device, multi_device, multi_worker, central_storage, parameter_server, sync_replicas, "
            "model_parallel, split_gan");
  EXPECT_EQ(message_of(model + "bach_size = 3"),
            "f:3: unknown key replicas.g.bach_size (did you mean replicas.g.batch_size?)");
  EXPECT_EQ(message_of(model + "count = 2"),
            "f:3: replicas.g.count: got 2, but replicator \"one_device\" runs one replica");
  EXPECT_THAT(message_of("[replicas.g]\nmodel = 'resnet'\ndepth = 21"),
              ::testing::StartsWith("f:3: replicas.g.depth: resnet: depth is 21, expected 18, 34, 50"));
  EXPECT_EQ(message_of(model + "nodes = 2"), "f:3: replicas.g.nodes: got 2 for 1 instance, expected no more");
  EXPECT_EQ(message_of(model + "replicator = 'multi_worker'\ncount = 2\nbatch_size = 1\nbackup_workers = 1"),
            "f:5: replicas.g.batch_size: got 1 for 2 replicas\n"
            "f:6: replicas.g.backup_workers: got 1, but replicator \"multi_worker\" has none");
  EXPECT_EQ(message_of("deterministic = true\n" + model + "replicator = 'multi_worker'\ncount = 2"), "ok");
  const std::string split = "[replicas.g]\nmodel = 'sngan'\nreplicator = 'split_gan'\n";
  EXPECT_EQ(message_of(split + "count = 2\ndiscriminators = 2\ndiscriminator_nodes = 2"), "ok");
  EXPECT_EQ(message_of(model + "replicator = 'split_gan'"),
            "f:3: replicas.g.replicator: got \"split_gan\" for model \"classifier\", which has no generator and "
            "discriminator");
  EXPECT_EQ(message_of(split + "max_staleness = 2\ndiscriminator_nodes = 2"),
            "f:4: replicas.g.max_staleness: got 2 with n_dis 1, expected at least 3\n"
            "f:5: replicas.g.discriminator_nodes: got 2 for 1 discriminator, expected no more");
  for (const std::string name : {"learner", "x-ps", "x-evaluator", "x-discriminator", "x-3"}) {
    EXPECT_THAT(message_of("[replicas." + name + "]\nmodel = 'sngan'"),
                ::testing::StartsWith("f:2: replicas." + name + ".model: \"" + name + "\" "));
  }
}

}  // namespace
}  // namespace troupe::apps
