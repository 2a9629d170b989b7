#pragma once
// The seam between the world and the agent, first station of the flow env -> actor -> replay -> learner -> parameter
// store -> actor. Passive: no threads, no clock, no I/O after construction. Semantics are dm_env's: an episode is
// reset(), then step() until a TimeStep of type kLast; environments run on bytes that the caller owns, so a vectorised
// caller can have them write straight into a batch.
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <troupe/core/error.hpp>
#include <troupe/core/tensor.hpp>

namespace troupe::envs {

/// dm_env.StepType.
enum class StepType : std::uint8_t { kFirst = 0, kMid = 1, kLast = 2 };

/// What a step gives besides its observation. reward and discount are 0 and 1 on kFirst.
struct TimeStep {
  StepType type = StepType::kFirst;
  double reward = 0;
  double discount = 1;  ///< 0 on kLast when the task ended; 1 when only the time limit was reached (bootstrap then)

  bool first() const { return type == StepType::kFirst; }
  bool last() const { return type == StepType::kLast; }
};

struct EnvSpec {
  std::string name;                 ///< "cartpole-swingup": domain-task, the name that make_environment() takes
  Signature observation;            ///< e.g. position float64[3], velocity float64[2]; packed in this order
  std::vector<double> action_low;   ///< one bound a dimension, inclusive
  std::vector<double> action_high;  ///< same length as action_low
  std::int64_t episode_steps = 0;   ///< time limit in control steps
  double control_dt = 0;            ///< seconds of simulated time a step

  std::int64_t action_size() const { return static_cast<std::int64_t>(action_low.size()); }
  /// Elements over all observation columns: the length of the flat vector that an agent's network takes.
  std::int64_t observation_size() const;
};

/// One environment instance. Not thread-safe; different instances may run on different threads at once.
class Environment {
 public:
  virtual ~Environment() = default;

  virtual const EnvSpec& spec() const = 0;

  /// Starts an episode whose start state follows from `seed` alone (same seed, same bits).
  /// observation: row_bytes(spec().observation) bytes, written. Errors: kInternal when the simulation diverges.
  virtual Result<TimeStep> reset(std::uint64_t seed, std::span<std::byte> observation) = 0;

  /// Starts the next episode of the same random stream, as dm_control does after a kLast step.
  virtual Result<TimeStep> reset(std::span<std::byte> observation) = 0;

  /// Applies action (spec().action_size() doubles, clipped by the simulator as in dm_control) for one control step.
  /// Errors: kInvalidArgument on a wrong length or a non-finite action; kUnavailable before reset() and after a kLast
  /// step; kInternal when the simulation diverges. After an error the next call must be reset().
  virtual Result<TimeStep> step(std::span<const double> action, std::span<std::byte> observation) = 0;

  /// Everything that step() depends on (simulator state, random stream, step counter), for checkpoints.
  virtual std::vector<std::byte> save_state() const = 0;
  /// Errors: kCorrupt when the bytes are not of this environment.
  virtual Status restore_state(std::span<const std::byte> state) = 0;

  /// Draws the present state. pixels: height x width x 3 bytes, RGB, top row first.
  /// Errors: kUnavailable when this machine cannot render (the message says what is missing).
  virtual Status render(int height, int width, std::span<std::uint8_t> pixels) = 0;
};

/// Names that make_environment() knows, sorted.
std::vector<std::string> environment_names();

/// Makes an environment by name. Errors: kNotFound, naming the nearest known names; kIo when model files are missing.
Result<std::unique_ptr<Environment>> make_environment(const std::string& name, std::uint64_t seed);

/// Casts a packed observation to the flat float32 vector that networks take. out: spec.observation_size() floats.
void flatten_observation(const EnvSpec& spec, std::span<const std::byte> observation, std::span<float> out);

}  // namespace troupe::envs
