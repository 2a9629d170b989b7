#pragma once
// A replica group under a parameter server as roles and channels:
//
//   NAME x workers --pull (request)--> NAME-ps x shards      parameters of at least a version
//                  --push (request)-->                       a gradient, answered with what became of it
//
// Workers run at their own pace: each pulls, computes and pushes, and the shards apply. Both channels are requests, not
// streams: a gradient must be applied once at most, and an old one is worth nothing, so one whose answer does not come
// is given up, never repeated. Requests also leave no cycle in which queues could fill up: who calls waits for nobody
// but who answers, and a shard never waits for a worker longer than straggler_timeout.
//
// Faults: a worker that dies is missing, no more. A shard that dies comes back from the last cut, with an older version
// than the other shards, who need not know: versions count each shard's own updates. Gradients of versions that it
// does not know (any more) are dropped, and workers go on from what it hands out. Each shard makes `updates` updates
// and stops, so one that comes back may make its last ones beside others that have stopped, perhaps where its first
// ones have moved them. When it comes back after all workers are done, nobody trains it any more.
// With fewer living workers than a synchronous step needs (tf's SyncReplicas would wait for ever): straggler_timeout
// after its first gradient a step takes what it has, and later ones wait for as many as were there, until others are
// heard of.
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include <troupe/actors/roles/feed.hpp>
#include <troupe/actors/roles/publication.hpp>
#include <troupe/actors/runtime/topology.hpp>
#include <troupe/learner/replicate/parameter_server/shard.hpp>
#include <troupe/learner/replicate/parameter_server/worker.hpp>

namespace troupe::actors {

struct ParameterServerOptions {
  std::string name = "replica";  ///< of the workers' role; the shards' is NAME-ps
  /// Of each worker, whose ports it adds. A shard makes one as well, for the layout of its replica alone.
  FeedSpec feed;
  /// Likewise. Its steps are versions: worker 0 publishes what it has pulled when it is due, and each worker the last
  /// parameters, since the others may have died.
  PublicationSpec publication = {};
  std::int64_t workers = 1;
  std::int64_t batch = 0;  ///< rows of one batch of every worker, together; each takes an equal share, to one row
  learner::CompileOptions compile = {};
  std::vector<learner::Device> devices = {};  ///< worker i computes on the i-th modulo their count
  std::int64_t shards = 1;
  learner::ParamPartition partition = learner::ParamPartition::kPartitioned;
  std::int64_t part_bytes = learner::kDefaultPartBytes;
  DType transfer = DType::kF32;  ///< of parameters and gradients: or kBF16. State and sums are float32.
  learner::StalePolicy stale = learner::StalePolicy::kNone;
  std::int64_t max_staleness = 0;
  bool synchronous = false;
  std::int64_t backup_workers = 0;  ///< synchronous: a step ends without the latest so many of `workers` gradients
  std::int64_t updates = 0;         ///< the workers are done when every shard has made so many; 0: never
  /// Before the first step of a new run: of each shard's and each worker's program. Null: nothing.
  std::function<Status(learner::Program&)> begin_with = nullptr;
  Duration straggler_timeout = std::chrono::seconds(5);
  Duration call_deadline = std::chrono::seconds(10);  ///< for a push, and for a pull of what is there
};

/// Errors: kInvalidArgument naming the option, got and expected.
Status check(const ParameterServerOptions& options);

/// What workers and shards build: of worker `worker`, whose input begins at batch `first_step`.
learner::ParameterServerPlan plan(const ParameterServerOptions& options, std::int64_t worker, std::int64_t first_step);

/// Appends the two roles and their channels. Neither completes the run: the caller marks the workers' role or another.
/// Errors: those of check().
Status add_parameter_server(Topology& topology, const ParameterServerOptions& options);

}  // namespace troupe::actors
