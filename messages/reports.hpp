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

/// Learner to replay, after a step on a prioritised batch; or a program outside of the run. What it says is done in
/// this order, and nothing of it where a priority is none: Reverb's mutate_priorities, and its reset. Schema:
/// priorities.capnp.
struct PriorityUpdate {
  std::vector<std::uint64_t> keys;
  std::vector<double> priorities;           ///< one a key, finite and >= 0
  std::string table = {};                   ///< empty: there is one
  std::vector<std::uint64_t> deletes = {};  ///< keys of items that leave
  bool reset = false;                       ///< all items leave, limiter and counters begin anew
};

/// Env actor to metrics, at the end of an episode. Schema: metrics.capnp.
struct EpisodeReport {
  std::string role;                     ///< who played it
  std::uint32_t producer = 0;           ///< its index in the role
  double episode_return = 0;            ///< undiscounted sum of rewards, finite
  std::int64_t steps = 0;               ///< control steps of the episode
  std::int64_t parameters_version = 0;  ///< at its last action
};

/// Evaluator to metrics: what it has found about one version of the parameters. Schema: metrics.capnp.
struct EvaluationReport {
  std::string source;          ///< role of the evaluator
  std::int64_t version = 0;    ///< of the parameters; >= 0
  std::vector<Scalar> values;  ///< at most kMostValues, by names that differ; a value may be NaN or infinite
};
inline constexpr std::size_t kMostValues = 256;

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

/// Most env steps in one of the messages below: so many that no run takes them, so few that sums do not overflow.
inline constexpr std::int64_t kMostSteps = std::int64_t{1} << 46;

/// Env actor to metrics, which keeps the account of the run's env steps. Schema: metrics.capnp. All 0..kMostSteps.
struct StepsRequest {
  std::uint32_t producer = 0;  ///< index of the env actor in its role
  std::int64_t taken = 0;      ///< env steps of all its incarnations, as far as it knows
  std::int64_t allowed = 0;    ///< how many it may take in all, as it was told last
  std::int64_t wanted = 0;     ///< how many more than `taken` it asks for
};

/// The answer.
struct StepsGrant {
  std::int64_t taken = 0;    ///< as far as the account knows: a restarted env actor goes on from there
  std::int64_t allowed = 0;  ///< in all, of this env actor
  bool over = false;         ///< the run has had all its env steps
};

/// Client to replay, for a batch of so many rows. Schema: batch.capnp.
struct SampleRequest {
  std::int64_t rows = 0;         ///< 0..kMostSampleRows; 0: at once, for what the answer says of the table
  std::uint32_t timeout_ms = 0;  ///< after which nobody waits for it any more
  std::string table = {};        ///< empty: there is one
};
inline constexpr std::int64_t kMostSampleRows = 1 << 20;

/// Longest text in a message, in bytes: names and reasons.
inline constexpr std::size_t kMaxTextBytes = 4096;

/// Errors of all: the pool's; kInvalidArgument naming the field that is out of its bounds.
Result<Frame> make_priorities(FramePool& pool, const PriorityUpdate& update);
Result<Frame> make_episode(FramePool& pool, const EpisodeReport& report);
Result<Frame> make_evaluation(FramePool& pool, const EvaluationReport& report);
Result<Frame> make_parameters_use(FramePool& pool, const ParametersUse& use);
Result<Frame> make_parameters_version(FramePool& pool, const ParametersVersion& newest);
Result<Frame> make_steps_request(FramePool& pool, const StepsRequest& request);
Result<Frame> make_steps_grant(FramePool& pool, const StepsGrant& grant);
Result<Frame> make_sample_request(FramePool& pool, const SampleRequest& request);
Result<Frame> make_metrics(FramePool& pool, const MetricRow& row);

/// Errors of all: kCorrupt (malformed bytes), kInvalidArgument (another kind of message, or a value out of its bounds).
Result<PriorityUpdate> read_priorities(const Frame& frame);
Result<EpisodeReport> read_episode(const Frame& frame);
Result<EvaluationReport> read_evaluation(const Frame& frame);
Result<ParametersUse> read_parameters_use(const Frame& frame);
Result<ParametersVersion> read_parameters_version(const Frame& frame);
Result<StepsRequest> read_steps_request(const Frame& frame);
Result<StepsGrant> read_steps_grant(const Frame& frame);
Result<SampleRequest> read_sample_request(const Frame& frame);
Result<MetricRow> read_metrics(const Frame& frame);

}  // namespace troupe::messages
