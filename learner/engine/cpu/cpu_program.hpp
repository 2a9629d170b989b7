#pragma once
// A program on the processor: one arena a stripe, and flat lists of kernel calls that a team of threads walks. Made by
// cpu_build.cpp, run by cpu_program.cpp, which leaves the end of a step to cpu_update.cpp.
#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <troupe/core/aligned.hpp>
#include <troupe/learner/engine/cpu/gradient_exchange.hpp>
#include <troupe/learner/engine/cpu/kernels/kernel_table.hpp>
#include <troupe/learner/engine/engine.hpp>
#include <troupe/learner/engine/thread_team.hpp>

namespace troupe::learner {

/// The engine of the processor.
const Engine& cpu_engine();

class CpuProgram final : public Executable {
 public:
  static Result<std::unique_ptr<CpuProgram>> make(const GraphData& data, const Plan& plan, Host& host);

  bool calls_host() const override { return true; }
  Status stage(int, const BatchView& batch) override;
  Status begin(Inputs inputs, int steps) override;
  Status finish() override { return {}; }
  const std::byte* result(std::size_t index, int) const override { return host_.outputs[index].data.get(); }

  bool shares_memory() const override { return true; }
  /// Refreshes what is derived from parameters: copies in bfloat16 or float64.
  Status send_parameters() override;
  Status assign_states() override;
  Status begin_snapshot(std::span<const std::size_t> groups, std::span<const std::span<const float>> state) override;
  std::span<const float> snapshot() override;

  std::string_view products() const override;
  std::size_t bytes() const override { return arena_bytes_; }
  void set_timing(bool on) override;
  std::string report() const override;

 private:
  class Builder;

  /// One kernel call of one stripe, with everything resolved to pointers.
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
    std::vector<Shape> shapes;      ///< local shape of each plan value
    std::vector<Operand> operands;  ///< those of all calls
    std::vector<Attr> attrs;
    std::vector<std::unique_ptr<GemmPlan>> gemms;
    std::vector<std::unique_ptr<ConvPlan>> convs;
    std::vector<AlignedArray<std::byte>> workspaces;  ///< of each device, for products and convolutions
    std::vector<Call> calls;
  };

  /// Where operands point at an input.
  struct InputOperands {
    std::vector<std::pair<std::size_t, std::size_t>> at;  ///< stripe, index into its operands
    const std::byte* data = nullptr;                      ///< what they point at now
  };

  /// A joint: from each stripe's input to each stripe's output.
  struct JointCall {
    ValueSpec input;
    ValueSpec output;
    std::vector<void* const*> from;  ///< where the address stands, since inputs are bound later
    std::vector<void*> to;
    std::vector<std::int64_t> in_elements, out_elements;
    AlignedArray<std::byte> whole_in{nullptr, nullptr}, whole_out{nullptr, nullptr};  ///< null: a stripe has it all
  };

  /// Of a parameter group or the state, beside what the Host has.
  struct Copies {
    AlignedArray<std::uint16_t> shadow = make_aligned<std::uint16_t>(0);  ///< bfloat16 programs
    AlignedArray<double> values_f64 = make_aligned<double>(0);            ///< float64 programs
  };

  /// Of a minimized group, beside what the Host has.
  struct Gradients {
    std::vector<AlignedArray<std::byte>> own;  ///< of the stripes behind the first
    std::vector<const float*> stripes;         ///< of all; that of the first, the Host's, becomes the sum
    std::vector<double> squares;               ///< of each of Minimized::blocks
  };

  /// A value at the end of a run that all stripes have a part of.
  struct Parts {
    Place place = Place::kReplicated;
    std::vector<const void*> of_stripes;
  };

  CpuProgram(Host& host, int threads);

  // cpu_program.cpp
  void point_at_inputs();
  void set_rows();
  void run_thread(int thread);
  void run_calls(int thread);
  void run_stretch(int thread, std::size_t begin, std::size_t end, std::size_t* bucket);
  void run_range(std::size_t stripe, std::size_t device, std::size_t begin, std::size_t end);
  void run_stop(std::size_t stop);
  void run_joint(std::int32_t joint, std::size_t index);
  Status call_function(const Joint& joint, JointCall& call);
  template <typename T>
  static void gather(bool largest, const JointCall& call, T* to);
  static void scatter(const JointCall& call, const std::byte* from, std::size_t element);
  void collect();
  std::pair<std::size_t, std::size_t> stripes_of(int thread) const;

  // cpu_update.cpp
  void update(int thread);
  void sum_gradients(std::size_t minimized, int thread);
  void sum_squares(std::size_t minimized, int thread);
  bool finite() const;
  Status reduce_bucket(const GradientExchange::Bucket& bucket);
  void clear_accumulated(Minimized& minimized, int thread);
  void apply(std::size_t minimized, int thread);
  /// Of groups that are updated in this step, behind apply() on all threads.
  void keep_lengths(int thread);
  void follow_online(int thread);
  void assign();
  /// The part of a thread: whole cache lines of a flat buffer.
  std::pair<std::int64_t, std::int64_t> range(std::int64_t elements, int thread) const;
  std::uint16_t* shadow(std::size_t group) const;

  Host& host_;
  const KernelTable& table_;
  ThreadTeam pool_;  ///< thread t of device d is number t * devices + d
  std::vector<Stripe> stripes_;
  std::vector<Progress> progress_;     ///< of device d with stripe s: s * devices + d
  std::vector<InputOperands> inputs_;  ///< of Host::inputs
  std::vector<Parts> outputs_;         ///< of Host::outputs; of those that are split by rows none
  std::vector<Parts> metrics_;
  std::vector<JointCall> joints_;
  std::vector<AlignedArray<std::byte>> constants_;
  std::vector<Copies> copies_;         ///< of each group, and of the state behind the last one
  std::vector<Gradients> gradients_;   ///< of Host::minimized
  std::vector<const void*> assigned_;  ///< stripe 0's value for each of Host::assigns
  std::vector<std::size_t> stops_;     ///< calls at which all stripes meet (joints, of more than one), and the end
  std::unique_ptr<GradientExchange> exchange_;  ///< of large models with replicas; else null
  std::size_t arena_bytes_ = 0;
  bool timing_ = false;

  BatchView staged_;
  Status failure_;                    ///< of a joint or reduction in the present run; read behind a barrier
  std::atomic<bool> stopped_{false};  ///< a joint has failed in the present run
  bool skip_ = false;                 ///< the present run's gradients are not finite; written by thread 0 at its end
  std::vector<std::span<const float>> snapshot_parts_;
  std::vector<float> snapshot_;  ///< where there is more than the values of one group
};

}  // namespace troupe::learner
