#pragma once
// A compiled graph: parameters, one arena a stripe, and flat kernel lists. The learner actor runs one each step; env
// actors and the evaluator run a small one each action. A run allocates nothing and takes no lock; with one stripe it
// starts no thread and waits for nobody.
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <troupe/core/error.hpp>
#include <troupe/core/tensor.hpp>
#include <troupe/learner/engine/cpu/gemm.hpp>
#include <troupe/learner/engine/device.hpp>
#include <troupe/learner/engine/together.hpp>
#include <troupe/learner/graph/graph.hpp>
#include <troupe/learner/graph/param_buffer.hpp>

namespace troupe::gpu {
class Gpu;
}

namespace troupe::learner {

class DeviceFeed;   // learner/engine/device_feed.hpp
struct DeviceSpan;  // the same

/// PyTorch's DDP has 25 MB for links between hosts; smaller ones begin earlier and cost little where a call takes
/// microseconds (bench/learner/replicators_bench.cpp).
inline constexpr std::int64_t kBucketBytes = std::int64_t{4} << 20;

struct CompileOptions {
  /// Parts into which the batch is split; each gets batch / stripes rows, the first ones one more. What is summed over
  /// stripes is added in the order of learner/engine/tree_sum.hpp, so results are the same bits for a fixed number of
  /// stripes, and for several replicas with as many stripes in all (a power of two each). 0: one for each of `threads`,
  /// and one on a GPU.
  int stripes = 1;
  /// Threads that run the stripes of a device, the calling one included; changes no bit. 0: one a stripe, as far as
  /// there are processors; never more than stripes.
  int threads = 0;
  /// Devices that the graph's nodes are split over, by their logical device (Graph::set_device) modulo this number;
  /// changes no bit. Each has threads of its own, and no more than the graph names are used.
  int devices = 1;
  /// The processor, or a GPU; then stripes and devices are 1, and threads mean nothing.
  Device device;
  /// On a GPU: products and convolutions of float32 round their operands to TF32 (10 bits of mantissa) for speed.
  bool tf32 = false;
  /// kF32; kBF16: matrix products take bfloat16 operands and sum in float32, everything else is float32, also where the
  /// processor has no instructions for it, which the log then says once;
  /// kF64: for checking gradients, cannot update parameters or run joint functions.
  DType compute = DType::kF32;
  GemmBackend gemm = GemmBackend::kAuto;
  /// kMeasured gives bits that may differ between processes; programs that train have it, unless they are to be
  /// deterministic. On a processor it takes at most two seconds of a process (learner/engine/cpu/fastest.hpp), on a GPU
  /// a few runs of each of the libraries' ways (gpu/kernels/fastest.hpp).
  PlanChoice plans = PlanChoice::kByRule;
  /// Gradient accumulation: an update is made of so many runs, with the mean of their gradients by rows, which is that
  /// of one batch of all their rows. Only the last run reduces over replicas and counts as a step. State (batch norm's)
  /// moves in every run.
  int accumulate = 1;
  std::uint64_t seed = 0;  ///< for the initial parameters
  /// Gradients that replicas reduce go in buckets of at least as many bytes, each as soon as the backward pass has
  /// written it (learner/engine/cpu/gradient_exchange.hpp); programs with fewer than two buckets, and 0: one call a
  /// group at the end. Changes no bit. The same on all replicas.
  std::int64_t bucket_bytes = kBucketBytes;
  /// False: run(kUpdate) assigns state but updates no parameters, whose owner is another program; no optimiser slots.
  bool update = true;
  /// finished() and snapshot() wait for the device, so that nothing depends on how fast it is: for runs that are to
  /// repeat to the last bit.
  bool waits = false;
  /// gradient() after run(kStep) also on engines that compile whole steps; they then take one step a launch.
  bool keep_gradients = false;
  /// Of Engine::together(). The programs of all replicas are then compiled of equal graphs, in any order, and every
  /// call that runs something is made of all of them, each on a thread of its own.
  Seat seat = {};
};

/// Steps of one launch on a GPU, at most: what the host does between two launches is then little beside them.
inline constexpr int kStepsPerLaunch = 16;
/// And so many bytes of batches, or of results, at most: steps of large ones take long enough one by one.
inline constexpr std::int64_t kLaunchBytes = std::int64_t{64} << 20;

/// The values of some groups at some step, and of the state that is published with them (published_layout()).
struct Snapshot {
  /// Valid until the next begin_snapshot(), and on a processor until the next run() or begin().
  std::span<const float> values;
  std::uint64_t fingerprint = 0;  ///< of that layout
  std::int64_t step = 0;          ///< Program::step() then
};

enum class Phase : std::uint8_t {
  kStep,       ///< everything: forward, gradients, updates, targets and averages, state
  kGradients,  ///< forward and gradients only; then gradient() is readable and may be changed
  kUpdate,     ///< the rest of the step that kGradients began
};

/// Parameters, state and gradients are the host's, below, whatever the device: of a GPU's program they are copies that
/// the functions which give them bring up to date first, when a run has changed them. That can fail with the GPU, which
/// fetch() and the next run() then say; whoever stores or sends parameters asks fetch().
///
/// Steps are taken one by one with bind() and run(), or as a launch of several that a GPU takes without the host:
///
///   stage(batch), ... begin()   the launch; on a GPU begin() returns while it runs
///   stage(batch), ...           the batches of the next launch go over meanwhile
///   finish()                    waits for the launch; then its metrics and outputs are there, for each of its steps
///
/// A launch computes what run() would for one batch after another, bit for bit, also when steps are skipped in it. From
/// begin() to finish() it is under way: run(), begin() and fetch() are then refused with kInvalidArgument, groups show
/// what was fetched before, and nobody may change parameters, state or steps. step() is still that of before; metrics
/// and outputs come with finish().
///
/// Neither copies nor moves. One thread at a time may call it; different programs are independent.
class Program {
 public:
  static Result<std::unique_ptr<Program>> compile(const Graph& graph, const CompileOptions& options);
  ~Program();
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;

  /// Points an input at data that stays valid and unchanged until the next run has returned; float64 programs copy.
  /// Errors: kNotFound, kShapeMismatch (names size got and expected).
  Status bind(std::string_view input, std::span<const float> data);
  Status bind(std::string_view input, std::span<const std::int32_t> data);
  Status bind(std::string_view input, std::span<const std::uint8_t> data);
  Status bind(std::string_view input, std::span<const double> data);  ///< float64 programs only
  /// Binds every graph input that is a column of the batch, by name. A batch may have fewer rows than the graph, down
  /// to 0: reductions over rows then count those that there are, and the others are filled up with copies (a copy of
  /// the batch is made). So the gradients are those of a graph for that many rows.
  Status bind(const BatchView& batch);
  /// Rows of the batch bound last: those of the graph unless it was a short one.
  std::int64_t rows() const;

  /// Errors: an input was never bound, or a joint function or gradient reduction failed; parameters are then unchanged.
  /// A step whose gradient is not finite (or too long for its square to be) is skipped: parameters, optimiser slots,
  /// state and step() stay as they are, which is no error but counted. Replicas see the same reduced gradients, so all
  /// skip together.
  Status run(Phase phase = Phase::kStep);

  /// How many steps one launch can take: 1 on a processor. On a GPU kStepsPerLaunch, or fewer by kLaunchBytes; 1 where
  /// the host has something to do in a step (joint functions, reductions, accumulation) or steps differ from each other
  /// (OptimizerSpec::every_steps).
  int steps_per_launch() const;
  /// Adds a batch to the next launch. On a GPU it is copied, behind whatever runs; on a processor it must stay valid
  /// and unchanged until finish(). Inputs that are no column of it are as bind() left them. All batches of a launch
  /// have equally many rows. Errors: those of bind(BatchView); kInvalidArgument when steps_per_launch() are staged
  /// already, an input was never bound, or a feed fills the inputs; nothing is staged then. The GPU's.
  Status stage(const BatchView& batch);
  int staged() const;
  /// Begins a step for each staged batch, and with an attached feed `steps` steps, 1 to steps_per_launch(), which with
  /// kept rows are as many as are staged; afterwards nothing is staged. A processor takes the step here. Errors:
  /// kInvalidArgument when nothing is staged, a launch is under way, or it is the other begin() that is meant; those of
  /// run(), after which none is under way.
  Status begin();
  Status begin(int steps);
  bool under_way() const;
  /// Whether finish() would return at once.
  bool finished();
  /// Ends the launch. Returns how many of its steps were updates, by which step() has grown; the others were skipped.
  /// Errors: kInvalidArgument when none is under way; the GPU's, whose parameters are then gone.
  Result<int> finish();
  /// Programs of one device of a PJRT plug-in: keeps `rows` rows of the inputs that are columns of `columns` in its
  /// memory, zero at first and in the place of any before, and launches are made of them from now on, so that batches
  /// do not come from the host. Errors: kNotFound (no such input), kShapeMismatch, kInvalidArgument (another device, a
  /// launch is under way, something is staged, no rows); the device's, mostly that it has no room.
  Status keep_rows(const Signature& columns, std::int64_t rows);
  std::int64_t kept_rows() const;  ///< 0: launches are made of batches of the host's
  /// Rows first .. first + rows.rows - 1 become these; the launch under way has those of before. Errors: kOutOfRange,
  /// kShapeMismatch, kNotFound (a column is missing), the device's, after which the rows are gone.
  Status store_rows(std::int64_t first, const BatchView& rows);
  /// stage() of the rows of these numbers, as many as the graph's; `rest` has other columns of the batch, or no
  /// signature. Errors: kOutOfRange, and those of stage().
  Status stage_rows(std::span<const std::int32_t> numbers, const BatchView& rest);
  /// Programs on a GPU: from now on `feed` fills the inputs of launches; null: batches are staged and bound as before.
  /// Errors: kInvalidArgument on a processor, while a launch is under way or something is staged.
  Status attach(std::shared_ptr<DeviceFeed> feed);
  bool has_feed() const;
  /// What a feed has to know. Errors: kNotFound; kInvalidArgument on a processor.
  Result<DeviceSpan> device_input(std::string_view name) const;
  Result<DeviceSpan> device_output(std::string_view name) const;
  std::shared_ptr<const gpu::Gpu> gpu() const;  ///< null on a processor

  /// Parameters for others while training goes on: orders a copy of the groups' values, and of the state that is
  /// published with them, as they are after what has been run and begun so far. On a GPU neither launches nor the host
  /// wait for it; on a processor it is the parameters themselves. One at a time: the next one may begin when snapshot()
  /// has given this one. Errors: kNotFound; kInvalidArgument when one has begun already, or of no group; the GPU's.
  Status begin_snapshot(std::span<const std::string> groups);
  Status begin_snapshot(std::string_view group);  ///< of one
  /// The snapshot that has begun, once it is there and the launch before it has been finished, which tells its step;
  /// until then nothing, without waiting. Errors: kInvalidArgument when none has begun; the GPU's.
  Result<std::optional<Snapshot>> snapshot();

  /// The scalars of Graph::metric in order of registration, from the last run, or the last step of a launch.
  std::span<const std::string> metric_names() const;
  std::span<const double> metrics() const;
  /// The value of Graph::output from there, the rows of its batch; empty for an unknown name. Valid until the next run
  /// or finish().
  std::span<const float> output(std::string_view name) const;
  /// The same of step `step` of the last launch, from 0; empty for one that it did not have. Valid until the next run
  /// or begin().
  std::span<const double> metrics(int step) const;
  std::span<const float> output(std::string_view name, int step) const;
  bool skipped(int step) const;
  std::span<const double> output_f64(std::string_view name) const;  ///< the same for float64 programs

  /// Groups in order of their making, targets included ("critic", "critic.target").
  std::size_t group_count() const;
  ParamBuffer& group(std::size_t index);
  const ParamBuffer& group(std::size_t index) const;
  /// Brings the host's copies of a GPU's program up to date. Errors: the GPU's, mostly kLost; what groups hold is then
  /// old.
  Status fetch();
  /// The same of one group; of an unknown one nothing.
  Status fetch(std::string_view group);
  /// Null for an unknown name. After writing values, call parameters_changed().
  ParamBuffer* params(std::string_view group);
  const ParamBuffer* params(std::string_view group) const;
  ParamBuffer& state();
  /// With CompileOptions::accumulate above 1: how many runs, and rows, the present update has; the sums of gradients
  /// are a slot of each group. So a checkpoint may fall between two runs. Else null.
  ParamBuffer* accumulation();
  /// What run(kUpdate) does to the state, for a step whose gradients are applied elsewhere.
  void assign_states();
  /// Refreshes what is derived from parameters (bfloat16 copies). Call after changing values() or load().
  void parameters_changed();
  /// The flat gradient of the group after a run, summed over stripes, padding zero; empty without minimize(). What is
  /// changed after run(kGradients) is what kUpdate takes. Engines that compile whole steps give one
  /// after run(kStep) with CompileOptions::keep_gradients only.
  /// run(kStep) computes none for a group that the step does not update (OptimizerSpec::every_steps): then this is an
  /// older one.
  std::span<float> gradient(std::string_view group);

  /// Updates done; saved and restored with a checkpoint, because Adam's bias correction and target copies depend on it.
  std::int64_t step() const;
  void set_step(std::int64_t step);
  /// Batches that these updates were made of, and those of the update that is being accumulated: where the input of a
  /// program with this state goes on (InputContext::first_step).
  std::int64_t batches() const;
  /// Steps that were skipped since compilation, and those since the last one that was not.
  std::int64_t skipped() const;
  std::int64_t skipped_in_a_row() const;
  /// The most that this was after any step of the last launch.
  std::int64_t skipped_in_a_row_max() const;

  /// "onednn", "eigen" or "cublaslt", and "avx512", "avx2" or "generic": reported at start.
  std::string_view gemm_backend_name() const;
  std::string_view instruction_set() const;
  Device device() const;
  /// Bytes of all arenas, or of all that is on the GPU.
  std::size_t arena_bytes() const;
  /// Devices in use: at most those compiled for, and those that the graph names.
  int devices() const;
  /// With timing on, each kernel call of stripe 0 is timed; report() lists them by op, slowest first, for each device
  /// and with the time that it waited for others. A GPU's program has no times: its profilers tell more.
  void set_timing(bool on);
  std::string report() const;

  struct Impl;  // learner/engine/program_impl.hpp

 private:
  explicit Program(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace troupe::learner
