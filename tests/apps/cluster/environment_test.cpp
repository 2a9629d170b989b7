// What schedulers say about a cluster: exact variables in, a place or an exact message out.
#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include <troupe/apps/cluster/environment.hpp>

namespace troupe::apps {
namespace {

struct Case {
  std::string text;
  std::string message;
};

actors::TrainOptions options(std::int64_t actors) {
  actors::TrainOptions o;
  o.agents.emplace_back();
  o.agents[0].actors.count = actors;
  return o;
}

/// "chief@h:1 learner 0 metrics 0", one a node, the own one with a star.
std::vector<std::string> in_words(const OwnPlace& own) {
  std::vector<std::string> all;
  for (const NodeSpec& node : own.cluster.nodes) {
    std::string words;
    if (node.name == own.node) words = "*";
    words.append(node.name).append("@").append(to_string(node.address));
    for (const HostedRole& role : node.roles) {
      words.append(" ").append(role.role);
      for (const std::int64_t i : role.instances) words.append(" ").append(std::to_string(i));
    }
    all.push_back(words);
  }
  return all;
}

using Words = std::vector<std::string>;

std::string message(const Result<OwnPlace>& own) { return own.ok() ? "good: " + own->node : own.error().message; }

Result<OwnPlace> tf(const std::string& json, std::int64_t actors = 3) {
  return own_place({{"TF_CONFIG", json}}, options(actors), "r");
}

TEST(TfConfig, TasksBecomeNodes) {
  const Result<OwnPlace> own = tf(R"({"cluster": {"worker": ["w0:1", "w1:1"], "ps": ["p0:1"], "chief": ["c:1"],
      "evaluator": ["e:1"]}, "task": {"type": "worker", "index": 1}, "rpc_layer": "grpc"})");
  ASSERT_TRUE(own.ok()) << own.error().message;
  EXPECT_EQ(own->cluster.run, "r");
  EXPECT_EQ(in_words(*own), (Words{"chief@c:1 learner 0 metrics 0", "ps-0@p0:1 parameters 0 replay 0",
                                   "worker-0@w0:1 actor 0 2", "*worker-1@w1:1 actor 1", "evaluator@e:1 evaluator 0"}));
}

TEST(TfConfig, WhatHasNoTaskIsWithTheChiefAndMasterIsAnOlderWordForIt) {
  for (const std::string chief : {"chief", "master"}) {
    const Result<OwnPlace> own =
        tf(R"({"cluster": {")" + chief + R"(": ["[::1]:5"]}, "task": {"type": ")" + chief + R"(", "index": "0"}})");
    ASSERT_TRUE(own.ok()) << own.error().message;
    EXPECT_EQ(in_words(*own),
              (Words{"*chief@[::1]:5 actor 0 1 2 evaluator 0 learner 0 metrics 0 parameters 0 replay 0"}));
  }
}

TEST(TfConfig, ShardsAreDealtToThePs) {
  actors::TrainOptions o = options(1);
  o.agents[0].replay.shards = 3;
  const Result<OwnPlace> own =
      own_place({{"TF_CONFIG", R"({"cluster": {"ps": ["p:1", "q:1"], "worker": ["a:1"], "chief": ["c:1"]},
                                   "task": {"type": "ps", "index": 1}})"}},
                o, "r");
  ASSERT_TRUE(own.ok()) << own.error().message;
  EXPECT_EQ(in_words(*own), (Words{"chief@c:1 evaluator 0 learner 0 metrics 0", "ps-0@p:1 parameters 0 replay 0 2",
                                   "*ps-1@q:1 replay 1", "worker-0@a:1 actor 0"}));
}

TEST(TfConfig, MembersOfGroupsAreWorkersAndTheirParametersAreWithThePs) {
  actors::TrainOptions o = options(2);
  o.agents[0].env = "cartpole-swingup";
  o.agents[0].learner.count = 2;
  o.replicas = {{.group = {.name = "gan", .replicator = "multi_worker", .count = 3}, .model = "sngan"},
                {.group = {.name = "mlp", .replicator = "parameter_server", .count = 2, .ps_shards = 2}}};
  const Result<OwnPlace> own =
      own_place({{"TF_CONFIG", R"({"cluster": {"ps": ["p:1", "q:1"], "worker": ["a:1", "b:1"], "chief": ["c:1"]},
                                   "task": {"type": "worker", "index": 1}})"}},
                o, "r");
  ASSERT_TRUE(own.ok()) << own.error().message;
  EXPECT_EQ(in_words(*own),
            (Words{"chief@c:1 evaluator 0 gan-evaluator 0 metrics 0 mlp-evaluator 0",
                   "ps-0@p:1 mlp-ps 0 parameters 0 replay 0", "ps-1@q:1 mlp-ps 1",
                   "worker-0@a:1 actor 0 gan 0 2 learner 0 mlp 0", "*worker-1@b:1 actor 1 gan 1 learner 1 mlp 1"}));
}

TEST(TfConfig, WithoutAChiefWorkerZeroIsIt) {
  const Result<OwnPlace> own =
      tf(R"({"cluster": {"ps": ["p:1"], "worker": ["a:1", "b:1"]}, "task": {"type": "worker", "index": 0}})");
  ASSERT_TRUE(own.ok()) << own.error().message;
  EXPECT_EQ(in_words(*own), (Words{"*chief@a:1 actor 0 2 evaluator 0 learner 0 metrics 0",
                                   "ps-0@p:1 parameters 0 replay 0", "worker-1@b:1 actor 1"}));
}

TEST(TfConfig, EveryMalformedCaseIsOneClearError) {
  const std::string cluster = R"("cluster": {"chief": ["c:1"], "worker": ["w:1"]})";
  const std::string task = R"("task": {"type": "chief", "index": 0})";
  const std::string types = "expected chief, master, worker, ps, evaluator";
  const std::vector<Case> cases = {
      {"", "TF_CONFIG: not JSON: error at byte 1 of 0: "},
      {"{\"cluster\": ", "TF_CONFIG: not JSON: error at byte 13 of 12: {\"cluster\": "},
      {"\x1b[2J", "TF_CONFIG: not JSON: error at byte 1 of 4: \\x1b[2J"},
      {"{\"task\": {\"index\": 2e99999}}",
       "TF_CONFIG: not JSON: [json.exception.out_of_range.406] number overflow parsing '2e99999'"},
      {"[]", "TF_CONFIG: got [], expected an object"},
      {"{}", "TF_CONFIG: no cluster\nTF_CONFIG: no task"},
      {"{" + cluster + "}", "TF_CONFIG: no task"},
      {R"({"clutser": {}, )" + task + "}",
       "TF_CONFIG: unknown key clutser (did you mean cluster?), expected cluster and task\nTF_CONFIG: no cluster"},
      {R"({"cluster": [], "task": 3})",
       "TF_CONFIG: cluster: got [], expected an object\nTF_CONFIG: task: got 3, expected an object"},
      {R"({"cluster": {}, )" + task + "}",
       "TF_CONFIG: cluster: neither chief nor worker, expected a chief or at least one worker"},
      {R"({"cluster": {"chief": [], "workers": ["w:1"], "ps": "p:1"}, )" + task + "}",
       "TF_CONFIG: cluster.ps: got \"p:1\", expected a list of \"host:port\"\n"
       "TF_CONFIG: cluster: unknown task type workers (did you mean worker?), " +
           types},
      {R"({"cluster": {"chief": ["c:1", "d"], "worker": ["c:1", 7]}, "task": {"type": "wroker"}})",
       "TF_CONFIG: cluster.chief[1]: address: got \"d\", expected HOST:PORT or [IPV6]:PORT with a port up to 65535\n"
       "TF_CONFIG: cluster.worker[0]: c:1 is cluster.chief[0] already\n"
       "TF_CONFIG: cluster.worker[1]: got 7, expected \"host:port\"\n"
       "TF_CONFIG: task.type: unknown task type wroker (did you mean worker?), " +
           types + "\nTF_CONFIG: task.index: got nothing, expected an integer"},
      {R"({"cluster": {"chief": ["c:0"]}, )" + task + "}",
       "TF_CONFIG: cluster.chief[0]: port 0, expected one that the others know"},
      {R"({"cluster": {"chief": ["c:1"], "master": ["d:1"]}, )" + task + "}",
       "TF_CONFIG: cluster: chief and master are the same, expected one of them"},
      {R"({"cluster": {"chief": ["c:1", "d:1"], "evaluator": ["e:1", "f:1"]}, )" + task + "}",
       "TF_CONFIG: cluster: 2 chiefs, expected one\nTF_CONFIG: cluster: 2 evaluators, expected at most one"},
      {"{" + cluster + R"(, "task": {"index": 0}})", "TF_CONFIG: task.type: got nothing, expected a string"},
      {"{" + cluster + R"(, "task": {"type": "worker", "index": "x"}})",
       "TF_CONFIG: task.index: got \"x\", expected an integer"},
      {"{" + cluster + R"(, "task": {"type": "worker", "index": 1.5}})",
       "TF_CONFIG: task.index: got 1.5, expected an integer"},
      {"{" + cluster + R"(, "task": {"type": "worker", "index": 1}})",
       "TF_CONFIG: task: this is worker 1, but the cluster has 1 of them"},
      {"{" + cluster + R"(, "task": {"type": "worker", "index": -1}})",
       "TF_CONFIG: task: this is worker -1, but the cluster has 1 of them"},
      {"{" + cluster + R"(, "task": {"type": "ps", "index": 0}})",
       "TF_CONFIG: task: this is ps 0, but the cluster has 0 of them"},
      {"{" + cluster + R"(, "task": {"type": "evaluator", "index": 0}})",
       "TF_CONFIG: task: this is the evaluator, but the cluster names none: add \"evaluator\": [\"host:port\"] to the "
       "cluster of every task"},
      {R"({"cluster": {"chief": ["c:1"], "worker": ["1:1", "2:1", "3:1", "4:1"]}, )" + task + "}",
       "TF_CONFIG: cluster: nothing is left for worker-3: the run has 1 replay, 1 learner, 1 parameters, 1 evaluator, "
       "3 "
       "actor"},
  };
  for (const Case& c : cases) EXPECT_EQ(message(tf(c.text)), c.message) << c.text;
}

TEST(TfConfig, NestingAsDeepAsAnEnvironmentCanHoldIsRefused) {
  constexpr std::size_t kLevels = 60'000;  // a variable holds 128 KiB
  const std::string deep = std::string(kLevels, '[') + std::string(kLevels, ']');
  for (const std::string& text : {deep, R"({"task": )" + deep + "}", R"({"cluster": {"chief": [)" + deep + "]}}"}) {
    EXPECT_EQ(message(tf(text)), "TF_CONFIG: nested by more than 32 levels: " + text.substr(0, 80) + "...");
  }
  EXPECT_EQ(message(tf("{\"job\": " + deep)).substr(0, 35), "TF_CONFIG: nested by more than 32 l");
}

Environment slurm(const Environment& changes) {
  Environment e = {{"SLURM_PROCID", "6"},
                   {"SLURM_NTASKS", "7"},
                   {"SLURM_JOB_ID", "123"},
                   {"SLURM_STEP_NODELIST", "n[1-2,4]"},
                   {"SLURM_STEP_TASKS_PER_NODE", "3(x2),1"}};
  for (const auto& [name, value] : changes) e[name] = value;
  return e;
}

TEST(Slurm, RanksBecomeNodesAndPortsFollowFromTheJob) {
  const Result<OwnPlace> own = own_place(slurm({{"SLURMD_NODENAME", "n4"}}), options(4), "ignored");
  ASSERT_TRUE(own.ok()) << own.error().message;
  EXPECT_EQ(own->cluster.run, "slurm-123");
  EXPECT_EQ(in_words(*own), (Words{"chief@n1:27872 metrics 0", "replay@n1:27873 replay 0", "learner@n1:27874 learner 0",
                                   "parameters@n2:27872 parameters 0", "evaluator@n2:27873 evaluator 0",
                                   "actors-0@n2:27874 actor 0 2", "*actors-1@n4:27872 actor 1 3"}));
}

TEST(Slurm, BadVariablesAndNumbersAreRefused) {
  const auto say = [](const Environment& changes) { return message(slurm_place(slurm(changes), options(4))); };
  EXPECT_EQ(say({{"SLURM_PROCID", "x"}}), "Slurm: SLURM_PROCID is \"x\", expected a number");
  EXPECT_EQ(say({{"SLURM_JOB_ID", ""}}), "Slurm: SLURM_JOB_ID is \"\", expected a number");
  EXPECT_EQ(say({{"SLURM_PROCID", "7"}}), "Slurm: SLURM_PROCID is 7, but there are only 7 tasks");
  EXPECT_EQ(say({{"SLURM_NTASKS", "8"}}),
            "Slurm: SLURM_STEP_TASKS_PER_NODE \"3(x2),1\" is 7 tasks on 3 hosts, expected 8 on 3 as SLURM_NTASKS and "
            "SLURM_STEP_NODELIST say");
  EXPECT_EQ(say({{"SLURM_STEP_NODELIST", "n[1-"}}),
            "Slurm: SLURM_STEP_NODELIST: \"n[1-\": at character 5: expected the end of an ascending range");
  EXPECT_EQ(say({{"SLURMD_NODENAME", "n1"}}),
            "Slurm: rank 6 is on n1, expected n4: run the nodes with srun --distribution=block");
  EXPECT_EQ(say({{"SLURM_PROCID", "0"},
                 {"SLURM_NTASKS", "2"},
                 {"SLURM_STEP_NODELIST", "a"},
                 {"SLURM_STEP_TASKS_PER_NODE", "2"}}),
            "got 2 Slurm tasks, but the run needs 6 .. 9: chief 1, replay 1, learner 1, parameters 1, evaluator 1, "
            "actors 1 .. 4. Change their number, actors.count = 4 or [placement]");
  EXPECT_EQ(message(slurm_place({{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "1"}, {"SLURM_JOB_ID", "1"}}, options(4))),
            "Slurm: SLURM_STEP_NODELIST is not set: run the node with srun");
}

TEST(Slurm, HostListsAreExpanded) {
  const std::vector<std::pair<std::string, Words>> cases = {
      {"vm", {"vm"}},
      {"a,b-1,c.d", {"a", "b-1", "c.d"}},
      {"n[1-3]", {"n1", "n2", "n3"}},
      {"n[08-11,7]-ib", {"n08-ib", "n09-ib", "n10-ib", "n11-ib", "n7-ib"}},
      {"n[1],m", {"n1", "m"}},
      {"r[1-2]n[0-1],x", {"r1n0", "r1n1", "r2n0", "r2n1", "x"}},
  };
  for (const auto& [text, hosts] : cases) {
    const auto expanded = expand_host_list(text);
    ASSERT_TRUE(expanded.ok()) << expanded.error().message;
    EXPECT_EQ(*expanded, hosts) << text;
  }
  EXPECT_EQ(expand_host_list("n[0-65535]")->size(), 65536u);
  EXPECT_EQ(*expand_host_list("n[9223372036854775806-9223372036854775807]"),
            (Words{"n9223372036854775806", "n9223372036854775807"}))
      << "a number that none follows";
}

TEST(Slurm, BadHostListsAreRefusedAtTheRightPlace) {
  const std::vector<Case> cases = {
      {"", "at character 1: expected a host name before it"},
      {"a,", "at character 3: expected a host name before it"},
      {"a,,b", "at character 3: expected a host name before it"},
      {"a b", "at character 4: expected a host name before it"},
      {"n[]", "at character 3: expected a number"},
      {"n[1", "at character 4: expected \"]\" or \",\""},
      {"n[1-]", "at character 5: expected the end of an ascending range"},
      {"n[3-1]", "at character 6: expected the end of an ascending range"},
      {"n[-1]", "at character 3: expected a number"},
      {"n[1,]", "at character 5: expected a number"},
      {"n[99999999999999999999]", "at character 3: expected a number"},
      {"n[0-65536]", "at character 3: expected at most 65536 hosts"},
      {"n[0-999]m[0-999]", "at character 17: expected at most 65536 hosts"},
      {"n]", "at character 3: expected a host name before it"},
  };
  for (const Case& c : cases) {
    const auto expanded = expand_host_list(c.text);
    EXPECT_EQ(expanded.ok() ? "good" : expanded.error().message, fmt::format("\"{}\": {}", c.text, c.message));
  }
}

TEST(Slurm, NamesThatNoHostCanHaveAreRefusedBeforeThereAreManyOfThem) {
  // Each of these was gigabytes.
  const std::vector<Case> cases = {
      {"n[" + std::string(300, '0') + "-65535]", "at character 3"},
      {"[0-65535]" + std::string(300, 'n'), "at character 10"},
      {"[0-1]" + std::string(252, 'n') + "[0-32767]", "at character 267"},
      {"[1," + std::string(200, '0') + "][1," + std::string(200, '0') + "]", "at character 409"},
  };
  for (const Case& c : cases) {
    const auto expanded = expand_host_list(c.text);
    ASSERT_FALSE(expanded.ok()) << c.text;
    const std::string& message = expanded.error().message;
    EXPECT_NE(message.find(c.message + ": expected a host name of at most 253 characters"), std::string::npos)
        << message;
  }
}

TEST(Slurm, TasksPerHostAreExpanded) {
  EXPECT_EQ(*expand_counts("2(x3),1"), (std::vector<std::int64_t>{2, 2, 2, 1}));
  EXPECT_EQ(*expand_counts("16"), (std::vector<std::int64_t>{16}));
  for (const std::string text : {"", "2,", "0", "-1", "2(x", "2(x0)", "2(x3", "2x3", "2(x99999)", "a", "65537",
                                 "9223372036854775807", "9223372036854775807(x65536)"}) {
    EXPECT_FALSE(expand_counts(text).ok()) << text;
  }
}

TEST(Slurm, NumbersThatNoClusterHasAreRefusedAndCostNothing) {
  const auto say = [](const Environment& changes) { return message(slurm_place(slurm(changes), options(4))); };
  // 10^18 tasks on one host were as many addresses, and their sum or the ports of the job an overflow.
  EXPECT_EQ(
      say({{"SLURM_NTASKS", "1000000000000000000"},
           {"SLURM_STEP_NODELIST", "a"},
           {"SLURM_STEP_TASKS_PER_NODE", "1000000000000000000"}}),
      "Slurm: SLURM_STEP_TASKS_PER_NODE: \"1000000000000000000\": at character 20: expected a number of tasks, at "
      "most 65536");
  EXPECT_EQ(
      say({{"SLURM_NTASKS", "131072"}, {"SLURM_STEP_NODELIST", "a,b"}, {"SLURM_STEP_TASKS_PER_NODE", "65536(x2)"}}),
      "Slurm: SLURM_NTASKS is 131072, expected at most 4096");
  for (const char* job : {"9223372036854775807", "144115188075855872"}) {
    const auto own = slurm_place(slurm({{"SLURM_JOB_ID", job}}), options(2));
    ASSERT_TRUE(own.ok()) << own.error().message;
    EXPECT_GE(own->cluster.nodes[0].address.port, 20000) << job;
    EXPECT_LT(own->cluster.nodes[6].address.port, 32768) << job;
  }
}

Environment pod(const Environment& changes) {
  Environment e = {{"HOSTNAME", "cart-5"}, {"JOB_COMPLETION_INDEX", "5"}, {"TROUPE_NODES", "6"}};
  for (const auto& [name, value] : changes) e[name] = value;
  return e;
}

TEST(Kubernetes, PodsBecomeNodes) {
  const Result<OwnPlace> own = own_place(pod({{"TROUPE_SERVICE", "net"}}), options(1), "ignored");
  ASSERT_TRUE(own.ok()) << own.error().message;
  EXPECT_EQ(own->cluster.run, "cart");
  EXPECT_EQ(in_words(*own), (Words{"chief@cart-0.net:7600 metrics 0", "replay@cart-1.net:7600 replay 0",
                                   "learner@cart-2.net:7600 learner 0", "parameters@cart-3.net:7600 parameters 0",
                                   "evaluator@cart-4.net:7600 evaluator 0", "*actors@cart-5.net:7600 actor 0"}));
}

TEST(Kubernetes, AStatefulSetsPodNeedsNoIndexVariable) {
  const Result<OwnPlace> own =
      own_place({{"HOSTNAME", "cart-0.cart.ns.svc.cluster.local"}, {"TROUPE_NODES", "6"}, {"TROUPE_PORT", "9000"}},
                options(1), "ignored");
  ASSERT_TRUE(own.ok()) << own.error().message;
  EXPECT_EQ(in_words(*own)[0], "*chief@cart-0.cart:9000 metrics 0");
}

TEST(Kubernetes, BadVariablesAndNumbersAreRefused) {
  const auto say = [](const Environment& changes) { return message(kubernetes_place(pod(changes), options(1))); };
  EXPECT_EQ(say({{"TROUPE_NODES", ""}}), "Kubernetes: TROUPE_NODES is \"\", expected the number of pods, 1 .. 4096");
  EXPECT_EQ(say({{"TROUPE_NODES", "0"}}), "Kubernetes: TROUPE_NODES is \"0\", expected the number of pods, 1 .. 4096");
  EXPECT_EQ(say({{"HOSTNAME", "laptop"}}), "Kubernetes: the pod's host name is \"laptop\", expected <job>-<index>");
  EXPECT_EQ(say({{"HOSTNAME", "-5"}}), "Kubernetes: the pod's host name is \"-5\", expected <job>-<index>");
  EXPECT_EQ(say({{"JOB_COMPLETION_INDEX", "4"}}),
            "Kubernetes: JOB_COMPLETION_INDEX is \"4\", expected 5 as in the pod's host name cart-5");
  EXPECT_EQ(say({{"TROUPE_NODES", "5"}}), "Kubernetes: this is pod 5, but TROUPE_NODES says 5");
  EXPECT_EQ(say({{"TROUPE_PORT", "0"}}), "Kubernetes: TROUPE_PORT is \"0\", expected a port in 1 .. 65535");
  EXPECT_EQ(say({{"TROUPE_SERVICE", "a b"}}),
            "Kubernetes: TROUPE_SERVICE is \"a b\", expected the name of the headless Service");
  EXPECT_EQ(say({{"TROUPE_NODES", "7"}}),
            "got 7 pods, but the run needs 6: chief 1, replay 1, learner 1, parameters 1, evaluator 1, actors 1. "
            "Change their number, actors.count = 1 or [placement]");
}

TEST(Kubernetes, PodsOfSeveralTemplatesAreListed) {
  actors::TrainOptions placed = options(4);
  auto& nodes = placed.agents[0].placement;
  nodes.replay = nodes.learner = nodes.parameters = nodes.evaluator = 0;
  const Environment e = {{"HOSTNAME", "cart-actors-0-1"},
                         {"JOB_COMPLETION_INDEX", "1"},
                         {"TROUPE_PODS", "cart-gpu-0-0,cart-actors-0-[0-1]"},
                         {"TROUPE_SERVICE", "cart"}};
  const Result<OwnPlace> own = own_place(e, placed, "ignored");
  ASSERT_TRUE(own.ok()) << own.error().message;
  EXPECT_EQ(own->cluster.run, "cart");
  EXPECT_EQ(in_words(*own),
            (Words{"chief@cart-gpu-0-0.cart:7600 evaluator 0 learner 0 metrics 0 parameters 0 replay 0",
                   "actors-0@cart-actors-0-0.cart:7600 actor 0 2", "*actors-1@cart-actors-0-1.cart:7600 actor 1 3"}));
  const auto say = [&](const char* name, const char* value) {
    Environment changed = e;
    changed[name] = value;
    return message(kubernetes_place(changed, placed));
  };
  EXPECT_EQ(
      say("HOSTNAME", "cart-actors-0-2"),
      "Kubernetes: TROUPE_PODS is \"cart-gpu-0-0,cart-actors-0-[0-1]\", expected this pod, cart-actors-0-2, among "
      "them");
  EXPECT_EQ(say("TROUPE_SERVICE", ""), "Kubernetes: TROUPE_SERVICE is \"\", expected the name of the headless Service");
  EXPECT_THAT(say("TROUPE_PODS", "cart-[0"), testing::StartsWith("Kubernetes: TROUPE_PODS is \"cart-[0\": "));
}

TEST(OwnPlaceInEnvironment, WithoutAnyOfThemSaysWhichThereAre) {
  EXPECT_EQ(message(own_place({{"HOSTNAME", "x-1"}}, options(1), "r")),
            "this node cannot find its place: expected --cluster FILE --name NAME, or in the environment TF_CONFIG, "
            "Slurm's variables (start it with srun) or TROUPE_NODES (Kubernetes, see docs/deploy.md)");
  EXPECT_EQ(process_environment().count("HOSTNAME"), 1u);
  EXPECT_EQ(process_environment().count("PATH"), 1u);
}

}  // namespace
}  // namespace troupe::apps
