// Which node hosts what, from [placement] and from places that are there already.
#include <fmt/core.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include <troupe/apps/cluster/node_needs.hpp>
#include <troupe/apps/cluster/place.hpp>

namespace troupe::apps {
namespace {

actors::TrainOptions placed_options(std::int64_t actors, std::int64_t actor_nodes = 1) {
  actors::TrainOptions o;
  o.agents.emplace_back();
  o.agents[0].actors.count = actors;
  o.agents[0].placement.actors = actor_nodes;
  return o;
}

std::vector<transport::Address> places(std::size_t count) {
  std::vector<transport::Address> all;
  for (std::size_t i = 0; i < count; ++i) all.push_back({fmt::format("h{}", i), 7600});
  return all;
}

/// "chief: metrics 0", one a node.
std::vector<std::string> in_words(const ClusterSpec& cluster) {
  std::vector<std::string> all;
  for (const NodeSpec& node : cluster.nodes) {
    std::string words = node.name + ":";
    for (const HostedRole& role : node.roles) {
      words += fmt::format(" {} {}", role.role, fmt::join(role.instances, " "));
    }
    all.push_back(words);
  }
  return all;
}

using Words = std::vector<std::string>;

TEST(Place, GivesEveryRoleANodeOfItsOwnAndDealsOutTheEnvActors) {
  const Result<ClusterSpec> cluster = place(placed_options(5, 2), "r");
  ASSERT_TRUE(cluster.ok()) << cluster.error().message;
  EXPECT_EQ(cluster->run, "r");
  EXPECT_EQ(in_words(*cluster),
            (Words{"chief: metrics 0", "replay: replay 0", "learner: learner 0", "parameters: parameters 0",
                   "evaluator: evaluator 0", "actors-0: actor 0 2 4", "actors-1: actor 1 3"}));
  for (const NodeSpec& node : cluster->nodes) EXPECT_EQ(to_string(node.address), "127.0.0.1:0");
}

TEST(Place, PutsWithTheChiefWhatGetsNoNode) {
  actors::TrainOptions o = placed_options(2, 0);
  o.agents[0].placement.parameters = 0;
  o.agents[0].placement.evaluator = 0;
  const Result<ClusterSpec> cluster = place(o, "r");
  ASSERT_TRUE(cluster.ok()) << cluster.error().message;
  EXPECT_EQ(in_words(*cluster),
            (Words{"chief: actor 0 1 evaluator 0 metrics 0 parameters 0", "replay: replay 0", "learner: learner 0"}));
}

TEST(Place, InferenceServersHaveNodesWhenEnvActorsUseThem) {
  actors::TrainOptions o = placed_options(2, 1);
  o.agents[0].actors.inference = "server";
  o.agents[0].inference.count = 3;
  o.agents[0].placement.inference = 2;
  const Result<ClusterSpec> cluster = place(o, "r");
  ASSERT_TRUE(cluster.ok()) << cluster.error().message;
  EXPECT_EQ(in_words(*cluster), (Words{"chief: metrics 0", "replay: replay 0", "learner: learner 0",
                                       "parameters: parameters 0", "evaluator: evaluator 0",
                                       "inference-0: inference 0 2", "inference-1: inference 1", "actors: actor 0 1"}));
}

TEST(Place, RefusesMoreNodesThanInstances) {
  const Result<ClusterSpec> cluster = place(placed_options(2, 3), "r");
  ASSERT_FALSE(cluster.ok());
  EXPECT_EQ(cluster.error().message,
            "placement.actors.nodes is 3, expected at most 2, the number of instances of role actor");
}

TEST(Place, EveryInstanceIsOnExactlyOneNodeWhateverTheNumbers) {
  for (std::int64_t count = 1; count <= 9; ++count) {
    for (std::int64_t nodes = 0; nodes <= count; ++nodes) {
      const Result<ClusterSpec> cluster = place(placed_options(count, nodes), "r");
      ASSERT_TRUE(cluster.ok()) << cluster.error().message;
      std::map<std::pair<std::string, std::int64_t>, int> times;
      for (const NodeSpec& node : cluster->nodes) {
        EXPECT_FALSE(node.roles.empty()) << node.name;
        for (const HostedRole& role : node.roles) {
          for (const std::int64_t i : role.instances) ++times[{role.role, i}];
        }
      }
      EXPECT_EQ(times.size(), 5u + static_cast<std::size_t>(count));
      for (const auto& [instance, n] : times) EXPECT_EQ(n, 1) << instance.first << instance.second;
    }
  }
}

TEST(PlaceOn, EnvActorsTakeThePlacesThatAreLeft) {
  const Result<ClusterSpec> cluster = place_on(placed_options(4), "r", places(8), "tasks");
  ASSERT_TRUE(cluster.ok()) << cluster.error().message;
  EXPECT_EQ(in_words(*cluster),
            (Words{"chief: metrics 0", "replay: replay 0", "learner: learner 0", "parameters: parameters 0",
                   "evaluator: evaluator 0", "actors-0: actor 0 3", "actors-1: actor 1", "actors-2: actor 2"}));
  for (std::size_t i = 0; i < 8; ++i) EXPECT_EQ(cluster->nodes[i].address.host, fmt::format("h{}", i));
}

TEST(PlaceOn, SaysHowManyPlacesAreNeededForWhat) {
  for (const std::size_t count : {std::size_t{3}, std::size_t{5}, std::size_t{10}}) {
    const Result<ClusterSpec> cluster = place_on(placed_options(4), "r", places(count), "Slurm tasks");
    ASSERT_FALSE(cluster.ok()) << count;
    EXPECT_EQ(cluster.error().message,
              fmt::format("got {} Slurm tasks, but the run needs 6 .. 9: chief 1, replay 1, learner 1, parameters 1, "
                          "evaluator 1, actors 1 .. 4. Change their number, actors.count = 4 or [placement]",
                          count));
  }
  const Result<ClusterSpec> without = place_on(placed_options(4, 0), "r", places(6), "pods");
  ASSERT_FALSE(without.ok());
  EXPECT_EQ(
      without.error().message,
      "got 6 pods, but the run needs 5: chief 1, replay 1, learner 1, parameters 1, evaluator 1, actors 0. Change "
      "their number, actors.count = 4 or [placement]");
}

TEST(Place, GivesReplicaGroupsTheirNodes) {
  actors::TrainOptions o;
  o.replicas = {
      {.group = {.name = "gan", .replicator = "multi_worker", .count = 3}, .model = "sngan", .nodes = 2},
      {.group = {.name = "mlp", .replicator = "parameter_server", .count = 2, .ps_shards = 2}, .ps_nodes = 0}};
  const Result<ClusterSpec> alone = place(o, "r");
  ASSERT_TRUE(alone.ok()) << alone.error().message;
  EXPECT_EQ(in_words(*alone), (Words{"chief: gan-evaluator 0 metrics 0 mlp-evaluator 0 mlp-ps 0 1", "gan-0: gan 0 2",
                                     "gan-1: gan 1", "mlp: mlp 0 1"}));
  actors::TrainOptions two_roles;
  two_roles.replicas = {{.group = {.name = "gan", .replicator = "split_gan", .count = 2, .discriminators = 3},
                         .model = "sngan",
                         .nodes = 0,
                         .discriminator_nodes = 2}};
  EXPECT_EQ(in_words(*place(two_roles, "r")),
            (Words{"chief: gan 0 1 gan-evaluator 0 metrics 0", "gan-discriminator-0: gan-discriminator 0 2",
                   "gan-discriminator-1: gan-discriminator 1"}));
  o.agents.emplace_back();
  const Result<ClusterSpec> mixed = place(o, "r");
  ASSERT_TRUE(mixed.ok()) << mixed.error().message;
  EXPECT_EQ(mixed->nodes.size(), alone->nodes.size() + 5);
  o.agents.push_back({.name = "alice"});
  const Result<ClusterSpec> named = place(o, "r");
  ASSERT_TRUE(named.ok()) << named.error().message;
  EXPECT_EQ(in_words(*named).back(), "alice-actors: alice-actor 0");
  o.replicas[0].nodes = 4;
  EXPECT_EQ(place(o, "r").error().message,
            "replicas.gan.nodes is 4, expected at most 3, the number of instances of role gan");
}

/// "learner: 1 cpus, 2 gpus for learner", one a node.
Words needs_in_words(const actors::TrainOptions& options) {
  const Result<ClusterSpec> cluster = place(options, "r");
  if (!cluster.ok()) return {cluster.error().message};
  const std::vector<NodeNeeds> needs = needs_of(*cluster, actors::role_counts(options));
  Words all;
  for (std::size_t i = 0; i < needs.size(); ++i) {
    all.push_back(fmt::format("{}: {} cpus, {} gpus for {}", cluster->nodes[i].name, needs[i].cpus, needs[i].gpus,
                              needs[i].role_nodes));
  }
  return all;
}

TEST(NodeNeeds, AreAProcessorForEachThreadThatWorksAndTheGpusThatAreNamed) {
  actors::TrainOptions o = placed_options(5, 2);
  o.agents[0].actors.threads = 2;
  o.agents[0].learner.device = {"cuda:0"};
  EXPECT_EQ(
      needs_in_words(o),
      (Words{"chief: 1 cpus, 0 gpus for ", "replay: 1 cpus, 0 gpus for replay", "learner: 1 cpus, 1 gpus for learner",
             "parameters: 1 cpus, 0 gpus for parameters", "evaluator: 1 cpus, 0 gpus for evaluator",
             "actors-0: 6 cpus, 0 gpus for actors", "actors-1: 4 cpus, 0 gpus for actors"}));
}

TEST(NodeNeeds, OfReplicasDependOnWhoRunsThem) {
  actors::TrainOptions o = placed_options(1, 0);
  auto& agent = o.agents[0];
  agent.placement.replay = agent.placement.parameters = agent.placement.evaluator = 0;
  agent.learner.count = 2;
  agent.learner.threads = 3;
  agent.learner.device = {"cuda:0", "cuda:1"};
  agent.placement.learner = 2;  // an instance each, which has one of the devices
  EXPECT_EQ(needs_in_words(o), (Words{"chief: 1 cpus, 0 gpus for ", "learner-0: 1 cpus, 1 gpus for learner",
                                      "learner-1: 1 cpus, 2 gpus for learner"}));
  agent.learner.replicator = "multi_device";  // one instance runs both
  agent.placement.learner = 1;
  EXPECT_EQ(needs_in_words(o), (Words{"chief: 1 cpus, 0 gpus for ", "learner: 2 cpus, 2 gpus for learner"}));
  agent.learner.device = {"cpu"};
  EXPECT_EQ(needs_in_words(o)[1], "learner: 6 cpus, 0 gpus for learner");
  agent.learner.device = {"auto"};
  EXPECT_EQ(needs_in_words(o)[1], "learner: 6 cpus, 0 gpus for learner");
}

}  // namespace
}  // namespace troupe::apps
