#pragma once
// A trainer's steps from replay in the memory of its own GPU: trajectories go to the trainer's node and stream into the
// table there, and a launch draws, steps and sets priorities as often as it has steps, without the host. So a step sees
// the priorities of the one before, which replay of a role of its own hears of some batches later. The table lives and
// dies with the trainer, whose part of a checkpoint holds it.
//
// Of a group each trainer has a table of its own, which is a shard of the whole (replay/shards.hpp) whatever the others
// hold, and draws its rows of a step from there: a batch is then drawn in strata of equal size, one a shard. Env actors
// deal out their trajectories, first to whoever has room. A trainer whose shard admits no batch keeps the others
// waiting, as any member of a group does that has no input.
#include <cstdint>
#include <memory>
#include <string>

#include <troupe/actors/roles/feed.hpp>
#include <troupe/actors/roles/replay_intake.hpp>
#include <troupe/learner/engine/device_feed.hpp>
#include <troupe/replay/gpu_table.hpp>

namespace troupe::actors {

struct GpuReplayFeedOptions {
  MakeFedReplica make_replica;
  Signature signature;  ///< of the replica's input: the table's columns and, when it is prioritised, "weight"
  ReplayActorOptions replay;
  /// The exponent of the weights in the step's input "weight", see ReplayBatchesOptions. 0: there is no such input, and
  /// priorities stay as they came. Else the step's output `priority_output` gives the new ones.
  double importance_exponent = 0;
  std::string priority_output = "td_error";
};

/// From now on launches of `program` draw batches of `batch` rows from `table`, which is on its GPU and outlives that,
/// and set the priorities of what they drew; for who drives a program without a trainer. importance_exponent and
/// priority_output: as above. Errors: those of Program's device_input(), device_output() and attach().
Status feed_from(replay::GpuTable& table, std::int64_t batch, double importance_exponent,
                 const std::string& priority_output, learner::Program& program);

/// Port: in trajectories (stream, Trajectory), see ReplayIntake. Errors: those of ReplayIntake::make() and
/// replay::GpuTable::make(); kInvalidArgument when the trainer is not on a GPU.
FeedSpec gpu_replay_feed(GpuReplayFeedOptions options);

}  // namespace troupe::actors
