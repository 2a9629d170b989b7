#pragma once
// Small messages that are values, not views: made from a struct and read back into one. Reading validates every time,
// since copying out of a few hundred bytes costs as much as remembering that they are good.
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <troupe/core/error.hpp>
#include <troupe/core/metrics.hpp>
#include <troupe/messages/frame.hpp>

namespace troupe::messages {

/// Learner to replay, after a step on a prioritised batch. Schema: priorities.capnp.
struct PriorityUpdate {
  std::vector<std::uint64_t> keys;
  std::vector<double> priorities;  ///< one a key, finite and >= 0
};

/// Env actor or evaluator to metrics, at the end of an episode. Schema: metrics.capnp.
struct EpisodeReport {
  std::string role;                     ///< who played it
  std::uint32_t producer = 0;           ///< its index in the role
  double episode_return = 0;            ///< undiscounted sum of rewards, finite
  std::int64_t steps = 0;               ///< control steps of the episode
  std::int64_t parameters_version = 0;  ///< at its last action
};

/// Env actor to parameter store, with each trajectory: what the staleness histogram counts. Schema: parameters.capnp.
struct ParametersUse {
  std::uint32_t producer = 0;  ///< index of the env actor in its role
  std::int64_t version = 0;    ///< learner step whose parameters chose the actions
  std::int64_t env_steps = 0;  ///< taken with them since the last such message; >= 0
};

/// Parameter store to everyone who acts, ahead of the parameters themselves: how they know what is newest. Schema:
/// parameters.capnp.
struct ParametersVersion {
  std::int64_t version = 0;  ///< learner step of the newest parameters; >= 0
};

/// Longest text in a message, in bytes: names and reasons.
inline constexpr std::size_t kMaxTextBytes = 4096;

/// Errors of all: the pool's; kInvalidArgument naming the field that is out of its bounds.
Result<Frame> make_priorities(FramePool& pool, const PriorityUpdate& update);
Result<Frame> make_episode(FramePool& pool, const EpisodeReport& report);
Result<Frame> make_parameters_use(FramePool& pool, const ParametersUse& use);
Result<Frame> make_parameters_version(FramePool& pool, const ParametersVersion& newest);
Result<Frame> make_metrics(FramePool& pool, const MetricRow& row);

/// Errors of all: kCorrupt (malformed bytes), kInvalidArgument (another kind of message, or a value out of its bounds).
Result<PriorityUpdate> read_priorities(const Frame& frame);
Result<EpisodeReport> read_episode(const Frame& frame);
Result<ParametersUse> read_parameters_use(const Frame& frame);
Result<ParametersVersion> read_parameters_version(const Frame& frame);
Result<MetricRow> read_metrics(const Frame& frame);

}  // namespace troupe::messages
