// Whole replica groups in real time: every replicator trains the same small model to the same end.
#include <troupe/actors/roles/replica_topology.hpp>

#include <gtest/gtest.h>

#include <troupe/actors/control/runtime.hpp>
#include <troupe/actors/runtime/topology_dot.hpp>
#include <troupe/tests/actors/small_replica.hpp>
#include <troupe/tests/actors/train_replica.hpp>

namespace troupe::actors {
namespace {

using testing::line_model;
using testing::train_replica;

ReplicaGroupOptions group(const std::string& replicator, std::int64_t count) {
  return {.name = "line",
          .replicator = replicator,
          .count = count,
          .batch_size = 16,
          .steps = 60,
          .evaluate_every_steps = 20};
}

class TrainReplica : public ::testing::TestWithParam<std::pair<const char*, std::int64_t>> {};

TEST_P(TrainReplica, ReachesTheLineUnderEveryReplicator) {
  const auto& [replicator, count] = GetParam();
  const auto trained = train_replica(line_model(), group(replicator, count));
  ASSERT_TRUE(trained.ok()) << trained.error().message;
  EXPECT_GE(trained->steps, 60);  // a parameter server's workers may make some more while the last ones are on the way
  EXPECT_GE(trained->evaluated_step, 60);
  ASSERT_EQ(trained->evaluation.size(), 1U);
  // 60 steps of 0.1 shrink the error by about 0.8 each; gradients that come late undo some of it.
  EXPECT_LT(trained->evaluation[0].value, std::string(replicator) == "parameter_server" ? 0.1 : 1e-4);
}

INSTANTIATE_TEST_SUITE_P(
    Replicators, TrainReplica,
    ::testing::Values(std::pair("one_device", 1), std::pair("model_parallel", 1), std::pair("model_parallel", 2),
                      std::pair("multi_device", 2), std::pair("central_storage", 2), std::pair("multi_worker", 1),
                      std::pair("multi_worker", 2), std::pair("parameter_server", 2), std::pair("sync_replicas", 2)),
    [](const auto& info) { return std::string(info.param.first) + "_" + std::to_string(info.param.second); });

TEST(TrainReplicaErrors, NameTheOption) {
  const auto message = [](const ReplicaGroupOptions& options) {
    const auto trained = train_replica(line_model(), options);
    return trained.ok() ? "it trained" : trained.error().message;
  };
  EXPECT_EQ(message(group("mirrored", 1)),
            "replicas.line.replicator: unknown \"mirrored\", expected one of one_device, multi_device, multi_worker, "
            "central_storage, parameter_server, sync_replicas, model_parallel, split_gan");
  EXPECT_EQ(message(group("one_device", 2)),
            "replicas.line.count: got 2, but replicator \"one_device\" runs one replica");
  EXPECT_EQ(message(group("multi_worker", 17)), "replicas.line.batch_size: got 16 for 17 replicas");
  ReplicaGroupOptions threads = group("multi_worker", 4);
  threads.threads = 5;
  EXPECT_EQ(message(threads),
            "replicas.line.threads: got 5, expected 1 to the rows of a replica's batch, which threads share");
  ReplicaGroupOptions backup = group("multi_worker", 2);
  backup.backup_workers = 2;
  EXPECT_EQ(message(backup),
            "replicas.line.backup_workers: got 2, but replicator \"multi_worker\" has none\n"
            "replicas.line.backup_workers: got 2 of 2 replicas, expected fewer");
}

TEST(ReplicaTopology, CompletesARunWhenAllOfItsPartsAreDone) {
  Topology topology;
  ReplicaGroupOptions one = group("one_device", 1), other = group("one_device", 1);
  one.name = "short";
  one.steps = 3;
  other.name = "long";
  other.steps = 400;
  ASSERT_TRUE(add_replica_group(topology, one, line_model()).ok());
  ASSERT_TRUE(add_replica_group(topology, other, line_model()).ok());
  ASSERT_TRUE(check(topology).ok()) << check(topology).error().message;
  RuntimeOptions how;
  how.write_cut = [](const std::shared_ptr<const Cut>&) { return Status(); };
  const auto runtime = Runtime::make(topology, how);
  ASSERT_TRUE(runtime.ok());
  ASSERT_TRUE((*runtime)->run([] { return false; }).ok());
  const auto counters = (*runtime)->checkpoint();
  ASSERT_TRUE(counters.ok());
  EXPECT_EQ(replica_summary("short", *counters).evaluated_step, 3);
  EXPECT_EQ(replica_summary("long", *counters).evaluated_step, 400);
}

TEST(TopologyDot, DrawsRolesChannelsAndParts) {
  Topology topology;
  topology.roles = {{.name = "a \"quoted\" role", .count = 3, .outlets = {{"out", "X"}}},
                    {.name = "sink", .inlets = {{"in", "X"}}}};
  topology.channels = {{"a \"quoted\" role", "out", "sink", "in", 5}};
  ASSERT_TRUE(add_replica_group(topology, group("multi_worker", 2), line_model()).ok());
  const std::string dot = to_dot(topology);
  const auto has = [&](const std::string& part) {
    EXPECT_NE(dot.find(part), std::string::npos) << part << "\nin\n" << dot;
  };
  has("\"a \\\"quoted\\\" role\" [label=\"a \\\"quoted\\\" role x 3\"];");
  has("\"a \\\"quoted\\\" role\" -> \"sink\" [label=\"out\\nstream 5\", style=solid];");
  has("subgraph \"cluster_line\"");
  has("\"line\" [label=\"line x 2\\ngroup\", peripheries=2];");
  has("\"line\" -> \"line-evaluator\" [label=\"parameters\\nlatest\", style=dashed];");
}

}  // namespace
}  // namespace troupe::actors
