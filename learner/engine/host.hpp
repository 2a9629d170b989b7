#pragma once
// The host's half of a program, whatever the engine: what Program shows and checks, and what an executable reads and
// fills (learner/engine/engine.hpp). Parameters, state and gradients here are those that users see; an executable on
// another device keeps copies of its own.
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <troupe/core/aligned.hpp>
#include <troupe/learner/engine/kept_length.hpp>
#include <troupe/learner/engine/lars.hpp>
#include <troupe/learner/engine/program.hpp>
#include <troupe/learner/graph/graph_data.hpp>

namespace troupe::learner {

struct BoundInput {
  std::string name;
  ValueSpec spec;
  bool used = false;  ///< set by the executable
  bool bound = false;
  bool kept = false;                                  ///< launches take rows of it that are on the device
  const std::byte* data = nullptr;                    ///< of all rows, as bound
  AlignedArray<std::byte> staging{nullptr, nullptr};  ///< data that had to be converted or filled up
};

struct OutputBuffer {
  std::string name;
  ValueSpec spec;
  AlignedArray<std::byte> data = make_aligned<std::byte>(0);
};

struct Group {
  std::unique_ptr<ParamBuffer> params;
  std::int32_t online = -1;
  std::int64_t every_steps = 0;
  double decay = 0;  ///< of an average
};

struct Stretch {
  std::int64_t begin = 0, end = 0;
};

/// Of a flat gradient: what replicas reduce; the rest.
struct Shares {
  std::vector<Stretch> shared, own;
  /// Whose length is clipped, so that replicas clip alike: the shared ones, if there are any.
  const std::vector<Stretch>& measured() const { return shared.empty() ? own : shared; }
};
Shares shares_of(const ParamLayout& layout);

/// One minimize(): what its update needs.
struct Minimized {
  std::size_t group = 0;
  OptimizerSpec spec;
  AlignedArray<std::byte> gradient = make_aligned<std::byte>(0);  ///< flat, of the compute type; bfloat16 has float32
  AlignedArray<float> gradient_f64 = make_aligned<float>(0);      ///< float64 programs: what gradient() shows
  Shares shares;
  std::vector<UpdateStretch> decay;  ///< of the flat buffers
  std::optional<LarsNorms> lars;     ///< for LARS, whose stretches these are instead
  KeptLengths kept;
  std::vector<Stretch> blocks;  ///< all of it in stretches of at most kNormBlock elements, the shared ones first
  std::size_t norm_blocks = 0;  ///< those of which the global norm is made

  float* values() const { return reinterpret_cast<float*>(gradient.get()); }
};

/// Optimiser slots of the rule itself; one more is for accumulation.
inline std::size_t rule_slots(const ParamBuffer& params, bool accumulates) {
  return params.slots().size() - (accumulates ? 1 : 0);
}

/// What is assigned to the state at the end of a step; its place there.
struct Assign {
  std::int64_t offset = 0;
  std::int64_t elements = 0;
};

/// Elements of a flat gradient whose squares are added up by one thread: fixed, so that a norm depends on nothing else.
inline constexpr std::int64_t kNormBlock = 4096;

/// The first `rows` rows of an input, from which those up to `batch` are filled up: as harmless to compute with as the
/// last of them. Without any, what was there before stays. With float64, float32 data becomes that.
void copy_rows(const ValueSpec& input, std::span<const std::byte> data, std::int64_t rows, std::int64_t batch,
               DType compute, std::byte* to);

/// Memory for what this replica's joints or gradients are made of; those that others reduce with theirs can be reached
/// by the group's other processes.
AlignedArray<std::byte> make_memory(std::int64_t bytes, bool others_reduce);

struct Host {
  /// Everything that does not depend on the engine, with initial values.
  Host(const GraphData& data, std::int64_t batch, const CompileOptions& options);

  CompileOptions options;
  std::int64_t batch = 0;
  int devices = 1;  ///< logical ones in use
  std::vector<BoundInput> inputs;
  std::vector<OutputBuffer> outputs;
  std::vector<std::string> metric_names;
  std::vector<Joint> joints;
  std::vector<Group> groups;
  Group state;
  std::unique_ptr<ParamBuffer> accumulation;  ///< runs, rows; null without
  std::vector<Minimized> minimized;
  std::vector<Assign> assigns;

  Phase phase = Phase::kStep;  ///< of the present run
  std::int64_t rows = 0;       ///< of the present batch that are data
  std::int64_t step = 0;
  int under_way = 0;                 ///< steps of the launch that has begun; 0: none
  std::vector<bool> skips;           ///< of the steps of the last launch, or of the last run
  std::vector<double> step_metrics;  ///< of these, metrics of each

  /// Points inputs at the columns of a batch, which check_batch() has taken; those of a short one at filled-up copies.
  void bind(const BatchView& batch);
  /// Whether the batch fits; see Program::bind.
  Status check_batch(std::string_view call, const BatchView& batch) const;

  bool accumulates() const { return accumulation != nullptr; }
  /// Runs and rows before the present one in its update.
  float& accumulated_runs() { return accumulation->values()[0]; }
  float& accumulated_rows() { return accumulation->tensor(accumulation->layout().entries[1])[0]; }
  /// Rows that the gradient stands for, and whether the present run ends an update.
  std::int64_t gradient_rows();
  bool updates_now() { return !accumulates() || static_cast<int>(accumulated_runs()) + 1 >= options.accumulate; }
  /// Adds elements [begin, end) of the present run's gradient, times its rows, to those of the runs before; in the last
  /// run of an update the gradient becomes their mean.
  void accumulate(Minimized& minimized, std::int64_t begin, std::int64_t end);
  void clear_accumulated(Minimized& minimized, std::int64_t begin, std::int64_t end);
  /// After a run: counts it, and says whether it ended an update.
  bool count_run();

  static bool due(std::int64_t every_steps, std::int64_t step) { return (step + 1) % every_steps == 0; }
  bool due(std::int64_t every_steps) const { return due(every_steps, step); }
  /// Whether the present run leaves the group's gradient out, because the step does not update it.
  bool idle(const Minimized& of) const { return phase == Phase::kStep && !due(of.spec.every_steps); }
  /// The same of what only the gradient of minimized[index] needs; -1: others do.
  bool idle(std::int32_t index) const { return index >= 0 && idle(minimized[static_cast<std::size_t>(index)]); }
  /// Whether `step` makes the target or average follow: an average only what is updated.
  bool follows(const Group& group, std::int64_t step) const;
  bool reduces() const;  ///< any of the gradients, with those of other replicas

  /// Reduces all gradients that replicas share, in this memory.
  Status reduce_gradients();
  /// Calls the reductions of the present run for all that replicas share. gradient: the first element of one's flat
  /// gradient, in the memory of `gpu`, or the host's (-1). spoil: makes the first element that is reduced infinite or
  /// not a number, on a replica whose own gradients are not finite; else empty.
  Status reduce_parts(int gpu, const std::function<float*(const Minimized&)>& gradient,
                      std::function<Status(float*)> spoil);
  /// Of an output that is split by rows, those that are data.
  template <typename T>
  std::span<const T> valid(const ValueSpec& output, const std::byte* values) const {
    const std::int64_t elements = output.shape.elements();
    const std::int64_t count = output.place == Place::kRows ? elements / batch * rows : elements;
    return {reinterpret_cast<const T*>(values), static_cast<std::size_t>(count)};
  }
};

}  // namespace troupe::learner
