#pragma once
// The seam between the world and the agent, first station of the flow env -> actor -> replay -> learner -> parameter
// store -> actor. Passive: no threads, no clock, no I/O after construction. Semantics are dm_env's: an episode is
// reset(), then step() until a TimeStep of type kLast.
//
// Observations are named columns of any dtype and an action is one tensor, so that nothing is widened on its way: an
// image stays uint8. Both are bytes that the caller owns, the columns packed one after the other without padding, so
// that a vectorised caller can have many environments write into one batch. Numbers in them need not be aligned.
// Another view of an environment (flattened, stacked, guarded) is an environment around it: envs/flattened.hpp.
#include <cstddef>
#include <cstdint>
#include <functional>
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

/// What an action is: one tensor of bounded numbers, or of choices.
struct ActionSpec {
  TensorSpec tensor;         ///< "action": float64[6] say, or int32[] for one choice
  std::vector<double> low;   ///< continuous: one inclusive bound an element; discrete: empty
  std::vector<double> high;  ///< same length as low
  std::int64_t choices = 0;  ///< discrete: each element is one of 0 .. choices - 1, and the tensor is int32; else 0

  bool discrete() const { return choices > 0; }
  /// `low` and `high` for each element of "action", in numbers of `dtype`.
  static ActionSpec continuous(std::vector<double> low, std::vector<double> high, DType dtype = DType::kF64);
  /// One choice.
  static ActionSpec discrete(std::int64_t choices);
};

struct EnvSpec {
  std::string name;       ///< "cartpole-swingup", "CartPole-v1": the name that a configuration has it by
  Signature observation;  ///< e.g. position float64[3], velocity float64[2], or pixels uint8[84, 84, 3]
  ActionSpec action;
  std::int64_t episode_steps = 0;  ///< time limit in control steps
  double control_dt = 0;           ///< seconds of simulated time a step; 1 of what has no seconds
  /// Names of the cameras that render() draws from, in the order of their indices; one without a name is "". Empty: it
  /// has no picture of itself.
  std::vector<std::string> cameras = {};

  /// Elements over all columns of the observation, and of an action.
  std::int64_t observation_size() const;
  std::int64_t action_size() const { return action.tensor.shape.elements(); }
};

/// How a frame is drawn. dm_control's look costs a 2048 x 2048 shadow map and multi-sampling for every frame, which a
/// software rasteriser feels: tens of frames/s at 84 x 84 against about a thousand.
enum class RenderProfile : std::uint8_t {
  kDmControl,  ///< the same bytes as dm_control's physics.render() on the same OpenGL implementation
  kFast,       ///< no shadows, reflections or multi-sampling
};

struct RenderOptions {
  int height = 84;  ///< pixels
  int width = 84;   ///< pixels
  RenderProfile profile = RenderProfile::kDmControl;
  std::string camera = "0";  ///< name of one of EnvSpec::cameras, or its index
};

/// One environment instance. Not thread-safe; different instances may run on different threads at once.
class Environment {
 public:
  virtual ~Environment() = default;

  virtual const EnvSpec& spec() const = 0;

  /// Starts an episode whose start state follows from `seed` alone. Of the suite it is that of a freshly loaded
  /// dm_control environment with task_kwargs={"random": seed}; seeds from 2^32 on act as
  /// random=np.random.RandomState([low, high 32 bits]). Of classic control it is gymnasium's reset(seed=seed).
  /// observation: row_bytes(spec().observation) bytes, written. Errors: kInternal when the simulation diverges.
  virtual Result<TimeStep> reset(std::uint64_t seed, std::span<std::byte> observation) = 0;

  /// Starts the next episode of the same random stream, as dm_control does after a kLast step and gymnasium's reset()
  /// without a seed.
  virtual Result<TimeStep> reset(std::span<std::byte> observation) = 0;

  /// Applies the action (the bytes of spec().action.tensor) for one control step. What ships clips it to its bounds, as
  /// dm_control and gymnasium do. Errors: kInvalidArgument on a wrong length, a number that is not finite or a choice
  /// that there is not; kUnavailable before reset() and after a kLast step; kInternal when the simulation diverges
  /// (then the next call must be reset(); other errors change nothing).
  virtual Result<TimeStep> step(std::span<const std::byte> action, std::span<std::byte> observation) = 0;

  /// Everything that step() depends on (simulator state, random stream, step counter), for checkpoints.
  virtual std::vector<std::byte> save_state() const = 0;
  /// Continues bit for bit where save_state() was called, in any instance of the same environment.
  /// Errors: kCorrupt when the bytes are not of this environment; then nothing changes.
  virtual Status restore_state(std::span<const std::byte> state) = 0;

  /// Draws the present state. pixels: height x width x 3 bytes, RGB, top row first.
  /// The first call makes an OpenGL context, which later calls with the same size and profile use again.
  /// Errors: kInvalidArgument on a camera that there is not (camera_index() says so), a size below 1 or a span of
  /// another length; kUnavailable when this machine cannot render (the message says what is missing), and of an
  /// environment that does not know how it looks.
  virtual Status render(const RenderOptions& options, std::span<std::uint8_t> pixels);
};

/// Makes instances of one environment, each with a random stream of its own: reset() without a seed starts that of
/// `seed`. Called from any thread, also from several at once.
using MakeEnvironment = std::function<Result<std::unique_ptr<Environment>>(std::uint64_t seed)>;

/// That an agent can act in such an environment: at least one number of observation; an action of at least one number,
/// float64 or float32, with as many lower as upper bounds, each finite and below the other, or of int32 choices; and a
/// time limit. Columns have any dtype, and an algorithm says which of them it takes. Who writes an environment of their
/// own learns here what it lacks. Errors: kInvalidArgument, naming the environment.
Status check_spec(const EnvSpec& spec);

/// What step() says of an action that it cannot take, of a `spec` that check_spec() has taken. Errors: kInvalidArgument
/// on a wrong length, a number that is not finite or a choice that there is not; numbers beyond their bounds are no
/// error here.
Status check_action(const EnvSpec& spec, std::span<const std::byte> action);

/// The index in spec.cameras of the camera that has this name, or this index. Errors: kInvalidArgument, with the
/// nearest name and those that there are.
Result<std::size_t> camera_index(const EnvSpec& spec, const std::string& camera);

/// Names of the environments that ship, sorted.
std::vector<std::string> environment_names();

/// Makes a shipped environment by name; reset() without a seed then starts the stream of `seed`. The suite's model
/// files come from the directory in the environment variable TROUPE_DM_CONTROL_DIR, or else from the installation
/// (core/installation.hpp). Errors: kNotFound, naming the nearest known names; kIo when a model file is missing or
/// cannot be loaded.
Result<std::unique_ptr<Environment>> make_environment(const std::string& name, std::uint64_t seed);

/// make_environment() for many instances of one environment: they share the immutable parts of one simulator model
/// (mostly textures: 12 MB), which the first call loads for all.
MakeEnvironment shared_environments(std::string name);

}  // namespace troupe::envs
