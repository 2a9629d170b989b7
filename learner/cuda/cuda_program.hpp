#pragma once
// The part of a Program that is on a GPU: the same plan as on the processor, with device addresses and the plug-in's
// kernels. It belongs to a Program::Impl, which stays the owner of what users see: the host's copies of parameters and
// gradients, bound inputs, metrics and outputs.
//
// A step is one launch: rules and inputs go over, kernels run, gradients are judged and applied, metrics and outputs
// come back, all recorded once as a CUDA graph and then replayed. What a step consists of depends on few numbers
// (Variant below), and each combination has graphs of its own; the first step of each runs without one, which also
// loads its kernels. Functions of joints and reductions over replicas run between two graphs: called by the host, on
// copies in its memory or, where the replicas' group has its values on this GPU, on what is there (cuda_meeting.cpp).
#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include <troupe/gpu/gpu.hpp>
#include <troupe/learner/program_impl.hpp>

namespace troupe::learner {

/// One thread at a time, as Program.
class CudaProgram {
 public:
  /// plan: of one shard with all rows and one device. `host` has its groups, inputs, outputs and minimized groups
  /// already, and outlives this. Errors: kUnavailable for an operation without a kernel, or no memory; Gpu's.
  static Result<std::unique_ptr<CudaProgram>> make(std::shared_ptr<const gpu::Gpu> gpu, const GraphData& data,
                                                   const Plan& plan, Program::Impl& host);
  ~CudaProgram();
  CudaProgram(const CudaProgram&) = delete;
  CudaProgram& operator=(const CudaProgram&) = delete;

  /// The phase that host.phase says, with what is bound in host.inputs; fills host's metrics and outputs, and
  /// host.skip. Returns when all is done. Errors: those of joints and reductions, after which nothing has changed;
  /// Gpu's, after which the state on the GPU is lost.
  Status run();
  /// What a run of phase kUpdate does to the state.
  Status assign_states();
  /// The host's parameters, slots and state to the GPU.
  Status send_parameters();
  /// And back those of one group, or of the state after the last one, if a run has changed them since.
  Status fetch_parameters(std::size_t group);
  /// host.minimized[index]'s gradient for the host, which may change it before the next run of phase kUpdate.
  Status fetch_gradient(std::size_t index);

  const gpu::Gpu& gpu() const { return *gpu_; }
  std::size_t bytes() const { return bytes_; }  ///< of the GPU's memory that this program holds

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
  /// What of a step can differ from another one, beside numbers in memory: a graph for each.
  using Variant = std::array<std::int64_t, 5>;
  struct Recorded {
    std::vector<TroupeCudaGraph*> graphs;  ///< of the stretches of a step, in order
    std::int64_t runs = 0;
  };
  /// What is begun on the stream without the host in between.
  struct Stretch {
    std::size_t begin = 0, end = 0;  ///< nodes
    bool inputs = false, accumulate = false, update = false, results = false;
  };

  CudaProgram(std::shared_ptr<const gpu::Gpu> gpu, Program::Impl& host) : gpu_(std::move(gpu)), host_(host) {}

  Status check(int error, std::string_view what) const { return gpu_->check(error, what); }
  Status synchronise() const { return check(gpu_->api().synchronise(stream_), "a step"); }
  Variant variant();
  void fill_inputs();
  void fill_rules();
  void read_results();
  Status run_stretch(const Stretch& stretch, Recorded& recorded, std::size_t* index);
  Status enqueue(const Stretch& stretch);
  Status enqueue_node(const Node& node);
  Status enqueue_accumulation();
  Status enqueue_assigns();
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
  TroupeCudaStream* stream_ = nullptr;
  std::vector<Node> nodes_;
  std::vector<std::size_t> functions_;  ///< nodes that run on the host
  std::vector<TroupeCudaProduct*> products_;
  std::vector<TroupeCudaConv*> convs_;
  std::vector<DeviceGroup> groups_;
  DeviceGroup state_;
  std::vector<gpu::GpuMemory> constants_;
  gpu::GpuMemory arena_, workspace_, squares_;
  std::vector<double*> squares_of_;  ///< of each minimized group
  // Twice each: pinned on the host and on the GPU, copied as one.
  gpu::GpuMemory inputs_, host_inputs_;    ///< the inputs that are used
  gpu::GpuMemory rules_, host_rules_;      ///< TroupeCudaControl, then a TroupeCudaRule for each minimized group
  gpu::GpuMemory results_, host_results_;  ///< TroupeCudaControl, outputs and metrics
  std::vector<Slice> input_slices_;        ///< of host_.inputs
  std::vector<Slice> output_slices_, metric_slices_;     ///< of host_.outputs and metrics, in results_
  std::vector<std::pair<Slice, const void*>> gathered_;  ///< results that lie elsewhere and are copied
  std::vector<float*> assigned_from_;                    ///< of host_.assigns
  std::vector<std::byte> joint_in_, joint_out_;
  std::map<Variant, Recorded> recorded_;
  std::vector<bool> gradient_fetched_;  ///< since the last run: the host may have changed it
  std::vector<bool> fetched_;           ///< of each group and the state: the host's copy is what the GPU has
  std::size_t bytes_ = 0;
};

}  // namespace troupe::learner
