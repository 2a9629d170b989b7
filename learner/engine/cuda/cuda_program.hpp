#pragma once
// The part of a Program that is on a GPU: the same plan as on the processor, with device addresses and the plug-in's
// kernels. Its Host stays the owner of what users see: the host's copies of parameters and gradients, bound inputs,
// metrics and outputs.
//
// A launch is one or several steps: rules go over, and for each step inputs come to their place, kernels run, gradients
// are judged and applied, and metrics and outputs are put aside, which come back at the end; all recorded once as a
// CUDA graph and then replayed; of its nodes only those wait for one another that touch the same memory. What differs
// from step to step lies in rows of memory, of which the GPU takes the next one itself after a step that it has not
// skipped. What a launch consists of depends on few numbers (Variant below), and each combination has graphs of its
// own; the first launch of each runs without one, which also loads its kernels. Functions of joints and reductions over
// replicas run between two graphs; then a launch is one step. The host calls them, on copies in its memory or, where
// the replicas' group has its values on this GPU, on what is there (cuda_meeting.cpp).
//
// Batches that are staged go over by a stream of their own into one of two blocks, while the launch before takes its
// own from the other. Between two launches the host has seen the first one finish, so no block is written that is still
// read, and the only order to be made is that a launch begins after its batches have come.
#include <array>
#include <compare>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <vector>

#include <troupe/gpu/gpu.hpp>
#include <troupe/gpu/handle.hpp>
#include <troupe/learner/engine/cuda/cuda_snapshot.hpp>
#include <troupe/learner/engine/cuda/node_order.hpp>
#include <troupe/learner/engine/device_feed.hpp>
#include <troupe/learner/engine/engine.hpp>

namespace troupe::learner {

/// The engine of GPUs by CUDA.
const Engine& cuda_engine();

class CudaProgram final : public Executable, public FeedTarget {
 public:
  /// plan: of one stripe with all rows and one device. Errors: kUnavailable for an operation without a kernel, or no
  /// memory; Gpu's.
  static Result<std::unique_ptr<CudaProgram>> make(std::shared_ptr<const gpu::Gpu> gpu, const GraphData& data,
                                                   const Plan& plan, Host& host);
  ~CudaProgram() override;

  int steps_per_launch() const override { return steps_per_launch_; }
  bool calls_host() const override;
  Status stage(int step, const BatchView& batch) override;
  Status prepare(Inputs inputs, int steps) override;
  /// Does not wait, but where it calls the host.
  Status begin(Inputs inputs, int steps) override;
  Result<bool> finished() override;
  Status finish() override;
  /// In pinned memory.
  const std::byte* result(std::size_t index, int step) const override {
    return host_results_.get() + static_cast<std::size_t>(step) * result_bytes_ + output_slices_[index].offset;
  }

  Status send_parameters() override;
  Status fetch_parameters(std::size_t group) override;
  Status fetch_gradient(std::size_t index) override;
  Status assign_states() override;
  /// See CudaSnapshot.
  Status begin_snapshot(std::span<const std::size_t> groups, std::span<const std::span<const float>> state) override;
  Result<bool> snapshot_arrived() const override { return snapshot_.arrived(); }
  std::span<const float> snapshot() override { return snapshot_.values(); }

  FeedTarget* feed_target() override { return this; }
  void attach(std::shared_ptr<DeviceFeed> feed) override;
  void* input(std::size_t index) const override {
    return input_slices_[index].bytes > 0 ? inputs_.get() + input_slices_[index].offset : nullptr;
  }
  void* output(std::size_t index) const override { return results() + output_slices_[index].offset; }
  const std::shared_ptr<const gpu::Gpu>& shared_gpu() const override { return gpu_; }

  std::string_view products() const override { return "cublaslt"; }
  std::size_t bytes() const override { return bytes_ + snapshot_.bytes(); }

 private:
  class Builder;
  class Memory;
  struct ChainLink {
    const TroupeCudaKernel* kernel;
    TroupeCudaCall call;
  };
  struct Node {
    std::string_view name;
    const TroupeCudaKernel* kernel = nullptr;  ///< null: a convolution or a joint
    TroupeCudaCall call{};
    std::vector<ChainLink> chain{};  ///< of a node that can be a link: itself, and what one kernel does with it
    int joint = -1;
    std::int32_t minimized = -1;         ///< as Call::minimized
    std::size_t workspace_bytes = 0;     ///< that it needs
    std::vector<std::uint32_t> after{};  ///< nodes, see NodeOrder
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

  CudaProgram(std::shared_ptr<const gpu::Gpu> gpu, Host& host) : gpu_(std::move(gpu)), host_(host) {}

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
  /// A stretch's nodes as branches.
  Status record_nodes(const Stretch& stretch);
  /// What is recorded next follows these.
  Status record_after(const std::vector<TroupeCudaPoint*>& points);
  Result<TroupeCudaPoint*> recorded_last();
  /// Both, which touch nothing in common, as branches.
  Status side_by_side(const std::function<Status()>& one, const std::function<Status()>& other);
  Status enqueue_inputs(int step);
  Status enqueue_node(const Node& node);
  Status enqueue_accumulation();
  Status enqueue_assigns();
  /// Puts what LARS multiplies a variable's rate by into lars_rate_, where it stays until the next call.
  Status find_lars_rate(std::size_t minimized, const UpdateStretch& variable, const TroupeCudaRule* rules);
  /// Of a group.
  void add_kept(std::size_t group, std::vector<TroupeCudaKept>* parts) const;
  /// Of stretches of a flat gradient, block after block from *next on, which then is behind them.
  void add_squares(const Minimized& m, const std::vector<learner::Stretch>& of, double** next,
                   std::vector<TroupeCudaSquares>* parts) const;
  Status sum_squares(const std::vector<TroupeCudaSquares>& parts);
  Status update_parts(const std::vector<TroupeCudaUpdate>& parts);
  /// Those of a minimised group, unless it is not its turn, and what they move besides; but LARS's are made at once.
  Status add_updates(std::size_t minimized, const TroupeCudaRule* rules, std::vector<TroupeCudaUpdate>* parts,
                     std::vector<bool>* moved);
  /// beside: what touches nothing that an update does, and goes on while parameters move; or nothing.
  Status enqueue_update(const std::function<Status()>& beside);
  Status run_joint(const Node& node);
  Status run_joint_here(const Node& node);
  Status reduce();
  bool reduces_here() const;
  Status reduce_here();
  Status unless_lost(Status collective) const;
  Result<bool> own_gradients_are_finite();
  Status send_changed_gradients();
  void forget(Recorded& recorded);

  std::shared_ptr<const gpu::Gpu> gpu_;
  Host& host_;
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
  std::vector<gpu::GpuMemory> constants_, parts_;  ///< the latter of weights' gradients
  gpu::GpuMemory arena_, workspace_, squares_;
  std::vector<double*> squares_of_;          ///< of each minimized group
  gpu::GpuMemory lars_squares_, lars_rate_;  ///< of one variable, whose kernels follow one another; empty without LARS
  gpu::GpuMemory inputs_, host_inputs_;      ///< those that are used, of one step; pinned what is bound
  std::array<Staging, 2> staging_;           ///< of as many; empty until something is staged
  bool recording_ = false;
  std::size_t block_ = 0;  ///< of staging_ that is being filled
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
  bool exchanges_apart_ = false;  ///< results and the next inputs move while parameters and states do
  std::vector<std::byte> joint_in_, joint_out_;
  Variant launch_{};  ///< under way, or the last one
  std::map<Variant, Recorded> recorded_;
  CudaSnapshot snapshot_;
  std::vector<bool> gradient_fetched_;  ///< since the last run: the host may have changed it
  std::vector<bool> fetched_;           ///< of each group and the state: the host's copy is what the GPU has
  std::size_t bytes_ = 0;
};

}  // namespace troupe::learner
