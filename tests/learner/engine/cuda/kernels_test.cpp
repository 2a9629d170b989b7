// Every kernel of the CUDA plug-in against the processor's kernel in float64: each node of graphs that together contain
// all operations (kernel_graphs.cpp) is run by both on the same operands. On the emulated device, and on a GPU where
// there is one.
#include <dlfcn.h>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <fstream>
#include <map>
#include <regex>
#include <set>

#include <troupe/tests/gpu/emulator/emulator.h>
#include <troupe/core/rng.hpp>
#include <troupe/gpu/cuda_plugin.hpp>
#include <troupe/learner/engine/cpu/convolution.hpp>
#include <troupe/learner/engine/cpu/gemm.hpp>
#include <troupe/learner/engine/cpu/kernels/kernel_table.hpp>
#include <troupe/learner/graph/graph_data.hpp>
#include <troupe/learner/ops/internal.hpp>
#include <troupe/tests/gpu/gpu_under_test.hpp>
#include <troupe/tests/learner/engine/cuda/kernel_graphs.hpp>
#include <troupe/tests/paths.hpp>

namespace troupe::learner {
namespace {

/// What an element may be off, of the largest one of its output: some rounding errors of 6e-8 each, in sums of many.
/// And half of its last digit where it is stored as bfloat16. docs/gpu.md tells users so.
constexpr double kRelative = 1e-5, kBf16 = 0x1p-8;
/// The variance of a column is a difference that leaves nothing but rounding errors where all rows are alike, as one
/// row is: there the processor's own error in float32 is the measure, in these operations and no others.
constexpr std::string_view kDifferences[] = {"batch_moments", "batch_sums_grad"};
constexpr double kProcessor = 4;

float from_bf16(std::uint16_t x) { return std::bit_cast<float>(static_cast<std::uint32_t>(x) << 16); }
std::uint16_t to_bf16(float x) {
  const auto bits = std::bit_cast<std::uint32_t>(x);
  if (std::isnan(x)) return static_cast<std::uint16_t>(bits >> 16 | 0x40U);
  return static_cast<std::uint16_t>((bits + 0x7fffU + ((bits >> 16) & 1U)) >> 16);
}
double rounded(double x, DType dtype) {
  return dtype == DType::kBF16 ? from_bf16(to_bf16(static_cast<float>(x))) : static_cast<float>(x);
}

using Values = std::vector<double>;

std::size_t element_bytes(DType dtype) { return dtype_bytes(dtype); }
std::vector<std::byte> stored(const Values& values, DType dtype) {
  std::vector<std::byte> bytes(values.size() * element_bytes(dtype));
  for (std::size_t i = 0; i < values.size(); ++i) {
    const auto put = [&](auto value) { std::memcpy(bytes.data() + i * sizeof(value), &value, sizeof(value)); };
    if (dtype == DType::kI32) put(static_cast<std::int32_t>(values[i]));
    if (dtype == DType::kU8) put(static_cast<std::uint8_t>(values[i]));
    if (dtype == DType::kF32) put(static_cast<float>(values[i]));
    if (dtype == DType::kBF16) put(to_bf16(static_cast<float>(values[i])));
  }
  return bytes;
}
Values loaded(const std::vector<std::byte>& bytes, DType dtype) {
  Values values(bytes.size() / element_bytes(dtype));
  for (std::size_t i = 0; i < values.size(); ++i) {
    const auto get = [&]<typename T>(T value) {
      std::memcpy(&value, bytes.data() + i * sizeof(value), sizeof(value));
      return value;
    };
    values[i] = dtype == DType::kI32   ? get(std::int32_t{})
                : dtype == DType::kU8  ? static_cast<double>(get(std::uint8_t{}))
                : dtype == DType::kF32 ? static_cast<double>(get(float{}))
                                       : from_bf16(get(std::uint16_t{}));
  }
  return values;
}

/// An operand of one node: what it is on both sides.
struct Side {
  ValueSpec spec;
  DType dtype = DType::kF32;   // in the device's memory
  Values values;               // of an output: the expected ones
  double processor_error = 0;  // of an output: the largest of the processor in float32
};
/// One node with its operands.
struct NodeCase {
  const OpDef* op = nullptr;
  Attr attr;
  std::int64_t batch = 0, valid = 0;  // rows
  std::vector<Side> in, out;
  bool bf16 = false;
  std::string describe() const {
    std::string text = fmt::format("{}{} (", op->name, bf16 ? " in bfloat16" : "");
    for (const Side& side : in) text += side.spec.shape.to_string() + " ";
    text += ") -> (";
    for (const Side& side : out) text += side.spec.shape.to_string() + " ";
    return text + fmt::format("), {} of {} rows, integer {} {} {} {}", valid, batch, attr.integer[0], attr.integer[1],
                              attr.integer[2], attr.integer[3]);
  }
};

// ---- the processor's side ----

std::vector<Shape> shapes_of(const std::vector<Side>& sides) {
  std::vector<Shape> shapes;
  for (const Side& side : sides) shapes.push_back(side.spec.shape);
  return shapes;
}

/// The outputs by the processor's kernel for T, of operands that are rounded as the device stores them.
template <typename T>
std::vector<Values> compute(const NodeCase& node) {
  constexpr DType kType = sizeof(T) == 8 ? DType::kF64 : DType::kF32;
  const std::size_t count = node.in.size() + node.out.size();
  std::vector<Operand> operands(count);
  std::vector<std::vector<T>> reals(count);
  std::vector<std::vector<std::int32_t>> integers(count);
  std::vector<std::vector<std::uint8_t>> bytes(count);
  for (std::size_t i = 0; i < count; ++i) {
    const bool input = i < node.in.size();
    const Side& side = input ? node.in[i] : node.out[i - node.in.size()];
    reals[i].resize(static_cast<std::size_t>(side.spec.shape.elements()));
    if (input)
      std::transform(side.values.begin(), side.values.end(), reals[i].begin(),
                     [](double x) { return static_cast<T>(x); });
    operands[i].data = reals[i].data();
    operands[i].shape = &side.spec.shape;
    fold(side.spec, side.spec.shape, &operands[i].rows, &operands[i].cols);
    if (input && side.dtype == DType::kI32) {
      integers[i].assign(side.values.begin(), side.values.end());
      operands[i].data = integers[i].data();
    }
    if (side.dtype == DType::kU8) {
      bytes[i].assign(reals[i].begin(), reals[i].end());
      operands[i].data = bytes[i].data();
    }
  }
  const ValidRows valid{node.batch, node.valid, node.valid, node.batch};
  KernelArgs args{.in = operands.data(),
                  .out = operands.data() + node.in.size(),
                  .attr = &node.attr,
                  .gemm = nullptr,
                  .valid = &valid};
  std::unique_ptr<GemmPlan> gemm;
  if (node.op->gemm != nullptr) {
    auto made = make_gemm(GemmBackend::kEigen, node.op->gemm(shapes_of(node.in), node.attr), kType);
    EXPECT_TRUE(made.ok()) << made.error().message;
    gemm = std::move(*made);
    args.gemm = gemm.get();
  }
  std::unique_ptr<ConvPlan> conv;
  std::vector<double> workspace;
  if (node.op->conv != nullptr) {
    const ConvShape shape = node.op->conv(shapes_of(node.in), node.attr);
    auto made = make_convolution(GemmBackend::kEigen, shape, shape.batch, kType);
    EXPECT_TRUE(made.ok()) << made.error().message;
    conv = std::move(*made);
    workspace.resize(conv->workspace_bytes() / sizeof(double) + 1);
    args.conv = conv.get();
    args.workspace = workspace.data();
  }
  node.op->kernel(kType == DType::kF64 ? kernels_f64() : kernels_f32_generic())(args);
  std::vector<Values> outputs;
  for (std::size_t o = node.in.size(); o < count; ++o) {
    if (!bytes[o].empty()) reals[o].assign(bytes[o].begin(), bytes[o].end());
    outputs.emplace_back(reals[o].begin(), reals[o].end());
  }
  return outputs;
}

/// Fills in what is expected of the outputs.
void compute_expected(NodeCase& node) {
  if (node.op == &identity_op() && node.in[0].dtype == DType::kI32) {  // only moves bits
    node.out[0].values = node.in[0].values;
    return;
  }
  const std::vector<Values> exact = compute<double>(node), rounding = compute<float>(node);
  for (std::size_t o = 0; o < exact.size(); ++o) {
    Side& side = node.out[o];
    for (std::size_t i = 0; i < exact[o].size(); ++i) {
      side.values.push_back(static_cast<float>(exact[o][i]));
      const double error = std::abs(rounding[o][i] - exact[o][i]);
      if (std::isfinite(error)) side.processor_error = std::max(side.processor_error, error);
    }
  }
}

// ---- the device's side ----

TroupeCudaOperand cuda_operand(const Side& side, void* data) {
  TroupeCudaOperand made{.data = data, .dtype = static_cast<std::int32_t>(side.dtype)};
  fold(side.spec, side.spec.shape, &made.rows, &made.cols);
  made.shape.rank = side.spec.shape.rank();
  std::ranges::copy(side.spec.shape.dims(), made.shape.dims);
  return made;
}

/// [kernel_h, kernel_w, in, out] as [out, kernel_h, kernel_w, in].
Values packed(const Values& weight, const Shape& shape) {
  Values made(weight.size());
  const std::int64_t out = shape[3], inner = shape.elements() / out;
  for (std::int64_t i = 0; i < inner; ++i) {
    for (std::int64_t o = 0; o < out; ++o) {
      made[static_cast<std::size_t>(o * inner + i)] = weight[static_cast<std::size_t>(i * out + o)];
    }
  }
  return made;
}

/// How the device runs a node.
struct Manner {
  int null_output = -1;  // nobody reads it
  int over_input = -1;   // output 0 lies where this one does
};

class DeviceRun {
 public:
  DeviceRun(gpu::GpuUnderTest& gpu, const NodeCase& node) : gpu_(gpu), node_(node) {}
  ~DeviceRun() {
    if (product_ != nullptr) gpu_.api().destroy_product(product_);
    if (conv_ != nullptr) gpu_.cudnn().destroy_conv(conv_);
  }
  DeviceRun(const DeviceRun&) = delete;
  DeviceRun& operator=(const DeviceRun&) = delete;

  /// The outputs; empty after an error, and for an output that was left out.
  std::vector<std::vector<std::byte>> run(const Manner& manner) {
    std::vector<gpu::DeviceBytes> memory;
    TroupeCudaCall call{.inputs = static_cast<std::int32_t>(node_.in.size()),
                        .outputs = static_cast<std::int32_t>(node_.out.size())};
    for (std::size_t i = 0; i < node_.in.size(); ++i) {
      const bool packs = i == 1 && is_packed();
      const Values values = packs ? packed(node_.in[i].values, node_.in[i].spec.shape) : node_.in[i].values;
      memory.push_back(gpu_.upload(stored(values, node_.in[i].dtype)));
      call.in[i] = cuda_operand(node_.in[i], memory.back().get());
    }
    for (std::size_t o = 0; o < node_.out.size(); ++o) {
      const Side& side = node_.out[o];
      const std::size_t bytes = side.values.size() * element_bytes(side.dtype);
      memory.push_back(gpu_.poisoned(bytes));
      void* data = memory.back().get();
      if (static_cast<int>(o) == manner.null_output) data = nullptr;
      if (o == 0 && manner.over_input >= 0) data = call.in[manner.over_input].data;
      call.out[o] = cuda_operand(side, data);
    }
    std::ranges::copy(node_.attr.real, call.real);
    std::ranges::copy(node_.attr.integer, call.integer);
    call.shape.rank = node_.attr.shape.rank();
    std::ranges::copy(node_.attr.shape.dims(), call.shape.dims);
    call.valid = {node_.valid, node_.batch};
    if (node_.op->conv != nullptr) {
      convolve(call);
    } else {
      launch(call);
    }
    std::vector<std::vector<std::byte>> outputs;
    for (std::size_t o = 0; o < node_.out.size() && gpu_.good(); ++o) {
      const Side& side = node_.out[o];
      outputs.emplace_back();
      if (call.out[o].data == nullptr) continue;
      outputs.back() = gpu_.download(call.out[o].data, side.values.size() * element_bytes(side.dtype));
    }
    return outputs;
  }

 private:
  bool is_packed() const {
    return node_.op->conv != nullptr && node_.op->conv(shapes_of(node_.in), node_.attr).pass != ConvPass::kWeightGrad;
  }

  void launch(TroupeCudaCall& call) {
    const TroupeCudaApi& api = gpu_.api();
    const TroupeCudaKernel* kernel = api.find_kernel(std::string(node_.op->name).c_str());
    if (kernel == nullptr) return gpu_.fail("there is no kernel");
    if (node_.op->gemm != nullptr && product_ == nullptr) {
      const GemmShape s = node_.op->gemm(shapes_of(node_.in), node_.attr);
      const TroupeCudaProductShape shape{.m = s.m,
                                         .n = s.n,
                                         .k = s.k,
                                         .transpose_a = s.transpose_a,
                                         .transpose_b = s.transpose_b,
                                         .bf16 = node_.in[0].dtype == DType::kBF16,
                                         .tf32 = 0,
                                         .bias = call.inputs > 2};
      if (!gpu_.check(api.make_product(&shape, &product_), "make_product")) return;
    }
    call.product = product_;
    const gpu::DeviceBytes workspace = gpu_.poisoned(api.workspace(kernel, &call));
    call.workspace = workspace.get();
    gpu_.check(api.launch(kernel, &call, gpu_.stream()), "launch");
    gpu_.wait();
  }

  void convolve(TroupeCudaCall& call) {
    const TroupeCudnnApi& api = gpu_.cudnn();
    const ConvShape s = node_.op->conv(shapes_of(node_.in), node_.attr);
    const TroupeCudaConvShape shape{.pass = static_cast<std::int32_t>(s.pass),
                                    .batch = s.batch,
                                    .height = s.height,
                                    .width = s.width,
                                    .in = s.in,
                                    .kernel_h = s.kernel_h,
                                    .kernel_w = s.kernel_w,
                                    .out = s.out,
                                    .stride = s.stride,
                                    .padding = s.padding,
                                    .bias = s.bias,
                                    .activation = static_cast<std::int32_t>(s.activation),
                                    .bf16 = node_.bf16,
                                    .tf32 = 0};
    if (conv_ == nullptr && !gpu_.check(api.make_conv(&shape, &conv_), "make_conv")) return;
    const gpu::DeviceBytes workspace = gpu_.poisoned(api.workspace(conv_));
    gpu_.check(
        api.run(conv_, call.in[0].data, call.in[1].data, s.bias ? static_cast<const float*>(call.in[2].data) : nullptr,
                call.out[0].data, workspace.get(), gpu_.stream()),
        "run");
    gpu_.wait();
  }

  gpu::GpuUnderTest& gpu_;
  const NodeCase& node_;
  TroupeCudaProduct* product_ = nullptr;
  TroupeCudaConv* conv_ = nullptr;
};

/// The first element that differs too much, in words, or nothing.
std::string difference(const OpDef& op, const Side& side, const std::vector<std::byte>& bytes) {
  const Values got = loaded(bytes, side.dtype);
  const bool cancels = std::ranges::count(kDifferences, op.name) > 0;
  double largest = 0;
  for (const double value : side.values) {
    if (std::isfinite(value)) largest = std::max(largest, std::abs(value));
  }
  for (std::size_t i = 0; i < got.size(); ++i) {
    const double expected = side.values[i];
    if (std::isnan(expected) && std::isnan(got[i])) continue;
    double bound = 0;
    if (side.dtype != DType::kI32 && side.dtype != DType::kU8) bound = kRelative * largest + 1e-37;
    if (cancels) bound += kProcessor * side.processor_error;
    if (side.dtype == DType::kBF16) bound += kBf16 * std::abs(expected);
    if (std::abs(got[i] - expected) <= bound || got[i] == expected) continue;
    return fmt::format("element {} is {}, expected {} within {}", i, got[i], expected, bound);
  }
  return {};
}

/// Runs the node in every manner that a program may, and says what is wrong.
void check_node(gpu::GpuUnderTest& gpu, const NodeCase& node) {
  DeviceRun device(gpu, node);
  const auto differs = [&](const std::vector<std::vector<std::byte>>& outputs, std::string_view manner) {
    for (std::size_t o = 0; o < outputs.size(); ++o) {
      const std::string wrong = outputs[o].empty() ? "" : difference(*node.op, node.out[o], outputs[o]);
      if (wrong.empty()) continue;
      ADD_FAILURE() << gpu.name() << ": " << node.describe() << manner << ": output " << o << ": " << wrong;
      return true;
    }
    return false;
  };
  const auto failed = [&](std::string_view manner) {
    if (gpu.good()) return false;
    ADD_FAILURE() << gpu.name() << ": " << node.describe() << manner << ": " << gpu.why();
    gpu.restart();
    return true;
  };
  const auto first = device.run({});
  if (failed("") || differs(first, "")) return;
  const auto second = device.run({});
  if (failed("")) return;
  if (first != second) {
    ADD_FAILURE() << gpu.name() << ": " << node.describe() << ": another run gives other bits";
    return;
  }
  for (int o = 0; o < static_cast<int>(node.out.size()) && node.out.size() > 1; ++o) {
    const std::string manner = fmt::format(", nobody reading output {}", o);
    const auto outputs = device.run({.null_output = o});
    if (failed(manner) || differs(outputs, manner)) return;
  }
  for (int i = 0; i < static_cast<int>(node.in.size()); ++i) {
    if ((node.op->overwrites >> i & 1) == 0 || node.in[static_cast<std::size_t>(i)].dtype != node.out[0].dtype)
      continue;
    const std::string manner = fmt::format(", output 0 over input {}", i);
    const auto outputs = device.run({.over_input = i});
    if (failed(manner) || differs(outputs, manner)) return;
  }
}

// ---- graphs ----

/// What the value of a source is, by its name.
Values draw(Rng& rng, const std::string& name, std::int64_t elements) {
  Values values(static_cast<std::size_t>(elements));
  const std::size_t limit = name.find('<');
  for (double& value : values) {
    if (limit != std::string::npos) {
      value = static_cast<double>(rng.below(static_cast<std::uint64_t>(std::stoll(name.substr(limit + 1)))));
    } else {
      const bool positive = name.find("positive") != std::string::npos;
      value = static_cast<float>(positive ? 0.5 + rng.uniform() : -1 + 3 * rng.uniform());
    }
  }
  return values;
}

std::vector<Values> draw_sources(const GraphData& data, Rng& rng) {
  std::vector<Values> values(data.values.size());
  for (std::size_t id = 0; id < values.size(); ++id) {
    const Value& value = data.values[id];
    const auto index = static_cast<std::size_t>(value.index), entry = static_cast<std::size_t>(value.entry);
    const std::int64_t elements = value.spec.shape.elements();
    switch (value.source) {
      case Source::kInput:
        values[id] = draw(rng, data.inputs[index].name, elements);
        break;
      case Source::kConstant:
        values[id].assign(data.constants[index].begin(), data.constants[index].end());
        break;
      case Source::kParam:
        values[id] = draw(rng, data.groups[index].layout.entries[entry].name, elements);
        break;
      case Source::kState:
        values[id] = draw(rng, data.state.layout.entries[entry].name, elements);
        break;
      case Source::kNode:
        break;
    }
  }
  return values;
}

/// As Planner::choose_types() in a bfloat16 program on a GPU.
bool is_narrow(const OpDef& op, const ValueSpec& spec, std::size_t input, bool is_input) {
  if (spec.dtype == DType::kI32 || spec.dtype == DType::kU8) return false;
  if (op.gemm != nullptr) return is_input && input < 2;
  const bool image = spec.place == Place::kRows && spec.shape.rank() == 4;
  if (op.conv != nullptr && is_input && input == 1) return true;  // the weight, or an image too
  return (op.conv != nullptr || op.bf16_kernel != nullptr) && image;
}

/// Walks the graph's nodes in order on the processor, and gives each to `check`.
void walk(const Graph& graph, std::int64_t valid, bool bf16, std::uint64_t seed,
          const std::function<void(const NodeCase&)>& check) {
  const GraphData& data = GraphAccess::data(graph);
  Rng rng(seed);
  std::vector<Values> values = draw_sources(data, rng);
  for (const Node& from : data.nodes) {
    if (from.op == nullptr || from.op->alias) {  // sums of one stripe, and names for what there is
      values[from.outputs[0]] = values[from.inputs[0]];
      continue;
    }
    NodeCase node{.op = from.op, .attr = from.attr, .batch = graph.batch(), .valid = valid};
    for (const std::uint32_t id : from.inputs) {
      const ValueSpec& spec = data.values[id].spec;
      node.in.push_back({spec, spec.dtype, values[id]});
    }
    for (const std::uint32_t id : from.outputs)
      node.out.push_back({data.values[id].spec, data.values[id].spec.dtype, {}});
    for (std::size_t i = 0; i < node.in.size() && bf16; ++i) {
      if (!is_narrow(*from.op, node.in[i].spec, i, true)) continue;
      node.bf16 = true;
      node.in[i].dtype = DType::kBF16;
      for (double& value : node.in[i].values) value = rounded(value, DType::kBF16);
    }
    for (Side& side : node.out) {
      if (!bf16 || !is_narrow(*from.op, side.spec, 0, false)) continue;
      node.bf16 = true;
      side.dtype = DType::kBF16;
    }
    compute_expected(node);
    for (std::size_t o = 0; o < node.out.size(); ++o) values[from.outputs[o]] = node.out[o].values;
    if (node.bf16 == bf16) check(node);
  }
}

class KernelsOf : public testing::TestWithParam<GraphCase> {};

TEST_P(KernelsOf, AgreeWithTheProcessors) {
  for (const Sizes& sizes : GetParam().sizes) {
    Graph graph(sizes.rows);
    GetParam().build(graph, sizes);
    ASSERT_TRUE(graph.status().ok()) << to_string(sizes) << ": " << graph.status().error().message;
    const bool large = sizes.rows * sizes.cols > 100'000;
    for (const auto& gpu : gpu::gpus_under_test()) {
      for (const std::int64_t valid : {sizes.rows, sizes.rows * 3 / 4}) {
        for (const bool bf16 : {false, true}) {
          if (large && (bf16 || valid < sizes.rows)) continue;
          walk(graph, valid, bf16, 7, [&](const NodeCase& node) { check_node(*gpu, node); });
        }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Gpu, KernelsOf, testing::ValuesIn(kernel_graphs()),
                         [](const auto& info) { return info.param.name; });

// ---- what only the planner adds ----

TEST(PlannedKernels, CastToBfloat16AndBack) {
  for (const std::int64_t count : {1, 7, 4096, 1'200'003}) {
    const ValueSpec spec{Shape{count}, DType::kF32, Place::kReplicated};
    Rng rng(3);
    Values values = draw(rng, "x", count);
    const double edges[] = {1.00390625, 1.01171875, 3.3895314e38, 1e-40, NAN, INFINITY, -0.0};
    for (std::size_t i = 0; i < std::size(edges) && i < values.size(); ++i) values[i] = static_cast<float>(edges[i]);
    Values narrow = values;
    for (double& value : narrow) value = rounded(value, DType::kBF16);
    NodeCase to{.op = &cast_op(), .batch = 1, .valid = 1};
    to.in = {{spec, DType::kF32, values}};
    to.out = {{spec, DType::kBF16, narrow}};
    NodeCase back{.op = &widen_op(), .batch = 1, .valid = 1};
    back.in = {{spec, DType::kBF16, narrow}};
    back.out = {{spec, DType::kF32, narrow}};
    for (const auto& gpu : gpu::gpus_under_test()) {
      check_node(*gpu, to);
      check_node(*gpu, back);
      if (HasFailure()) continue;
      EXPECT_EQ(DeviceRun(*gpu, to).run({})[0], stored(narrow, DType::kBF16)) << "every bit";
    }
  }
}

TEST(PlannedKernels, PackWeights) {
  for (const Shape& shape : {Shape{1, 1, 1, 1}, {3, 3, 5, 7}, {2, 3, 64, 33}, {4, 4, 3, 128}}) {
    for (const DType dtype : {DType::kF32, DType::kBF16}) {
      Rng rng(3);
      const Values weight = draw(rng, "w", shape.elements());
      Values expected = packed(weight, shape);
      for (double& value : expected) value = rounded(value, dtype);
      NodeCase node{.op = &pack_weight_op(), .batch = 1, .valid = 1, .bf16 = dtype == DType::kBF16};
      node.in = {{{shape, DType::kF32, Place::kReplicated}, DType::kF32, weight}};
      node.out = {{{Shape{shape.elements()}, DType::kF32, Place::kReplicated}, dtype, expected}};
      for (const auto& gpu : gpu::gpus_under_test()) check_node(*gpu, node);
    }
  }
}

TEST(PlannedKernels, CopyBfloat16) {
  Rng rng(3);
  Values values = draw(rng, "x", 1001);
  for (double& value : values) value = rounded(value, DType::kBF16);
  NodeCase node{.op = &identity_op(), .batch = 1, .valid = 1, .bf16 = true};
  node.in = {{{Shape{1001}, DType::kF32, Place::kReplicated}, DType::kBF16, values}};
  node.out = node.in;
  for (const auto& gpu : gpu::gpus_under_test()) check_node(*gpu, node);
}

/// Names of the operations that the sources define.
std::set<std::string> defined_operations() {
  std::set<std::string> names;
  const std::regex definition("^    \\.name = \"([a-z0-9_]+)\",.*");
  for (const auto& file : std::filesystem::directory_iterator(source_dir() + "/learner/ops")) {
    std::ifstream in(file.path());
    for (std::string line; std::getline(in, line);) {
      if (std::smatch match; std::regex_match(line, match, definition)) names.insert(match[1]);
    }
  }
  return names;
}

TEST(Kernels, ThereIsOneForEveryOperationAndItIsTested) {
  std::set<std::string> tested = {"cast_bf16", "cast_f32", "pack_weight"};  // above
  // cuDNN's are no kernels of the plug-in, and of an alias nothing is run.
  std::set<std::string> without_kernel;
  for (const GraphCase& each : kernel_graphs()) {
    Graph graph(each.sizes.back().rows);
    each.build(graph, each.sizes.back());
    for (const Node& node : GraphAccess::data(graph).nodes) {
      if (node.op == nullptr) continue;
      const std::string name(node.op->name);
      tested.insert(name);
      if (node.op->conv != nullptr || node.op->alias) without_kernel.insert(name);
    }
  }
  const std::set<std::string> defined = defined_operations();
  EXPECT_GT(defined.size(), 60U) << "where are the sources?";
  for (const std::string& name : defined) {
    EXPECT_TRUE(tested.contains(name)) << name << " is in no graph of kernel_graphs.cpp";
    if (without_kernel.contains(name)) continue;
    for (const auto& gpu : gpu::gpus_under_test()) {
      EXPECT_NE(gpu->api().find_kernel(name.c_str()), nullptr) << gpu->name() << " has no kernel " << name;
    }
  }
  for (const std::string& name : without_kernel) {
    for (const auto& gpu : gpu::gpus_under_test()) EXPECT_EQ(gpu->api().find_kernel(name.c_str()), nullptr) << name;
  }
}

}  // namespace
}  // namespace troupe::learner
