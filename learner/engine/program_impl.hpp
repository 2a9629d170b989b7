#pragma once
// The inside of Program: what compile.cpp makes, execute.cpp runs, update.cpp updates and program.cpp shows.
#include <atomic>
#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <troupe/learner/engine/device_feed.hpp>
#include <troupe/learner/engine/gradient_exchange.hpp>
#include <troupe/learner/engine/kept_length.hpp>
#include <troupe/learner/engine/kernels/kernel_table.hpp>
#include <troupe/learner/engine/lars.hpp>
#include <troupe/learner/engine/plan.hpp>
#include <troupe/learner/engine/program.hpp>
#include <troupe/learner/engine/thread_team.hpp>
#include <troupe/learner/graph/aligned.hpp>
#include <troupe/learner/graph/graph_data.hpp>

namespace troupe::learner {

/// One kernel call with everything resolved to pointers.
struct Call {
  KernelFn function = nullptr;
  KernelArgs args{};
  std::int32_t joint = -1;  ///< of the joint that runs here instead
  std::string_view name;
  std::int64_t elapsed_ns = 0;
  int device = 0;
  std::vector<PlanWait> waits{};  ///< for calls of other devices, by their index in Stripe::calls
  bool awaited = false;           ///< another device waits for this one
  std::int32_t minimized = -1;    ///< only this one needs it, so runs where it is idle leave it out
};

/// How far a device has come with a stripe in the present run.
struct alignas(64) Progress {
  std::atomic<std::uint32_t> calls{0};  ///< what others wait for among this many first calls of the stripe is done
  std::int64_t waited_ns = 0;           ///< with timing on: for other devices

  void pass(std::uint32_t count) {
    calls.store(count, std::memory_order_release);
    calls.notify_all();
  }
};

struct Stripe {
  std::int64_t first_row = 0;
  std::int64_t rows = 0;
  ValidRows valid;
  AlignedArray<std::byte> arena = make_aligned<std::byte>(0);
  std::vector<AlignedArray<std::byte>> gradients;  ///< for each group, empty unless minimized
  std::vector<Shape> shapes;                       ///< local shape of each plan value
  std::vector<Operand> operands;                   ///< those of all calls
  std::vector<Attr> attrs;
  std::vector<std::unique_ptr<GemmPlan>> gemms;
  std::vector<std::unique_ptr<ConvPlan>> convs;
  std::vector<AlignedArray<std::byte>> workspaces;  ///< of each device, for products and convolutions
  std::vector<Call> calls;
};

class CudaProgram;

struct BoundInput {
  std::string name;
  ValueSpec spec;
  bool used = false;
  bool bound = false;
  std::vector<std::pair<std::size_t, std::size_t>> operands;  ///< stripe, index into its operands
  const std::byte* data = nullptr;                            ///< of all rows, as bound
  AlignedArray<std::byte> staging{nullptr, nullptr};          ///< data that had to be converted or filled up
};

struct OutputBuffer {
  std::string name;
  ValueSpec spec;
  AlignedArray<std::byte> data = make_aligned<std::byte>(0);
  std::vector<const void*> parts;  ///< for each stripe, of values not split by rows, which are gathered after a run
};

struct Metric {
  Place place;
  std::vector<const void*> parts;
};

/// A joint: from each stripe's input to each stripe's output.
struct JointCall {
  Joint joint;
  ValueSpec input;
  ValueSpec output;
  std::vector<void* const*> from;  ///< where the address stands, since inputs are bound later
  std::vector<void*> to;
  std::vector<std::int64_t> in_elements, out_elements;
  AlignedArray<std::byte> whole_in{nullptr, nullptr}, whole_out{nullptr, nullptr};  ///< null where a stripe has it all
};

struct Group {
  std::unique_ptr<ParamBuffer> params;
  AlignedArray<std::uint16_t> shadow = make_aligned<std::uint16_t>(0);  ///< bfloat16 programs
  AlignedArray<double> values_f64 = make_aligned<double>(0);            ///< float64 programs
  std::int32_t online = -1;
  std::int64_t every_steps = 0;
  double decay = 0;  ///< of an average
};

struct Stretch {
  std::int64_t begin = 0, end = 0;
};

/// One minimize(): what its update needs.
struct Minimized {
  std::size_t group = 0;
  OptimizerSpec spec;
  std::vector<const float*> gradients;  ///< of the stripes
  std::vector<Stretch> shared, own;     ///< of the flat gradient: what replicas reduce, and the rest
  std::vector<UpdateStretch> decay;     ///< of the flat buffers
  std::optional<LarsNorms> lars;        ///< for LARS, whose stretches these are instead
  KeptLengths kept;
  std::vector<Stretch> blocks;  ///< all of it in stretches of at most kNormBlock elements, the shared ones first
  std::size_t norm_blocks = 0;  ///< those of which the global norm is made
  std::vector<double> squares;  ///< of each block
  AlignedArray<float> gradient_f64 = make_aligned<float>(0);  ///< float64 programs: what gradient() shows
};

struct Assign {
  const void* from = nullptr;  ///< stripe 0's value
  std::int64_t offset = 0;     ///< in the state
  std::int64_t elements = 0;
};

/// Elements of a flat gradient whose squares are added up by one thread: fixed, so that a norm depends on nothing else.
inline constexpr std::int64_t kNormBlock = 4096;

/// The first `rows` rows of an input, from which those up to `batch` are filled up: as harmless to compute with as the
/// last of them. Without any, what was there before stays. With float64, float32 data becomes that.
void copy_rows(const ValueSpec& input, std::span<const std::byte> data, std::int64_t rows, std::int64_t batch,
               DType compute, std::byte* to);

struct Program::Impl {
  /// threads: of each device.
  Impl(int stripes, int threads, int devices);
  ~Impl();

  CompileOptions options;
  std::int64_t batch = 0;
  const KernelTable* table = nullptr;
  int devices;
  ThreadTeam pool;  ///< thread t of device d is number t * devices + d
  std::vector<Stripe> stripes;
  std::vector<Progress> progress;  ///< of device d with stripe s: s * devices + d
  std::vector<BoundInput> inputs;
  std::vector<OutputBuffer> outputs;
  std::vector<std::string> metric_names;
  std::vector<Metric> metrics;
  std::vector<double> metric_values;
  std::vector<JointCall> joints;
  std::vector<AlignedArray<std::byte>> constants;
  std::vector<Group> groups;
  Group state;
  std::unique_ptr<ParamBuffer> accumulation;  ///< runs, rows; null without
  std::vector<Minimized> minimized;
  std::vector<Assign> assigns;
  std::vector<std::size_t> stops;  ///< calls at which all stripes meet (joints, of more than one), and the end
  std::int64_t rows = 0;           ///< of the present batch that are data
  std::unique_ptr<GradientExchange> exchange;  ///< of large models with replicas; else null
  std::unique_ptr<CudaProgram> cuda;           ///< of a GPU's program, which has no calls; else null
  Status lost;                                 ///< of the GPU, whose parameters are gone
  std::int64_t step = 0;
  std::int64_t skipped = 0;
  std::int64_t skipped_in_a_row = 0;
  std::int64_t skipped_in_a_row_max = 0;  ///< in the last launch
  std::size_t arena_bytes = 0;
  bool timing = false;
  bool gradients_ready = false;

  Phase phase = Phase::kStep;        ///< of the present run
  Status failure;                    ///< of a joint or reduction in the present run; read behind a barrier
  std::atomic<bool> stopped{false};  ///< a joint has failed in the present run
  bool skip = false;                 ///< the present run's gradients are not finite; written by thread 0 at its end

  std::shared_ptr<DeviceFeed> feed;  ///< of the inputs; null: they are bound or staged
  int staged = 0;                    ///< batches for the next launch
  std::int64_t staged_rows = 0;      ///< of each
  BatchView staged_batch;            ///< on a processor
  int under_way = 0;                 ///< steps of the launch that has begun; 0: none
  std::vector<bool> skips;           ///< of the steps of the last launch, or of the last run
  std::vector<double> step_metrics;  ///< of these, metrics of each
  struct {
    bool begun = false;   ///< and not yet given
    bool awaits = false;  ///< the launch that is under way, to know its step
    std::vector<std::size_t> groups;
    std::int64_t step = 0;
    std::vector<float> values;  ///< on a processor, where there is more than the values of one group
  } snapshot;
  /// What is published with some groups; learned at their first snapshot.
  struct Published {
    std::uint64_t fingerprint = 0;
    std::vector<std::span<const float>> state;  ///< stretches of the state's values
  };
  std::map<std::vector<std::size_t>, Published> published;
  const Published& published_with(const std::vector<std::size_t>& of);

  void set_rows(std::int64_t valid);
  /// Errors: kInvalidArgument while a launch is under way, naming the call.
  Status check_idle(std::string_view call) const;
  /// Errors: kInvalidArgument when a used input was never bound, or a float64 program would update.
  Status check_ready(std::string_view call, Phase phase) const;
  /// Whether the batch fits; see Program::bind.
  Status check_batch(std::string_view call, const BatchView& batch) const;
  /// Before the work of a run or launch.
  void enter(Phase phase);
  /// After it, of those in `skips`: counts the steps. Returns how many were updates.
  int count_steps();
  /// Brings the host's copy of a group, or of the state after the last one, up to date; a failure stays in `lost`.
  void fetch(std::size_t group);
  /// A run's work, in `phase`; what fails is in `failure`.
  void run_on_threads();
  void run_on_gpu();
  void run_thread(int thread);
  void run_calls(int thread);
  void run_stretch(int thread, std::size_t begin, std::size_t end, std::size_t* bucket);
  void run_range(std::size_t stripe, std::size_t device, std::size_t begin, std::size_t end);
  void run_stop(std::size_t stop);
  void run_joint(JointCall& call, std::size_t index);
  void update(int thread);
  Status reduce_gradients();
  /// Calls the reductions of the present run for all that replicas share. gradient: the first element of one's flat
  /// gradient, in the memory of `gpu`, or the host's (-1). spoil: makes the first element that is reduced infinite or
  /// not a number, on a replica whose own gradients are not finite; else empty.
  Status reduce_parts(int gpu, const std::function<float*(const Minimized&)>& gradient,
                      std::function<Status(float*)> spoil);
  Status reduce_bucket(const GradientExchange::Bucket& bucket);
  void sum_gradients(Minimized& minimized, int thread);
  void sum_squares(Minimized& minimized, int thread);
  bool finite() const;
  void apply(Minimized& minimized, int thread);
  /// Adds the present run's gradient, times its rows, to those of the runs before; in the last run of an update the
  /// gradient becomes their mean.
  void accumulate(Minimized& minimized, int thread);
  void clear_accumulated(Minimized& minimized, int thread);
  /// Runs and rows before the present one in its update.
  float& accumulated_runs() { return accumulation->values()[0]; }
  float& accumulated_rows() { return accumulation->tensor(accumulation->layout().entries[1])[0]; }
  /// Rows that the gradient stands for, and whether the present run ends an update.
  std::int64_t gradient_rows();
  bool updates_now() {
    return accumulation == nullptr || static_cast<int>(accumulated_runs()) + 1 >= options.accumulate;
  }
  /// After a run: counts it, and says whether it ended an update.
  bool count_run();
  bool due(std::int64_t every_steps) const { return due(every_steps, step); }
  static bool due(std::int64_t every_steps, std::int64_t step) { return (step + 1) % every_steps == 0; }
  /// Whether the present run leaves the group's gradient out, because the step does not update it.
  bool idle(const Minimized& of) const { return phase == Phase::kStep && !due(of.spec.every_steps); }
  /// The same of a call that only such a gradient needs.
  bool idle(const Call& call) const {
    return call.minimized >= 0 && idle(minimized[static_cast<std::size_t>(call.minimized)]);
  }
  /// Of groups that are updated in this step, behind apply() on all threads.
  void keep_lengths(int thread);
  void follow_online(int thread);
  /// Whether `step` makes the target or average follow: an average only what is updated.
  bool follows(const Group& group, std::int64_t step) const;
  void assign_states();
  void collect();
  /// The part of a thread: whole cache lines of a flat buffer; stripes.
  std::pair<std::int64_t, std::int64_t> range(std::int64_t elements, int thread) const;
  std::pair<std::size_t, std::size_t> stripes_of(int thread) const;
  /// Of an output that is split by rows, those that are data.
  template <typename T>
  std::span<const T> valid(const ValueSpec& output, const std::byte* values) const {
    const std::int64_t elements = output.shape.elements();
    const std::int64_t count = output.place == Place::kRows ? elements / batch * rows : elements;
    return {reinterpret_cast<const T*>(values), static_cast<std::size_t>(count)};
  }
};

}  // namespace troupe::learner
