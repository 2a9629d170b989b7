#pragma once
// The inside of Program: what compile.cpp makes, execute.cpp runs, update.cpp updates and program.cpp shows.
#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include <troupe/learner/aligned.hpp>
#include <troupe/learner/graph_data.hpp>
#include <troupe/learner/kernels/kernel_table.hpp>
#include <troupe/learner/plan.hpp>
#include <troupe/learner/program.hpp>
#include <troupe/learner/shard_pool.hpp>

namespace troupe::learner {

/// One kernel call with everything resolved to pointers.
struct Call {
  KernelFn function = nullptr;
  KernelArgs args{};
  std::int32_t joint = -1;  ///< of the joint that runs here instead
  std::string_view name;
  std::int64_t elapsed_ns = 0;
};

struct Shard {
  std::int64_t first_row = 0;
  std::int64_t rows = 0;
  AlignedArray<std::byte> arena = make_aligned<std::byte>(0);
  std::vector<AlignedArray<std::byte>> gradients;  ///< for each group, empty unless minimized
  std::vector<Shape> shapes;                       ///< local shape of each plan value
  std::vector<Operand> operands;                   ///< those of all calls
  std::vector<Attr> attrs;
  std::vector<std::unique_ptr<GemmPlan>> gemms;
  std::vector<Call> calls;
};

struct BoundInput {
  std::string name;
  ValueSpec spec;
  bool used = false;
  bool bound = false;
  std::vector<std::pair<std::size_t, std::size_t>> operands;  ///< shard, index into its operands
  AlignedArray<double> staging = make_aligned<double>(0);     ///< float64 programs: the converted data
};

struct OutputBuffer {
  std::string name;
  ValueSpec spec;
  AlignedArray<std::byte> data = make_aligned<std::byte>(0);
  std::vector<const void*> parts;  ///< for each shard, of values not split by rows, which are gathered after a run
};

struct Metric {
  Place place;
  std::vector<const void*> parts;
};

/// A joint: from each shard's input to each shard's output.
struct JointCall {
  Joint joint;
  ValueSpec input;
  std::vector<void* const*> from;  ///< where the address stands, since inputs are bound later
  std::vector<void*> to;
  std::vector<std::int64_t> elements;
};

struct Group {
  std::unique_ptr<ParamBuffer> params;
  AlignedArray<std::uint16_t> shadow = make_aligned<std::uint16_t>(0);  ///< bfloat16 programs
  AlignedArray<double> values_f64 = make_aligned<double>(0);            ///< float64 programs
  std::int32_t online = -1;
  std::int64_t every_steps = 0;
};

/// One minimize(): what its update needs.
struct Minimized {
  std::size_t group = 0;
  OptimizerSpec spec;
  std::vector<const float*> gradients;                        ///< of the shards
  std::vector<double> squares;                                ///< of each shard's range, for the global norm
  AlignedArray<float> gradient_f64 = make_aligned<float>(0);  ///< float64 programs: what gradient() shows
};

struct Assign {
  const void* from = nullptr;  ///< shard 0's value
  std::int64_t offset = 0;     ///< in the state
  std::int64_t elements = 0;
};

struct Program::Impl {
  explicit Impl(int shards) : pool(shards), shards(static_cast<std::size_t>(shards)) {}

  CompileOptions options;
  std::int64_t batch = 0;
  const KernelTable* table = nullptr;
  ShardPool pool;
  std::vector<Shard> shards;
  std::vector<BoundInput> inputs;
  std::vector<OutputBuffer> outputs;
  std::vector<std::string> metric_names;
  std::vector<Metric> metrics;
  std::vector<double> metric_values;
  std::vector<JointCall> joints;
  std::vector<AlignedArray<std::byte>> constants;
  std::vector<Group> groups;
  Group state;
  std::vector<Minimized> minimized;
  std::vector<Assign> assigns;
  std::int64_t step = 0;
  std::size_t arena_bytes = 0;
  bool timing = false;
  bool gradients_ready = false;

  Phase phase = Phase::kStep;  ///< of the present run
  Status failure;              ///< of a joint or reduction in the present run; written by shard 0 between barriers

  void run_shard(int shard);
  void run_calls(Shard& shard);
  void run_joint(JointCall& call);
  void update_shard(int shard);
  void sum_gradients(Minimized& minimized, int shard);
  void apply(Minimized& minimized, int shard, bool summed);
  void copy_targets(int shard);
  void assign_states();
  void collect();
  std::pair<std::int64_t, std::int64_t> range(std::int64_t elements, int shard) const;
  template <typename T>
  static std::span<const T> as_span(const OutputBuffer& output) {
    return {reinterpret_cast<const T*>(output.data.get()), static_cast<std::size_t>(output.spec.shape.elements())};
  }
};

}  // namespace troupe::learner
