#pragma once
// The seam between a program and what computes it. An engine makes an executable of a graph, by way of a plan or as its
// compiler wants it, and Program drives it without knowing which one it is. What users see of a program, parameters,
// inputs, metrics and outputs, is in its Host, which the executable reads and fills. The conformance suite
// tests/learner/engine/engine_conformance.hpp says what every engine must do.
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include <troupe/core/error.hpp>
#include <troupe/core/tensor.hpp>
#include <troupe/learner/engine/host.hpp>
#include <troupe/learner/engine/plan.hpp>
#include <troupe/learner/engine/together.hpp>

namespace troupe::gpu {
class Gpu;
}

namespace troupe::learner {

class DeviceFeed;  // learner/engine/device_feed.hpp

/// Where the inputs of a launch come from: what is bound in Host::inputs, what stage() was given, or a feed.
enum class Inputs : std::uint8_t { kBound, kStaged, kFed };

/// Data that is on a program's device already: an executable that can be fed has this side, too.
class FeedTarget {
 public:
  virtual ~FeedTarget() = default;
  /// Null: none. It forgets what it had recorded of the one before.
  virtual void attach(std::shared_ptr<DeviceFeed> feed) = 0;
  /// Addresses on the device of Host::inputs[index], null unless it is used, and of Host::outputs[index].
  virtual void* input(std::size_t index) const = 0;
  virtual void* output(std::size_t index) const = 0;
  virtual const std::shared_ptr<const gpu::Gpu>& shared_gpu() const = 0;
};

/// Rows of inputs that stay on a program's device: an executable that can keep some has this side, too. Inputs are
/// those of Host::inputs; a step that does not read one needs no rows of it.
class RowKeeper {
 public:
  virtual ~RowKeeper() = default;
  /// Rows 0 .. count - 1 of these inputs, zero, in the place of any before.
  virtual Status keep(std::span<const std::size_t> inputs, std::int64_t count) = 0;
  /// Rows first .. first + rows.rows - 1 become these, for launches that begin from now on.
  virtual Status store(std::int64_t first, const BatchView& rows) = 0;
  /// As Executable::stage(), with the rows of these numbers, one for each row of the batch, and columns of `rest`.
  virtual Status stage_kept(int step, std::span<const std::int32_t> numbers, const BatchView& rest) = 0;
};

/// A compiled plan on one device. One thread at a time calls it, and only as Program's contract allows: what that
/// refuses need not be checked again. It belongs to a program whose Host outlives it.
class Executable {
 public:
  Executable() = default;
  virtual ~Executable() = default;
  Executable(const Executable&) = delete;
  Executable& operator=(const Executable&) = delete;

  // ---- steps ----
  /// How many steps one launch can take.
  virtual int steps_per_launch() const { return 1; }
  /// Whether a step stops for the host, so that an error of begin() may be that of a joint function or a reduction,
  /// after which nothing has changed. After any other one the state is lost.
  virtual bool calls_host() const = 0;
  /// The batch for step `step` of the next launch; inputs that are no column of it are as Host::inputs has them. An
  /// executable whose memory is its own takes a copy; another one reads the batch until finish().
  virtual Status stage(int step, const BatchView& batch) = 0;
  /// What of a launch may fail without harm: before begin().
  virtual Status prepare(Inputs, int) { return {}; }
  /// Host::phase of `steps` steps; more than one only of Phase::kStep. Need not wait for their end.
  virtual Status begin(Inputs inputs, int steps) = 0;
  virtual Result<bool> finished() { return true; }
  /// Waits for the launch and fills Host::skips, step_metrics and outputs with what it gave.
  virtual Status finish() = 0;
  /// Output `index` of step `step` of the launch that has finished.
  virtual const std::byte* result(std::size_t index, int step) const = 0;

  // ---- parameters ----
  /// Whether parameters, state and gradients are used where the Host has them. Then there is nothing to send or fetch.
  virtual bool shares_memory() const { return false; }
  /// The Host's parameters, optimiser slots and state to the device.
  virtual Status send_parameters() = 0;
  /// Back those of one group, or of the state behind the last one, unless the Host's copy is the same.
  virtual Status fetch_parameters(std::size_t) { return {}; }
  /// The gradient of Host::minimized[index]; the Host may change it before the next run of Phase::kUpdate.
  virtual Status fetch_gradient(std::size_t) { return {}; }
  /// What a run of Phase::kUpdate does to the state.
  virtual Status assign_states() = 0;
  /// Orders a copy of the groups' values behind all launches begun so far, and behind them that of the counterparts of
  /// these stretches of the Host's state. One at a time.
  virtual Status begin_snapshot(std::span<const std::size_t> groups, std::span<const std::span<const float>> state) = 0;
  virtual Result<bool> snapshot_arrived() const { return true; }
  virtual std::span<const float> snapshot() = 0;

  // ---- about it ----
  /// Null: it cannot be fed.
  virtual FeedTarget* feed_target() { return nullptr; }
  /// Null: it keeps no rows.
  virtual RowKeeper* row_keeper() { return nullptr; }
  /// What computes its matrix products.
  virtual std::string_view products() const = 0;
  /// Of the device's memory that it holds.
  virtual std::size_t bytes() const = 0;
  virtual void set_timing(bool) {}
  virtual std::string report() const { return {}; }
};

/// One value for each engine; engine_of() has the list.
class Engine {
 public:
  virtual ~Engine() = default;
  /// Whether it could compile such a step here: what can be found without the device. Errors: kNotFound where it needs
  /// software that is not here; those of compile() that come from the step.
  virtual Status check(const Graph&, const Device&) const { return {}; }
  /// Fills in what the options of a program of `data` leave open. Errors: kInvalidArgument for what this engine cannot
  /// do.
  virtual Status complete(const GraphData& data, std::int64_t batch, CompileOptions* options) const = 0;
  /// Errors: kUnavailable for an operation that it lacks, naming it, or where there is no such device or no memory.
  virtual Result<std::unique_ptr<Executable>> compile(const GraphData& data, Host& host) const = 0;
  /// For replicas with one of these devices each, which are this engine's and resolved, to be one program. Null: it
  /// has no such programs, and they meet by joint functions and reductions. Errors: why they cannot here, likewise.
  virtual Result<std::shared_ptr<Together>> together(std::span<const Device>) const {
    return std::shared_ptr<Together>();
  }
};

/// Engine::complete() of those that take the whole batch on one device.
Status complete_for_one_device(CompileOptions* options);
/// What the options of a program say of its plan, for engines that make one.
PlanOptions plan_options(const Host& host);

/// Of a resolved device.
const Engine& engine_of(const Device& device);

}  // namespace troupe::learner
