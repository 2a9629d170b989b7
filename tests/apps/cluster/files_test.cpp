// The two files that say where nodes are, a cluster and the hosts of `troupe up`, and what the launcher hands over.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <vector>

#include <troupe/apps/cluster/cluster_file.hpp>
#include <troupe/apps/cluster/hosts_file.hpp>
#include <troupe/apps/cluster/node_start.hpp>
#include <troupe/apps/cluster/place.hpp>
#include <troupe/tests/apps/test_directory.hpp>
#include <troupe/transport/authority.hpp>

namespace troupe::apps {
namespace {

struct FileCase {
  std::string text;
  std::string message;
};

actors::TrainOptions file_options(std::int64_t actors, std::int64_t actor_nodes = 1) {
  actors::TrainOptions o;
  o.agents.emplace_back();
  o.agents[0].actors.count = actors;
  o.agents[0].placement.actors = actor_nodes;
  return o;
}

std::string cluster_message(const std::string& text) {
  const Result<ClusterSpec> cluster = parse_cluster(text, "f", file_options(2));
  return cluster.ok() ? "good" : cluster.error().message;
}

constexpr const char* kCluster = R"(run = "r"
[[nodes]]
name = "chief"
roles = { metrics = [0], replay = [0], learner = [0], parameters = [0], evaluator = [0] }
[[nodes]]
name = "actors"
host = "10.0.0.2"
port = 7600
roles = { actor = [1, 0] }
)";

TEST(ClusterFile, IsReadInItsOrder) {
  const Result<ClusterSpec> cluster = parse_cluster(kCluster, "f", file_options(2));
  ASSERT_TRUE(cluster.ok()) << cluster.error().message;
  EXPECT_EQ(cluster->run, "r");
  ASSERT_EQ(cluster->nodes.size(), 2u);
  EXPECT_EQ(to_string(cluster->nodes[0].address), "127.0.0.1:0");
  EXPECT_EQ(cluster->nodes[0].roles.size(), 5u);
  EXPECT_EQ(cluster->nodes[1].name, "actors");
  EXPECT_EQ(to_string(cluster->nodes[1].address), "10.0.0.2:7600");
  EXPECT_EQ(cluster->nodes[1].roles, (std::vector<HostedRole>{{"actor", {0, 1}}}));
  EXPECT_EQ(cluster->find("actors"), &cluster->nodes[1]);
  EXPECT_EQ(cluster->find("actor"), nullptr);
}

TEST(ClusterFile, WhatIsWrittenReadsBackAsTheSameCluster) {
  for (const std::int64_t nodes : {0, 1, 3}) {
    const actors::TrainOptions o = file_options(5, nodes);
    Result<ClusterSpec> cluster = place(o, "cartpole-1");
    ASSERT_TRUE(cluster.ok()) << cluster.error().message;
    cluster->nodes.back().address = {"fe80::1", 7601};
    const Result<ClusterSpec> again = parse_cluster(to_toml(*cluster), "f", o);
    ASSERT_TRUE(again.ok()) << again.error().message;
    EXPECT_EQ(*again, *cluster);
  }
}

TEST(ClusterFile, EveryMistakeIsReportedAtOnceWithItsLine) {
  EXPECT_EQ(cluster_message(R"(run = "../r"
node = 1
[[nodes]]
nam = "chief"
host = "-oX"
port = 70000
roles = { metric = [0], learner = [1], replay = 0 }
[[nodes]]
name = "a"
host = "h"
port = 7600
roles = { actor = [0, 0, "x"], metrics = [0] }
[[nodes]]
name = "a"
host = "h"
port = 7600
roles = []
)"),
            "f:1: run \"../r\": expected 1 .. 64 characters of a-z 0-9 . _ -, a letter or digit first\n"
            "f:2: unknown key node of a cluster (did you mean nodes?), expected run, nodes\n"
            "f:3: a node without name\n"
            "f:4: unknown key nam of a node (did you mean name?), expected name, host, port, roles\n"
            "f:5: host \"-oX\": expected a host name or an IP address\n"
            "f:6: port: got 70000, expected 0 .. 65535\n"
            "f:7: unknown key metric of roles (did you mean metrics?), expected actor, evaluator, learner, metrics, "
            "parameters, replay\n"
            "f:7: learner: got 1, expected instances in 0 .. 0\n"
            "f:7: replay: wrong type: got an integer, expected a list\n"
            "f:12: actor 0 is on node \"a\" already\n"
            "f:12: actor: got a string, expected instances in 0 .. 1\n"
            "f:12: metrics belong to the chief, the first node\n"
            "f:14: name \"a\": there is a node of that name already\n"
            "f:16: h:7600 is another node's address already\n"
            "f:17: roles is a table: got a list\n"
            "f: role actor: 1 of 2 instances are on no node, the first is 1\n"
            "f: role evaluator: 1 of 1 instances are on no node, the first is 0\n"
            "f: role learner: 1 of 1 instances are on no node, the first is 0\n"
            "f: role parameters: 1 of 1 instances are on no node, the first is 0\n"
            "f: role replay: 1 of 1 instances are on no node, the first is 0");
}

TEST(ClusterFile, BadFilesAreRefused) {
  const std::vector<FileCase> cases = {
      {"", "f: missing key run: the name of the run\nf: no nodes: expected at least one [[nodes]]"},
      {"run = 'r'\nnodes = []", "f:2: got 0 nodes, expected 1 .. 4096"},
      {std::string(kCluster).replace(std::string(kCluster).find("chief"), 5, "head"),
       "f:3: name \"head\": the first node is the \"chief\""},
      {"run = 'r'\nnodes = 3", "f:2: nodes: wrong type: got an integer, expected a list"},
      {"run = 'r", "f:1: syntax error: Error while parsing string: encountered end-of-file"},
      {"run = '\x1b[31m'\nnodes = []",
       "f:1: syntax error: Error while parsing literal string: control characters other than TAB (U+0009) are "
       "explicitly "
       "prohibited"},
  };
  for (const FileCase& c : cases) EXPECT_EQ(cluster_message(c.text), c.message) << c.text;
  EXPECT_EQ(load_cluster("/nonexistent/c.toml", file_options(1)).error().message, "/nonexistent/c.toml: no such file");
}

/// "chief@gpu-1:7600", one a node.
std::vector<std::string> in_words(const HostedCluster& hosted) {
  std::vector<std::string> all;
  for (const NodeSpec& node : hosted.cluster.nodes) all.push_back(node.name + "@" + to_string(node.address));
  return all;
}

using Words = std::vector<std::string>;

TEST(HostsFile, APlainListPutsEnvActorsOnAllHostsButTheFirst) {
  const Result<HostsFile> file = parse_hosts("hosts = ['gpu-1', 'cpu-1', 'alice@cpu-2']", "f");
  ASSERT_TRUE(file.ok()) << file.error().message;
  EXPECT_EQ(file->hosts[2].ssh, "alice@cpu-2");
  const Result<HostedCluster> hosted = place_on_hosts(file_options(4), "r", *file);
  ASSERT_TRUE(hosted.ok()) << hosted.error().message;
  EXPECT_EQ(in_words(*hosted),
            (Words{"chief@gpu-1:7600", "replay@gpu-1:7601", "learner@gpu-1:7602", "parameters@gpu-1:7603",
                   "evaluator@gpu-1:7604", "actors-0@cpu-1:7600", "actors-1@cpu-2:7600"}));
  EXPECT_EQ(hosted->hosts, (std::vector<std::size_t>{0, 0, 0, 0, 0, 1, 2}));
}

TEST(HostsFile, TheSpreadFitsWhatTheRunHas) {
  const Result<HostsFile> three = parse_hosts("hosts = ['a', 'b', 'c']", "f");
  const Result<HostsFile> one = parse_hosts("hosts = ['a']", "f");
  ASSERT_TRUE(three.ok() && one.ok());
  // One env actor is one node; more nodes than hosts go round; one host has all.
  const auto last = [](const Result<HostedCluster>& hosted) {
    return hosted.ok() ? in_words(*hosted).back() : hosted.error().message;
  };
  EXPECT_EQ(last(place_on_hosts(file_options(1), "r", *three)), "actors@b:7600");
  EXPECT_EQ(last(place_on_hosts(file_options(6, 5), "r", *three)), "actors-4@b:7602");
  EXPECT_EQ(last(place_on_hosts(file_options(6, 2), "r", *one)), "actors-1@a:7606");
  EXPECT_EQ(place_on_hosts(file_options(6, 0), "r", *three)->cluster.nodes.size(), 5u);
}

TEST(HostsFile, RolesGoWhereTheirHostsSay) {
  const Result<HostsFile> file = parse_hosts(R"(port = 9000
[[hosts]]
address = "10.0.0.1"
[[hosts]]
ssh = "gpu-1"
address = "10.0.0.2"
nodes = { learner = 1, parameters = 0, evaluator = 0 }
troupe = "/opt/troupe"
[[hosts]]
ssh = "cpu-1"
nodes = { actors = 2 }
)",
                                             "f", file_options(4));
  ASSERT_TRUE(file.ok()) << file.error().message;
  EXPECT_EQ(file->hosts[0].ssh, "");
  EXPECT_EQ(file->hosts[1].troupe, "/opt/troupe");
  const Result<HostedCluster> hosted = place_on_hosts(file_options(4), "r", *file);
  ASSERT_TRUE(hosted.ok()) << hosted.error().message;
  EXPECT_EQ(in_words(*hosted), (Words{"chief@10.0.0.1:9000", "replay@10.0.0.1:9001", "learner@10.0.0.2:9000",
                                      "actors-0@cpu-1:9000", "actors-1@cpu-1:9001"}));
}

TEST(HostsFile, ReplicaGroupsAndTheirServersMayBeNamed) {
  actors::TrainOptions o;
  o.replicas = {{.group = {.name = "gan", .replicator = "multi_worker", .count = 3}, .nodes = 3},
                {.group = {.name = "mlp", .replicator = "parameter_server", .count = 2, .ps_shards = 2},
                 .nodes = 1,
                 .ps_nodes = 1}};
  const std::string text = R"(
[[hosts]]
ssh = "a"
nodes = { gan = 1, mlp-ps = 2 }
[[hosts]]
ssh = "b"
nodes = { gan = 1 }
[[hosts]]
ssh = "c"
nodes = { mlp = 2 }
)";
  const Result<HostsFile> file = parse_hosts(text, "f", o);
  ASSERT_TRUE(file.ok()) << file.error().message;
  const Result<HostedCluster> hosted = place_on_hosts(o, "r", *file);
  ASSERT_TRUE(hosted.ok()) << hosted.error().message;
  EXPECT_EQ(in_words(*hosted), (Words{"chief@a:7600", "gan-0@a:7601", "gan-1@b:7600", "mlp-0@c:7600", "mlp-1@c:7601",
                                      "mlp-ps-0@a:7602", "mlp-ps-1@a:7603"}));
  EXPECT_EQ(hosted->cluster.nodes[1].roles[0].instances, (std::vector<std::int64_t>{0, 2}));
  // Whom no host names has the nodes of the configuration, on the first host; "mlp-ps" is no numbered "mlp".
  const Result<HostedCluster> unnamed = place_on_hosts(o, "r", *parse_hosts("hosts = ['a', 'b']", "f", o));
  ASSERT_TRUE(unnamed.ok()) << unnamed.error().message;
  EXPECT_EQ(in_words(*unnamed),
            (Words{"chief@a:7600", "gan-0@a:7601", "gan-1@a:7602", "gan-2@a:7603", "mlp@a:7604", "mlp-ps@a:7605"}));
  EXPECT_EQ(parse_hosts("[[hosts]]\nssh = 'a'\nnodes = {gam = 1, gan-ps = 1}", "f", o).error().message,
            "f:3: unknown key gam of nodes (did you mean gan?), expected gan, mlp, mlp-ps\n"
            "f:3: unknown key gan-ps of nodes (did you mean gan?), expected gan, mlp, mlp-ps");
}

TEST(HostsFile, PlacesOfARelayNeedNeitherAddressNorPort) {
  const char* const text = "hosts = ['a', 'b', {ssh = 'c', address = '10.0.0.3'}]";
  const Result<HostsFile> file = parse_hosts(text, "f", {}, Reach::kRelay);
  ASSERT_TRUE(file.ok()) << file.error().message;
  const Result<HostedCluster> hosted = place_on_hosts(file_options(2), "r", *file);
  ASSERT_TRUE(hosted.ok()) << hosted.error().message;
  EXPECT_EQ(to_string(hosted->cluster.nodes.front().address), "0.0.0.0:0");
  EXPECT_EQ(to_string(hosted->cluster.nodes.back().address), "10.0.0.3:0");
  const auto again = parse_cluster(to_toml(hosted->cluster), "f", file_options(2));
  ASSERT_TRUE(again.ok()) << again.error().message;
  EXPECT_EQ(*again, hosted->cluster);
  EXPECT_EQ(parse_hosts("[[hosts]]\nssh = 'a'\n[[hosts]]", "f", {}, Reach::kRelay).error().message,
            "f: the other hosts cannot reach 127.0.0.1: give every host an address of its own");
}

TEST(HostsFile, BadFilesAreRefused) {
  const std::vector<FileCase> cases = {
      {"", "f: missing key hosts: a list of hosts, or tables [[hosts]]"},
      {"hosts = []", "f:1: got 0 hosts, expected 1 .. 4096"},
      {"hosts = ['-oProxyCommand=x', 'a b', 'u@h@i']",
       "f:1: ssh \"-oProxyCommand=x\": expected HOST or USER@HOST\n"
       "f:1: ssh \"a b\": expected HOST or USER@HOST\n"
       "f:1: ssh \"u@h@i\": expected HOST or USER@HOST"},
      {"hosts = ['a',\n'u@a']", "f:2: address \"a\": there is a host of that address already"},
      {"hosts = ['a', 3]", "f:1: a host is a table: got an integer"},
      {"port = 0\n[[hosts]]\nssh = 'a'\nnodes = {actor = 1, learner = -1}\nadress = 'b'",
       "f:1: port: got 0, expected 1 .. 65535\n"
       "f:4: unknown key actor of nodes (did you mean actors?), expected "
       "actors, evaluator, learner, parameters, replay\n"
       "f:4: nodes.learner: got -1, expected 0 .. 1024\n"
       "f:5: unknown key adress of a host (did you mean address?), expected ssh, address, nodes, troupe"},
      {"[[hosts]]\n[[hosts]]\nssh = 'a'",
       "f: the other hosts cannot reach 127.0.0.1: give every host an address of its own"},
  };
  for (const FileCase& c : cases) {
    const Result<HostsFile> file = parse_hosts(c.text, "f", file_options(1));
    EXPECT_EQ(file.ok() ? "good" : file.error().message, c.message) << c.text;
  }
  const Result<HostsFile> file = parse_hosts("port = 65535\nhosts = ['a']", "f");
  ASSERT_TRUE(file.ok());
  EXPECT_EQ(place_on_hosts(file_options(1), "r", *file).error().message,
            "host a has more nodes than ports above 65535: use a lower port");
}

class NodeStartTest : public TestDirectory {};

TEST_F(NodeStartTest, TheAuthorityThatIsHandedOverIsKeptAndNoOtherTakesItsPlace) {
  const auto now = std::chrono::system_clock::now();
  const auto text = [&](const std::string& run) {
    const std::string folder = path() / run;
    EXPECT_TRUE(transport::Authority::create(run, now)->save(folder).ok());
    return text_of(folder + "/authority.key");
  };
  const std::string security = path() / "run/security", ours = text("ours");
  ASSERT_TRUE(keep_authority(security, ours).ok());
  EXPECT_EQ(transport::Authority::load(security, now)->run(), "ours");
  EXPECT_TRUE(keep_authority(security, ours).ok());
  EXPECT_THAT(keep_authority(security, text("others")).error().message,
              testing::HasSubstr("security/authority.key: another authority than the launcher's"));
  EXPECT_EQ(transport::Authority::load(security, now)->run(), "ours");
}

}  // namespace
}  // namespace troupe::apps
