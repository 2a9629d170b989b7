#pragma once
// A trainer's steps from replay in the memory of its own GPU: trajectories stream into the table there, and a launch
// draws, steps and sets priorities as often as it has steps, without the host. So a step sees the priorities of the one
// before, which replay of a role of its own hears of some batches later.
#include <cstdint>
#include <string>

#include <troupe/actors/roles/held_replay_feed.hpp>
#include <troupe/learner/engine/device_feed.hpp>
#include <troupe/replay/gpu_table.hpp>

namespace troupe::actors {

/// From now on launches of `program` draw batches of `batch` rows from `table`, which is on its GPU and outlives that,
/// and set the priorities of what they drew; for who drives a program without a trainer. importance_exponent and
/// priority_output: those of HeldReplayFeedOptions. Errors: those of Program's device_input(), device_output() and
/// attach().
Status feed_from(replay::GpuTable& table, std::int64_t batch, double importance_exponent,
                 const std::string& priority_output, learner::Program& program);

/// Errors: those of ReplayIntake::make() and replay::GpuTable::make(); kInvalidArgument when the trainer is not on a
/// GPU.
FeedSpec gpu_replay_feed(HeldReplayFeedOptions options);

}  // namespace troupe::actors
