#pragma once
// The part of a Program that is on a GPU: the same plan as on the processor, with device addresses and the plug-in's
// kernels. It belongs to a Program::Impl, which stays the owner of what users see: the host's copies of parameters and
// gradients, bound inputs, metrics and outputs.
//
// A launch is one or several steps: rules go over, and for each step inputs come to their place, kernels run, gradients
// are judged and applied, and metrics and outputs are put aside, which come back at the end; all recorded once as a
// CUDA graph and then replayed. What differs from step to step lies in rows of memory, of which the GPU takes the next
// one itself after a step that it has not skipped. What a launch consists of depends on few numbers (Variant below),
// and each combination has graphs of its own; the first launch of each runs without one, which also loads its kernels.
// Functions of joints and reductions over replicas run between two graphs; then a launch is one step. The host calls
// them, on copies in its memory or, where the replicas' group has its values on this GPU, on what is there
// (cuda_meeting.cpp).
//
// Batches that are staged go over by a stream of their own into one of two blocks, while the launch before takes its
// own from the other. Between two launches the host has seen the first one finish, so no block is written that is still
// read, and the only order to be made is that a launch begins after its batches have come.
#include <array>
#include <compare>
#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include <troupe/gpu/gpu.hpp>
#include <troupe/gpu/handle.hpp>
#include <troupe/learner/engine/cuda/cuda_snapshot.hpp>
#include <troupe/learner/engine/program_impl.hpp>

namespace troupe::learner {

/// One thread at a time, as Program.
class CudaProgram {
 public:
  /// plan: of one stripe with all rows and one device. `host` has its groups, inputs, outputs and minimized groups
  /// already, and outlives this. Errors: kUnavailable for an operation without a kernel, or no memory; Gpu's.
  static Result<std::unique_ptr<CudaProgram>> make(std::shared_ptr<const gpu::Gpu> gpu, const GraphData& data,
                                                   const Plan& plan, Program::Impl& host);
  ~CudaProgram();
  CudaProgram(const CudaProgram&) = delete;
  CudaProgram& operator=(const CudaProgram&) = delete;

  /// The phase that host.phase says, with what is bound in host.inputs; fills host's metrics, outputs and skips.
  /// Returns when all is done. Errors: those of joints and reductions, after which nothing has changed; Gpu's, after
  /// which the state on the GPU is lost.
  Status run();

  int steps_per_launch() const { return steps_per_launch_; }
  /// Whether a step stops for the host: then errors of begin() may be those of joints and reductions.
  bool calls_host() const;
  /// Begins to send the batch for step `step` of the next launch; what is no column is taken from host.inputs. It has
  /// been checked, and is of the caller again.
  Status stage(int step, const BatchView& batch);
  enum class Inputs : std::uint8_t { kBound, kStaged, kFed };
  /// What of a launch may fail without harm: before begin().
  Status prepare(Inputs inputs, int steps);
  /// The phase of `steps` steps; more than one only of kStep. Does not wait, but where it calls the host.
  Status begin(Inputs inputs, int steps);
  Result<bool> finished();
  /// Fills host's metrics, outputs and skips with what the launch gave.
  Status finish();
  /// Output `index` of step `step` of the launch that has finished, in pinned memory.
  const std::byte* result(std::size_t index, int step) const {
    return host_results_.get() + static_cast<std::size_t>(step) * result_bytes_ + output_slices_[index].offset;
  }

  /// Null: none. Forgets what it had recorded.
  void attach(std::shared_ptr<DeviceFeed> feed);
  /// Of host.inputs, null unless used, and host.outputs.
  void* input(std::size_t index) const {
    return input_slices_[index].bytes > 0 ? inputs_.get() + input_slices_[index].offset : nullptr;
  }
  void* output(std::size_t index) const { return results() + output_slices_[index].offset; }

  /// What a run of phase kUpdate does to the state.
  Status assign_states();
  /// The host's parameters, slots and state to the GPU.
  Status send_parameters();
  /// And back those of one group, or of the state after the last one, if a run has changed them since.
  Status fetch_parameters(std::size_t group);
  /// host.minimized[index]'s gradient for the host, which may change it before the next run of phase kUpdate.
  Status fetch_gradient(std::size_t index);

  /// A copy of the groups' values as they are behind the launches begun so far; see CudaSnapshot.
  /// state: stretches of the host's state, whose counterparts here go behind the groups.
  Status begin_snapshot(std::span<const std::size_t> groups, std::span<const std::span<const float>> state) {
    std::vector<std::span<const float>> parts;
    for (const std::size_t group : groups) {
      const auto elements = static_cast<std::size_t>(host_.groups[group].params->layout().elements);
      parts.emplace_back(groups_[group].block.as<float>(), elements);
    }
    const float* const states = host_.state.params->values().data();
    for (const auto part : state) {
      parts.emplace_back(state_.block.as<float>() + (part.data() - states), part.size());
    }
    return snapshot_.begin(gpu_, parts, stream_);
  }
  Result<bool> snapshot_arrived() const { return snapshot_.arrived(); }
  std::span<const float> snapshot() const { return snapshot_.values(); }

  const gpu::Gpu& gpu() const { return *gpu_; }
  const std::shared_ptr<const gpu::Gpu>& shared_gpu() const { return gpu_; }
  std::size_t bytes() const { return bytes_ + snapshot_.bytes(); }  ///< of the GPU's memory that this program holds

 private:
  class Builder;
  class Memory;
  struct Node {
    std::string_view name;
    const TroupeCudaKernel* kernel = nullptr;  ///< null: a convolution or a joint
    TroupeCudaCall call{};
    int joint = -1;
    std::int32_t minimized = -1;  ///< as Call::minimized
  };
  /// A group's flat buffers on the GPU, in the order of ParamBuffer: values, slots.
  struct DeviceGroup {
    gpu::GpuMemory block, shadow, gradient;
    float* section(const ParamBuffer& params, std::size_t index) const {
      return block.as<float>() + static_cast<std::int64_t>(index) * params.layout().elements;
    }
  };
  /// Where in a block something lies.
  struct Slice {
    std::size_t offset = 0, bytes = 0;
  };
  /// What of a launch can differ from another one, beside numbers in memory: graphs for each.
  struct Variant {
    Phase phase;
    std::int64_t rows, due, updates, gradient_rows;
    int steps;
    Inputs inputs;
    std::size_t block;  ///< of staged ones
    friend auto operator<=>(const Variant&, const Variant&) = default;
  };
  struct Recorded {
    std::vector<TroupeCudaGraph*> graphs;  ///< of the stretches of a launch, in order
    std::int64_t runs = 0;
  };
  /// What is begun on the stream without the host in between; of a launch with several steps the whole of it.
  struct Stretch {
    std::size_t begin = 0, end = 0;  ///< nodes
    bool inputs = false, accumulate = false, update = false, results = false;
  };
  /// Batches of a launch, one after another.
  struct Staging {
    gpu::GpuMemory host, device;
  };

  CudaProgram(std::shared_ptr<const gpu::Gpu> gpu, Program::Impl& host) : gpu_(std::move(gpu)), host_(host) {}

  Status check(int error, std::string_view what) const { return gpu_->check(error, what); }
  Status synchronise() const { return check(gpu_->api().synchronise(stream_), "a step"); }
  std::byte* results() const { return end_.get() + results_at_; }
  TroupeCudaControl* control() const { return reinterpret_cast<TroupeCudaControl*>(results()); }
  std::size_t rules_at(std::size_t minimized) const {
    return minimized * static_cast<std::size_t>(steps_per_launch_) * sizeof(TroupeCudaRule);
  }
  std::size_t due_at(std::size_t group) const {
    return rules_at(host_.minimized.size()) +
           group * static_cast<std::size_t>(steps_per_launch_) * sizeof(std::int32_t);
  }
  /// A row for each step of a launch.
  const std::int32_t* due_of(std::size_t group) const {
    return reinterpret_cast<const std::int32_t*>(end_.get() + due_at(group));
  }
  /// The target or average that moves in the pass of the group's optimiser; beyond the last group: there is none.
  std::size_t first_follower(std::size_t online) const;
  Variant variant();
  Status make_staging();
  void fill_bound_inputs();
  void fill_rules();
  void read_results();
  Status run_stretches(Recorded& recorded);
  Status run_stretch(const Stretch& stretch, Recorded& recorded, std::size_t* index);
  Status enqueue(const Stretch& stretch);
  Status enqueue_step(const Stretch& stretch, int step);
  Status enqueue_inputs(int step);
  Status enqueue_node(const Node& node);
  Status enqueue_accumulation();
  Status enqueue_assigns();
  /// Of stretches of a flat gradient, block after block from *squares on, which then is behind them.
  Status sum_squares(const Minimized& m, const std::vector<learner::Stretch>& of, double** squares);
  /// Puts what LARS multiplies a variable's rate by into lars_rate_, where it stays until the next call.
  Status find_lars_rate(std::size_t minimized, const UpdateStretch& variable, const TroupeCudaRule* rules);
  Status keep_lengths(std::size_t group);
  Status enqueue_update();
  Status run_joint(const Node& node);
  Status run_joint_here(const Node& node);
  Status reduce();
  bool reduces_here() const;
  Status reduce_here();
  Result<bool> own_gradients_are_finite();
  Status send_changed_gradients();
  void forget(Recorded& recorded);

  std::shared_ptr<const gpu::Gpu> gpu_;
  Program::Impl& host_;
  const TroupeCudnnApi* cudnn_ = nullptr;
  gpu::GpuStream stream_, copy_stream_;
  gpu::GpuEvent copied_, done_;  ///< the batches of a launch; a launch
  int steps_per_launch_ = 1;
  std::shared_ptr<DeviceFeed> feed_;
  std::vector<Node> nodes_;
  std::vector<std::size_t> functions_;  ///< nodes that run on the host
  std::vector<TroupeCudaProduct*> products_;
  std::vector<TroupeCudaConv*> convs_;
  std::vector<DeviceGroup> groups_;
  DeviceGroup state_;
  std::vector<gpu::GpuMemory> constants_;
  gpu::GpuMemory arena_, workspace_, squares_;
  std::vector<double*> squares_of_;          ///< of each minimized group
  gpu::GpuMemory lars_squares_, lars_rate_;  ///< of one variable, whose kernels follow one another; empty without LARS
  gpu::GpuMemory inputs_, host_inputs_;      ///< those that are used, of one step; pinned what is bound
  std::array<Staging, 2> staging_;           ///< of as many; empty until something is staged
  std::size_t block_ = 0;                    ///< of staging_ that is being filled
  /// A TroupeCudaRule for each minimized group and step of a launch, a flag for each group and step whether it follows
  /// its online one; then from results_at_ on what a step puts out: TroupeCudaControl, outputs and metrics. So one copy
  /// sends all up to the control, and one puts all from there on aside.
  gpu::GpuMemory end_;
  std::size_t results_at_ = 0, result_bytes_ = 0;
  gpu::GpuMemory host_rules_;                            ///< pinned: up to the control
  gpu::GpuMemory rows_, host_results_;                   ///< results of each step of a launch, on the GPU and pinned
  std::vector<Slice> input_slices_;                      ///< of host_.inputs
  std::vector<Slice> output_slices_, metric_slices_;     ///< of host_.outputs and metrics, from results_at_ on
  std::vector<std::pair<Slice, const void*>> gathered_;  ///< results that lie elsewhere and are copied
  std::vector<float*> assigned_from_;                    ///< of host_.assigns
  std::vector<std::byte> joint_in_, joint_out_;
  Variant launch_{};  ///< under way, or the last one
  std::map<Variant, Recorded> recorded_;
  CudaSnapshot snapshot_;
  std::vector<bool> gradient_fetched_;  ///< since the last run: the host may have changed it
  std::vector<bool> fetched_;           ///< of each group and the state: the host's copy is what the GPU has
  std::size_t bytes_ = 0;
};

}  // namespace troupe::learner
