#pragma once
// A program on a device of a PJRT plug-in: XLA compiles the whole step from StableHLO (hlo_module.hpp), so there is one
// execution a step. Parameters, optimiser slots and state are the device's buffers, donated to each step and taken back
// from it; the host's copies follow when somebody asks. Where the host has a part in the step's end (gradients of
// several runs, a reduction over replicas, a gradient that is looked at), it is two executions with the gradient on the
// host in between. Functions of the host's in the middle of a step cut the first of them into parts, in which what the
// later ones need stays on the device. Replicas with a seat (PjrtReplicas) reduce within the execution instead.
#include <compare>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include <troupe/learner/engine/engine.hpp>
#include <troupe/learner/engine/pjrt/hlo_module.hpp>
#include <troupe/learner/engine/pjrt/pjrt_replicas.hpp>
#include <troupe/learner/engine/pjrt/pjrt_rows.hpp>
#include <troupe/pjrt/client.hpp>
#include <troupe/pjrt/executable.hpp>

namespace troupe::learner {

class PjrtProgram final : public Executable, public RowKeeper {
 public:
  /// Compiles what the first step needs, which takes seconds for large programs. Errors: make_hlo_module()'s and the
  /// plug-in's.
  static Result<std::unique_ptr<PjrtProgram>> make(std::shared_ptr<const pjrt::Client> client, const GraphData& data,
                                                   Host& host);
  ~PjrtProgram() override;

  int steps_per_launch() const override { return steps_per_launch_; }
  bool calls_host() const override { return host_ends_ || calls_functions_; }
  Status stage(int step, const BatchView& batch) override;
  /// A launch of as many steps as there can be is one execution, which is not waited for; one of fewer takes them one
  /// by one, since each number would be a program that takes seconds to compile.
  Status begin(Inputs inputs, int steps) override;
  Result<bool> finished() override;
  Status finish() override;
  const std::byte* result(std::size_t index, int step) const override;

  Status send_parameters() override;
  Status fetch_parameters(std::size_t group) override;
  Status fetch_gradient(std::size_t) override;
  Status assign_states() override;
  Status begin_snapshot(std::span<const std::size_t> groups, std::span<const std::span<const float>> state) override;
  Result<bool> snapshot_arrived() const override;
  std::span<const float> snapshot() override { return snapshot_; }

  RowKeeper* row_keeper() override { return replicas_ == nullptr ? this : nullptr; }
  Status keep(std::span<const std::size_t> inputs, std::int64_t count) override;
  Status store(std::int64_t first, const BatchView& rows) override;
  Status stage_kept(int step, std::span<const std::int32_t> numbers, const BatchView& rest) override;

  std::string_view products() const override { return "xla"; }
  std::size_t bytes() const override { return bytes_ + (kept_ ? kept_->bytes() : 0); }

 private:
  /// What a module depends on besides the graph.
  struct Variant {
    HloPhase phase = HloPhase::kAct;
    std::vector<bool> due;  ///< of each minimized group
    int steps = 1;
    friend auto operator<=>(const Variant&, const Variant&) = default;
  };
  struct Part {
    HloModule module;
    std::shared_ptr<const pjrt::LoadedExecutable> executable;
  };
  using Tensors = std::vector<pjrt::Buffer>;  ///< by the entries of a layout
  struct Group {
    Tensors values;
    std::vector<Tensors> slots;  ///< of the rule
  };
  struct Input {
    pjrt::Buffer buffer;
    const std::byte* view = nullptr;  ///< the host's memory that the buffer is, if it is no copy
  };
  /// A result on its way to the host: a copy that has begun, or where that is the device the buffer itself.
  struct Arriving {
    HloRole role = HloRole::kMetrics;
    std::size_t index = 0;
    bool updates = false;  ///< of HloPhase::kApply, which has no metrics
    std::size_t size = 0;  ///< bytes
    pjrt::Buffer buffer{};
    std::vector<std::byte> copy{};
    pjrt::Event done{};
    Result<std::span<const std::byte>> bytes() const;  ///< waits
  };

  PjrtProgram(std::shared_ptr<const pjrt::Client> client, const GraphData& data, Host& host);

  Result<const std::vector<Part>*> compiled(const Variant& variant);
  Result<std::shared_ptr<const pjrt::LoadedExecutable>> compile(const Variant& variant, std::string_view text);
  /// Those of `steps` steps from step `first` of the launch on.
  Status send_inputs(Inputs from, int first, int steps);
  /// One step, or with `steps` above 1 an update of so many, with the inputs that were sent.
  Status run(int steps);
  std::vector<bool> due(HloPhase phase) const;
  Result<pjrt::Buffer> send(const void* data, DType dtype, const Shape& shape);
  Result<Tensors> send_all(const ParamLayout& layout, std::span<const float> flat);
  /// Begins to copy those from entry `first` on to where the layout has them in `flat`, which begins where that entry
  /// does and may end before the last one.
  static Status begin_fetch(const Tensors& tensors, const ParamLayout& layout, std::size_t first, std::span<float> flat,
                            std::vector<pjrt::Event>& events);
  static Status fetch(const Tensors& tensors, const ParamLayout& layout, std::span<float> flat);
  /// The buffer of an argument: one that stays, or one for this step alone, which passing_ keeps.
  Result<const pjrt::Buffer*> argument(const HloSlot& slot, int steps);
  pjrt::Buffer* kept(const HloSlot& slot, HloPhase phase);
  float* gradient(const HloSlot& slot) const;
  Status execute(HloPhase phase, int steps = 1);
  Status execute(const Part& part, HloPhase phase, int steps);
  Status call(const HloCall& call);
  /// The outputs of a run with arguments_, which goes on.
  Result<std::vector<pjrt::Buffer>> begin_run(const Part& part);
  /// Of an execution: keeps what is new of the state, and begins to copy the results that the host sees.
  Status take(HloPhase phase, std::span<const HloSlot> slots, std::span<pjrt::Buffer> outputs);
  void forget_arriving();
  /// Waits for what arrives and puts it behind the results of the launch's steps before.
  Status collect();
  /// The gradient of the present run is on the host; what the host does to it, and then the update.
  Status end_on_host();

  std::shared_ptr<const pjrt::Client> client_;
  const GraphData data_;
  Host& host_;
  const std::size_t device_;
  PjrtReplicas* const replicas_;  ///< null without a seat
  const bool calls_functions_;    ///< of the host's, in the middle of a step
  const bool host_ends_;          ///< the host has a part in the end of each step
  const int steps_per_launch_;
  std::map<Variant, std::vector<Part>> compiled_;
  std::vector<Group> groups_;
  std::int64_t sent_rows_ = -1;
  pjrt::Buffer rows_;                           ///< sent_rows_ on the device
  Tensors state_, next_state_;                  ///< the latter until the update of Phase::kUpdate: what was assigned
  std::vector<std::vector<std::byte>> staged_;  ///< of Host::inputs: batches of the next launch, one behind the other
  std::vector<Input> inputs_;                   ///< of Host::inputs
  std::optional<PjrtRows> kept_;                ///< of those in kept_inputs_
  std::vector<std::size_t> kept_inputs_;
  std::vector<std::int32_t> numbers_;           ///< of kept rows: of the next launch's batches
  std::vector<pjrt::Buffer> passing_;           ///< arguments of the present run that nobody else keeps
  std::vector<const pjrt::Buffer*> arguments_;  ///< of the present run
  std::map<std::size_t, pjrt::Buffer> handed_;  ///< values of the present run, from part to part
  std::vector<float> taken_, given_;            ///< by a function
  std::vector<Arriving> arriving_;
  std::vector<pjrt::Event> gradients_;           ///< of copies to the host
  Status lost_;                                  ///< of an execution that had donated what there is
  int steps_ = 0;                                ///< of what arrives
  std::vector<std::vector<std::byte>> results_;  ///< of Host::outputs: rows of the launch's steps
  std::vector<double> metrics_;                  ///< of these
  std::vector<bool> skips_;
  std::vector<bool> fetched_;  ///< of each group and the state: the host's copy is what the device has
  std::vector<float> snapshot_;
  std::vector<pjrt::Event> snapshot_events_;
  std::size_t bytes_ = 0;
};

}  // namespace troupe::learner
