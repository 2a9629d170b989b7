#pragma once
// What an operation is: shapes in and out, a rule that emits its gradient as further nodes, and kernels. All shipped
// operations (learner/ops/) are written against this header, and so are users' own; there is no other way in.
#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include <troupe/core/error.hpp>
#include <troupe/core/tensor.hpp>

namespace troupe::learner {

class Graph;
struct KernelTable;  // learner/engine/cpu/kernels/kernel_table.hpp: the shipped kernels for one element type and
                     // instruction set

/// A value in a graph. Trivially copyable; invalid (graph == nullptr) after an error and for "no gradient".
struct Var {
  Graph* graph = nullptr;
  std::uint32_t id = 0;
  explicit operator bool() const { return graph != nullptr; }
  friend bool operator==(Var, Var) = default;
};

/// What the copies of a value on the stripes of a program mean. Stripes split the batch, so:
enum class Place : std::uint8_t {
  kReplicated,  ///< every stripe holds the same whole value (parameters, constants)
  kRows,        ///< every stripe holds its own rows; dimension 0 is a multiple of the batch
  kPartial,     ///< every stripe holds a summand; the value is their sum (losses, gradients of parameters)
};
std::string_view to_string(Place place);

/// shape is the global one: over all stripes. dtype kF32 stands for "real" and becomes the compute type; or kI32,
/// or kU8.
struct ValueSpec {
  Shape shape;
  DType dtype = DType::kF32;
  Place place = Place::kReplicated;
};

/// Constants of one node; the meaning of each entry is the op's.
struct Attr {
  std::array<double, 4> real{};
  std::array<std::int64_t, 6> integer{};
  Shape shape;
};

/// One operand at run time: this stripe's part. data is null for an output that nobody reads, so a gradient kernel
/// skips the gradients that are not needed. rows x cols is the local shape with all but the last dimension folded (a
/// scalar is 1 x 1, a vector [n] that is split by rows is n x 1, one that is replicated 1 x n).
struct Operand {
  void* data = nullptr;
  std::int64_t rows = 0;
  std::int64_t cols = 0;
  const Shape* shape = nullptr;  ///< local shape
  template <typename T>
  T* as() const {
    return static_cast<T*>(data);
  }
  std::int64_t elements() const { return rows * cols; }
};

/// How much of a step's rows is data. A batch may be shorter than the graph's; the rows behind its end are then copies
/// of one of its own: kernels compute them as they do all others, but what is reduced over rows must leave them out.
/// Gradients of such rows are zero, because the reductions' gradients start so; hence sums over rows of gradients need
/// no care.
struct ValidRows {
  std::int64_t rows = 0;     ///< of this stripe
  std::int64_t stripe = 0;   ///< the first ones of these that are data
  std::int64_t replica = 0;  ///< those of all stripes together; may be 0
  std::int64_t batch = 0;    ///< rows of the graph
  std::int64_t first = 0;    ///< where this stripe's rows begin among them

  /// How many elements of a value that is split by rows, with `elements` on this stripe, are data: the first ones.
  std::int64_t elements_of(std::int64_t elements) const { return rows == 0 ? 0 : elements / rows * stripe; }
};

// learner/graph/hlo.hpp: what an op becomes for compilers of StableHLO.
namespace hlo {
struct Joint;
struct Node;
struct Value;
using Values = std::vector<Value>;
}  // namespace hlo

class GemmPlan;
class ConvPlan;
struct ConvShape;  // learner/engine/cpu/convolution.hpp
struct KernelArgs {
  const Operand* in;
  const Operand* out;
  const Attr* attr;
  const GemmPlan* gemm;            ///< what OpDef::gemm asked for, or null
  const ConvPlan* conv = nullptr;  ///< what OpDef::conv asked for, or null
  void* workspace = nullptr;       ///< for `gemm` or `conv`; shared with the stripe's other calls
  int stripe = 0;
  int stripes = 1;
  const ValidRows* valid = nullptr;  ///< null: all rows
};

/// Computes one stripe's part of one node on the calling thread. No allocation, no lock, no exception; every output
/// that is not null is written completely. The same inputs give the same bits.
using KernelFn = void (*)(const KernelArgs&);

/// The product that a kernel needs: c[m, n] = op(a) op(b), row-major, for the local shapes. Sizes are known at compile
/// time, so back ends prepare it then.
struct GemmShape {
  std::int64_t m = 0, n = 0, k = 0;
  bool transpose_a = false;  ///< a is stored [k, m]
  bool transpose_b = false;  ///< b is stored [n, k]
  friend bool operator==(const GemmShape&, const GemmShape&) = default;
};

/// The arguments of a gradient rule. out_grads[i] is d loss / d output i, invalid where it is zero.
struct VjpArgs {
  Graph& graph;
  std::span<const Var> inputs;
  std::span<const Var> outputs;
  std::span<const Var> out_grads;
  std::span<const bool> needs;  ///< for each input: whether its gradient is wanted
  const Attr& attr;
  std::span<const Var> collected;  ///< for each input: its gradient by later uses, invalid where there is none so far
};

/// A kind of operation. Defined once as a constant (a graph keeps pointers to it) and stateless.
struct OpDef {
  std::string_view name;
  /// Specs of the outputs, or an error that names the shapes. `attr` may be completed here (e.g. with sizes).
  Result<std::vector<ValueSpec>> (*infer)(std::span<const ValueSpec> inputs, const Attr& attr);
  /// The kernel out of the table for the compute type and instruction set; users' ops branch on table.dtype.
  KernelFn (*kernel)(const KernelTable& table);
  /// The kernel for operands with images (rank 4, split by rows) in a bfloat16 program: these are stored as bfloat16,
  /// all others as float32. Null: images are converted to float32 before and after. (Convolutions need none.)
  KernelFn (*bf16_kernel)(const KernelTable& table) = nullptr;
  /// One gradient for each input, invalid where not needed or zero. Null: has no gradient, which is an error only when
  /// a gradient has to pass. The rule must be linear in out_grads, since those may be partial sums.
  std::vector<Var> (*vjp)(const VjpArgs& args) = nullptr;
  /// For GPUs: the shared object that has a kernel under the op's name, written with gpu/kernels/kernel.hpp and looked for
  /// where plug-ins are. Empty: the plug-in that ships has it, or a program for a GPU that needs the op is refused.
  std::string_view cuda = {};
  /// What the op is in StableHLO, one value for each output: the rule for engines that compile whole programs, such as
  /// PJRT's (learner/graph/hlo.hpp). Null: such an engine refuses a program that needs the op, naming both.
  hlo::Values (*hlo)(const hlo::Node& node) = nullptr;
  /// For kernels that multiply matrices: the product, from local shapes. Operands are inputs 0 and 1, result output 0.
  GemmShape (*gemm)(std::span<const Shape> inputs, const Attr& attr) = nullptr;
  /// For kernels that convolve, in the same way. Input 1 of a pass other than kWeightGrad is then a packed weight.
  ConvShape (*conv)(std::span<const Shape> inputs, const Attr& attr) = nullptr;
  /// Output 0 may overwrite input i where that input dies here: bit i. Only for kernels that read an element before
  /// they write it at the same place, and then never again.
  std::uint8_t overwrites = 0;
  /// The rule adds what it is given in VjpArgs::collected for input i and returns the whole: bit i. Saves a pass over a
  /// large gradient.
  std::uint8_t collects = 0;
  /// No kernel runs: output 0 is input 0 under another shape.
  bool alias = false;
};

/// Memory that a joint's values lie in: the host's, or that of the GPU whose program it is part of.
class JointMemory {
 public:
  virtual ~JointMemory() = default;
  /// Index of the GPU; -1: the host.
  virtual int gpu() const = 0;
  /// Of equal lengths.
  virtual Status copy(std::span<const float> from, std::span<float> to) = 0;
  /// Each value becomes `by` times it; with 0 zero, whatever it was.
  virtual Status scale(std::span<float> values, float by) = 0;
  /// So many values beside them, until the last who holds them lets go; for what is kept from one step to the next.
  virtual Result<std::shared_ptr<float[]>> allocate(std::size_t count) = 0;
  /// Until all of that is done, and the input of the joint is there. Before somebody else touches the values.
  virtual Status wait() = 0;
};
/// The host's, where all is done at once.
JointMemory* host_memory();

/// What the function of a joint works on: whole values, of all stripes.
struct JointArgs {
  std::span<const float> in;            ///< a sum over stripes is added up, rows follow each other
  std::span<float> out;                 ///< to be written completely; does not overlap `in`
  std::int64_t rows = 0;                ///< of this step's batch that are data
  JointMemory* memory = host_memory();  ///< where `in` and `out` are
};

/// Runs on one thread while all stripes wait. An error stops the step and is returned by Program::run.
class JointFn {
 public:
  using Run = std::function<Status(const JointArgs&)>;

  JointFn() = default;
  JointFn(std::nullptr_t) {}
  template <typename F>
  requires(std::convertible_to<F, Run> && !std::same_as<F, JointFn>) JointFn(F run) : run_(std::move(run)) {}
  /// One that can work in a GPU's memory too. `gpu` says whose, before each run; -1: not in this one. The values of a
  /// program that is on that GPU then stay there, else they are copied to the host.
  JointFn(Run run, std::function<int()> gpu) : run_(std::move(run)), gpu_(std::move(gpu)) {}
  /// What it is in StableHLO, for engines that compile all `replicas` of a group into one program.
  using Rule = std::function<hlo::Value(const hlo::Joint&)>;
  JointFn& with_rule(std::size_t replicas, Rule rule) {
    replicas_ = replicas;
    rule_ = std::move(rule);
    return *this;
  }

  explicit operator bool() const { return static_cast<bool>(run_); }
  Status operator()(const JointArgs& args) const { return run_(args); }
  int gpu() const { return gpu_ ? gpu_() : -1; }
  /// Null: it has none for a program of so many.
  const Rule* rule(std::size_t replicas) const { return rule_ && replicas == replicas_ ? &rule_ : nullptr; }

 private:
  Run run_;
  std::function<int()> gpu_;
  std::size_t replicas_ = 0;
  Rule rule_;
};

}  // namespace troupe::learner
