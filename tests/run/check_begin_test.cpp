// What a configuration is refused for before a run begins or goes on, with the place of the key that is wrong.
#include <troupe/run/check_begin.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <troupe/core/text.hpp>
#include <troupe/envs/environment.hpp>
#include <troupe/run/idle_keys.hpp>
#include <troupe/run/train_schema.hpp>
#include <troupe/tests/paths.hpp>

namespace troupe::apps {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

Config config_of(const std::string& text, const std::vector<std::string>& overrides = {}) {
  return parse_config(text, "f", overrides, train_schema(shipped())).value();
}

/// What a run of this configuration is refused for, by whichever check; "ok" if it may begin.
std::string refusal(const std::string& text, RunKind kind = RunKind::kOneProcess) {
  const Result<Config> config = parse_config(text, "f", {}, train_schema(shipped()));
  if (!config.ok()) return config.error().message;
  const Result<actors::TrainOptions> options = to_train_options(*config, shipped());
  if (!options.ok()) return options.error().message;
  const Status begin = check_begin(*config, *options, kind);
  return begin.ok() ? "ok" : begin.error().message;
}

const std::string kD4pg = "env = 'cartpole-swingup'\n";
const std::string kClassifier = "[replicas.c]\nmodel = 'classifier'\ndata = 'synthetic'\nsteps = 10\n";
const std::string kGan = "[replicas.g]\nmodel = 'sngan'\ndata = 'synthetic'\nsteps = 10\n";

TEST(CheckBegin, WhatCanBeginIsAccepted) {
  EXPECT_EQ(refusal(kD4pg), "ok");
  EXPECT_EQ(refusal(kClassifier), "ok");
  EXPECT_EQ(refusal(kGan + "network = 'resnet'\nimage_size = 32\nlearning_rate = 1e-3"), "ok");
  EXPECT_EQ(refusal("[replicas.r]\nmodel = 'resnet'\ndata = 'synthetic'\nsteps = 10\nema_decay = 0.9999"), "ok");
  EXPECT_EQ(refusal(kD4pg + kClassifier, RunKind::kProcesses), "ok");
}

TEST(CheckBegin, APluginThatIsNotThereIsRefusedWhereItIsSet) {
  const std::string junk = ::testing::TempDir() + "junk.so";
  std::ofstream(junk) << "text";
  for (const std::string& device : {std::string("pjrt:no-such"), std::string("pjrt:/no/such.so"), "pjrt:" + junk,
                                    std::string("pjrt:" + ::testing::TempDir())}) {
    EXPECT_THAT(refusal(kD4pg + "[learner]\ndevice = '" + device + "'"), StartsWith("f:3: learner.device: "));
    EXPECT_THAT(refusal(kD4pg + "[actors]\ninference = 'server'\n[inference]\ndevice = '" + device + "'"),
                StartsWith("f:5: inference.device: "));
  }
}

TEST(CheckBegin, ADeviceThatIsNoneIsRefusedWhereItIsSet) {
  for (const std::string device :
       {"['gpu']", "['cuda:-1']", "'cuda'", "'cuda:x'", "'CPU'", "['cpu', 'cuda:']", "''", "'cuda:99999999999'"}) {
    EXPECT_THAT(refusal(kD4pg + "[learner]\ndevice = " + device), StartsWith("f:3: learner.device: device \""))
        << device;
    EXPECT_THAT(refusal(kD4pg + "[actors]\ninference = 'server'\n[inference]\ndevice = " + device),
                StartsWith("f:5: inference.device: device \""))
        << device;
    EXPECT_THAT(refusal(kClassifier + "device = " + device), StartsWith("f:5: replicas.c.device: device \"")) << device;
  }
}

TEST(CheckBegin, ADeviceWhosePluginIsNotHereIsRefusedWhereTheRunIs) {
  const std::string agent = kD4pg + "[learner]\ndevice = 'pjrt:no-such-name'",
                    group = kClassifier + "device = 'pjrt:/no/such.so'";
  EXPECT_THAT(refusal(agent), StartsWith("f:3: learner.device: device pjrt:no-such-name: no plug-in \"no-such-name\""));
  EXPECT_EQ(refusal(agent, RunKind::kHosts), "ok");
  EXPECT_THAT(refusal(group), StartsWith("f:5: replicas.c.device: device pjrt:/no/such.so: no file /no/such.so"));
}

TEST(CheckBegin, NumbersOutOfTheRangeOfWhatTakesThemAreRefused) {
  for (const std::string network : {"policy", "critic"}) {
    EXPECT_THAT(refusal(kD4pg + "[d4pg]\n" + network + "_learning_rate = 0"),
                StartsWith("f:3: d4pg." + network + "_learning_rate: "));
  }
  for (const std::string& group :
       {kClassifier, kGan, std::string("[replicas.r]\nmodel = 'resnet'\ndata = 'synthetic'\nsteps = 10\n")}) {
    EXPECT_THAT(refusal(group + "ema_decay = 1.0"), AllOf(StartsWith("f:5: replicas."), HasSubstr(".ema_decay: ")));
    EXPECT_EQ(refusal(group + "ema_decay = 0.9999999"), "ok") << group;
  }
  EXPECT_THAT(refusal(kD4pg + "[replay]\nmax_bytes = 65536"),
              StartsWith("f:3: replay.max_bytes: table \"replay\": room for "));
  EXPECT_THAT(refusal(kD4pg + "[replay]\nmax_bytes = 66000\nshards = 2\n"), StartsWith("f:3: replay.max_bytes: "));
}

TEST(CheckBegin, AnImageThatTheNetworkCannotTakeIsRefused) {
  for (const char* size : {"33", "1", "31", "7"}) {
    EXPECT_THAT(refusal(kGan + "network = 'resnet'\nimage_size = " + size), StartsWith("f:2: replicas.g.model: "))
        << size;
  }
  EXPECT_THAT(refusal(kClassifier + "normalize = 'imagenet'"),
              StartsWith("f:3: replicas.c.data: images: ImageNet's mean"));
}

TEST(CheckBegin, DataThatIsNotThereIsRefusedWhereItWouldBeRead) {
  for (const std::string data : {"image_folder", "tfrecord", "cifar10", "fashion_mnist"}) {
    const std::string text = "[replicas.c]\nmodel = 'classifier'\nsteps = 10\ndata = '" + data + "'\nimage_size = 32\n";
    for (const char* folder : {"/nowhere/at/all", "/dev/null", "/proc/self"}) {
      const std::string of = text + "data_dir = '" + folder + "'\n";
      EXPECT_THAT(refusal(of), StartsWith("f:6: replicas.c.data_dir: ")) << of;
      EXPECT_THAT(refusal(of, RunKind::kProcesses), StartsWith("f:6: replicas.c.data_dir: ")) << of;
      EXPECT_EQ(refusal(of, RunKind::kHosts), "ok") << "it may lie on other hosts";
    }
  }
  EXPECT_THAT(
      refusal(
          "[replicas.g]\nmodel = 'sngan'\nnetwork = 'resnet'\nsteps = 10\ndata = 'tfrecord'\ndata_dir = '/nowhere'\n"
          "image_size = 33",
          RunKind::kHosts),
      StartsWith("f:2: replicas.g.model: "))
      << "what does not depend on data is checked without it";
}

TEST(CheckBegin, WhatIsOfSeveralProcessesOrOfOneIsRefusedInTheOther) {
  for (const std::string durability : {"durable", "relaxed"}) {
    const std::string text = kD4pg + "[replay]\ndurability = '" + durability + "'";
    EXPECT_THAT(refusal(text), StartsWith("f:3: replay.durability: got \"" + durability + "\", but in one process"));
    EXPECT_EQ(refusal(text, RunKind::kProcesses), "ok");
  }
}

TEST(CheckBegin, WhatAJournalOrAGpuCannotKeepIsRefusedBeforeAnythingBegins) {
  const std::string replay = kD4pg + "[replay]\n";
  const std::string heap = replay + "remover = 'min_heap'";
  const std::string on_gpu = "\ndevice = 'cuda:0'\n[learner]\ndevice = 'cuda:0'";
  EXPECT_EQ(refusal(heap), "ok");
  EXPECT_EQ(refusal(heap, RunKind::kProcesses),
            "f:3: replay.remover: got \"min_heap\", but replay's journal (durability \"auto\", over processes) wants "
            "items to leave in their order: expected \"fifo\", or replay.durability \"off\"");
  EXPECT_EQ(refusal(heap + "\ndurability = 'off'", RunKind::kProcesses), "ok");
  EXPECT_THAT(refusal(heap + on_gpu),
              StartsWith("f:3: replay.remover: got \"min_heap\", but a table on cuda:0 wants items"));
  EXPECT_THAT(refusal(replay + "max_times_sampled = 64", RunKind::kProcesses),
              StartsWith("f:3: replay.max_times_sampled: got 64, but replay's journal"));
  EXPECT_THAT(refusal(replay + "sampler = 'max_heap'" + on_gpu),
              StartsWith("f:3: replay.sampler: got \"max_heap\", but a table on cuda:0 has no heaps"));
}

TEST(CheckBegin, EveryMistakeIsListed) {
  const std::string all = refusal(kD4pg +
                                  "[replay]\nmax_bytes = 65536\ndurability = 'durable'\n[replicas.g]\nmodel = 'sngan'\n"
                                  "data = 'synthetic'\nsteps = 10\nnetwork = 'resnet'\nimage_size = 33\n");
  EXPECT_EQ(lines(all).size(), 3u) << all;
}

TEST(IdleKeys, AKeyThatNothingLooksAtIsAMistake) {
  const auto group = [](const std::string& more) { return refusal(kClassifier + more); };
  EXPECT_THAT(group("momentum = 0.5"),
              StartsWith("f:5: replicas.c.momentum: has no effect here: it is used only with optimizer"));
  EXPECT_EQ(group("momentum = 0.5\noptimizer = 'sgd'"), "ok");
  EXPECT_EQ(group("momentum = 0.5\noptimizer = 'rmsprop'"),
            "f:5: replicas.c.momentum: has no effect here: it is used only with optimizer = \"sgd\" or \"lars\"");
  EXPECT_THAT(group("beta1 = 0.5\noptimizer = 'sgd'"), StartsWith("f:5: replicas.c.beta1: has no effect"));
  EXPECT_THAT(group("rms_decay = 0.5"), StartsWith("f:5: replicas.c.rms_decay: has no effect"));
  EXPECT_THAT(group("epsilon = 0.5\noptimizer = 'lars'"), StartsWith("f:5: replicas.c.epsilon: has no effect"));
  EXPECT_THAT(group("trust_coefficient = 0.5"), StartsWith("f:5: replicas.c.trust_coefficient: has no effect"));
  EXPECT_EQ(group("hold_steps = 5\nschedule = 'linear'"), "ok");
  EXPECT_EQ(group("hold_steps = 5\nschedule = 'step'"),
            "f:5: replicas.c.hold_steps: has no effect here: it is used only with schedule = \"cosine\" or \"linear\"");
  EXPECT_EQ(group("depth = 34"), "f:5: unknown key replicas.c.depth: its section has it only with model = \"resnet\"");
  EXPECT_EQ(group("sync_batch_norm = true"),
            "f:5: unknown key replicas.c.sync_batch_norm: its section has it only with model = \"resnet\" or model = "
            "\"sngan\"");
  EXPECT_THAT(group("reduce = 'reduction_to_one'"), StartsWith("f:5: replicas.c.reduce: has no effect"));
  EXPECT_THAT(group("ps_shards = 2"), StartsWith("f:5: replicas.c.ps_shards: has no effect"));
  EXPECT_THAT(group("classes = 7"), StartsWith("f:5: replicas.c.classes: has no effect"));
  EXPECT_EQ(refusal(kGan + "beta1 = 0.5"), "ok");
  EXPECT_THAT(refusal(kGan + "width = 7"), StartsWith("f:5: replicas.g.width: has no effect"));
  for (const std::string key : {"count = 2", "batch_size = 7", "max_wait_ms = 3", "device = 'auto'"}) {
    EXPECT_THAT(refusal(kD4pg + "[inference]\n" + key),
                AllOf(StartsWith("f:3: inference."), HasSubstr("has no effect")))
        << key;
    EXPECT_EQ(refusal(kD4pg + "actors.inference = 'server'\nactors.count = 2\n[inference]\n" + key), "ok") << key;
  }
  EXPECT_THAT(refusal(kD4pg + "[replay]\npriority_exponent = 0.5"), HasSubstr("has no effect"));
  EXPECT_THAT(refusal("max_env_steps = 5\n" + kClassifier),
              StartsWith("f:1: max_env_steps: has no effect here: it is used only with env"));
  EXPECT_THAT(refusal("[d4pg]\natoms = 11\n" + kClassifier), StartsWith("f:2: d4pg.atoms: has no effect"));
  EXPECT_THAT(refusal("[learner]\ncount = 2\n[agents.a]\nenv = 'cartpole-swingup'"),
              StartsWith("f:2: learner.count: has no effect here: it is used only with env"));
  EXPECT_EQ(refusal(kD4pg + "[d4pg]\npolicy_momentum = 0.5"),
            "f:3: d4pg.policy_momentum: has no effect here: it is used only with policy_optimizer = \"sgd\" or "
            "\"lars\"");
  EXPECT_EQ(refusal(kD4pg + "[learner]\nreduce = 'reduction_to_one'"),
            "f:3: learner.reduce: has no effect here: it is used only with replicator = \"multi_device\" or "
            "\"model_parallel\"");
  EXPECT_THAT(refusal(kD4pg + "[learner]\nps_shards = 2"), StartsWith("f:3: learner.ps_shards: has no effect"));
  EXPECT_THAT(refusal(kD4pg + "[placement]\nlearner_ps.nodes = 0"),
              StartsWith("f:3: placement.learner_ps.nodes: has no effect"));
  EXPECT_THAT(group("wire = 'bf16'"), StartsWith("f:5: replicas.c.wire: has no effect"));
}

TEST(CheckBegin, LarsNeedsWholeVariablesOnAParameterServer) {
  const std::string served = "optimizer = 'lars'\nreplicator = 'parameter_server'\n";
  EXPECT_EQ(refusal(kClassifier + served), "ok");
  EXPECT_THAT(refusal(kClassifier + served + "ps_shards = 2"),
              AllOf(StartsWith("f:2: replicas.c.model: "), HasSubstr("LARS needs the norms of whole variables")));
  const std::string agent = "[d4pg]\ncritic_optimizer = 'lars'\n[learner]\nreplicator = 'parameter_server'\n";
  EXPECT_EQ(refusal(kD4pg + agent), "ok");
  EXPECT_THAT(refusal(kD4pg + agent + "ps_shards = 2"),
              AllOf(HasSubstr("algorithm: "), HasSubstr("LARS needs the norms of whole variables")));
}

TEST(IdleKeys, ADefaultMayStandInAFile) {
  for (const std::string& text : {kD4pg, kClassifier, kGan}) EXPECT_EQ(refusal(config_of(text).to_toml()), "ok");
}

TEST(IdleKeys, ShippedConfigsHaveNone) {
  for (const auto& file : shipped_config_files()) {
    const Result<Config> config = load_config(file, {}, train_schema(shipped()));
    ASSERT_TRUE(config.ok()) << config.error().message;
    EXPECT_THAT(idle_key_mistakes(*config), testing::IsEmpty()) << file;
  }
}

/// Another value than the default's that the schema accepts.
std::string other_value(const ConfigKey& key, const ConfigValue& now) {
  const bool list = std::holds_alternative<std::vector<std::string>>(now);
  for (const std::string& choice : key.choices) {
    const ConfigValue value = list ? ConfigValue(std::vector{choice}) : ConfigValue(choice);
    if (to_toml(value) != to_toml(now)) return to_toml(value);
  }
  if (std::holds_alternative<bool>(now)) return std::get<bool>(now) ? "false" : "true";
  if (const auto* integer = std::get_if<std::int64_t>(&now)) {
    return std::to_string(*integer > key.min ? *integer - 1 : *integer + 1);
  }
  if (const auto* number = std::get_if<double>(&now))
    return *number > key.min ? to_toml(ConfigValue(*number / 2)) : "0.5";
  if (std::holds_alternative<std::string>(now)) return "\"cpu2\"";
  return list ? "[\"auto\"]" : "[7]";
}

TEST(CheckSameRun, EveryKeyThatStateDependsOnIsNamedAndNoOther) {
  const std::string text = kD4pg + kClassifier + kGan;
  const Config recorded = config_of(text);
  EXPECT_TRUE(check_same_run(recorded, recorded, "runs/a").ok());
  int fixed = 0;
  for (const ConfigKey& key : recorded.schema()) {
    if (key.path == "algorithm" || key.path == "learner.kind") continue;  // there is one
    if (key.path.ends_with(".model")) continue;  // says which other keys there are, and is of the file alone
    const std::string value = other_value(key, recorded.value(key.path));
    const Result<Config> now =
        parse_config(text, "f", std::vector<std::string>{key.path + "=" + value}, train_schema(shipped()));
    ASSERT_TRUE(now.ok()) << now.error().message;
    const Status same = check_same_run(*now, recorded, "runs/a");
    if (key.fixed != ConfigKey::Fixed::kValue) {
      EXPECT_TRUE(same.ok() || key.fixed == ConfigKey::Fixed::kWhetherZero) << same.error().message;
      continue;
    }
    ++fixed;
    ASSERT_FALSE(same.ok()) << key.path;
    EXPECT_EQ(same.error().message, "--set " + key.path + "=" + value + ": " + key.path + ": got " + value +
                                        ", but runs/a has " + to_toml(recorded.value(key.path)) +
                                        ", which is the same for all of a run");
  }
  EXPECT_GT(fixed, 40);
}

TEST(CheckSameRun, WhetherSomethingIsZeroMayMatterAlone) {
  const Config recorded = config_of(kClassifier + "ema_decay = 0.9");
  const auto now = [&](const char* decay) {
    return check_same_run(config_of(kClassifier + "ema_decay = " + decay), recorded, "r");
  };
  EXPECT_TRUE(now("0.99").ok());
  EXPECT_EQ(now("0").error().message,
            "f:5: replicas.c.ema_decay: got 0, but r has more than 0, which is the same for all of a run");
}

TEST(CheckSameRun, GroupsStayTheSame) {
  const Config one = config_of(kD4pg + kClassifier), other = config_of(kD4pg + kGan);
  EXPECT_EQ(check_same_run(one, other, "r").error().message,
            "f:3: replicas.c: a new group, but r has none of this name\n"
            "f: replicas.g: missing, but r trains this group");
}

}  // namespace
}  // namespace troupe::apps
