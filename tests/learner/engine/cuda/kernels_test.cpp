// Every kernel of the CUDA plug-in against the processor's kernel in float64: each node of graphs that together contain
// all operations (kernel_graphs.cpp) is run by both on the same operands. On the emulated device, and on a GPU where
// there is one.
#include <dlfcn.h>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <set>
#include <utility>

#include <troupe/tests/gpu/emulator/emulator.h>
#include <troupe/core/rng.hpp>
#include <troupe/gpu/cuda_plugin.hpp>
#include <troupe/learner/engine/cpu/convolution.hpp>
#include <troupe/learner/graph/graph_data.hpp>
#include <troupe/learner/ops/internal.hpp>
#include <troupe/tests/gpu/gpu_under_test.hpp>
#include <troupe/tests/learner/engine/kernel_graphs.hpp>
#include <troupe/tests/learner/engine/node_cases.hpp>

namespace troupe::learner {
namespace {

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
  int tiling = 0;        // of a product, see TroupeCudaProductShape
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
      const std::size_t bytes = side.values.size() * dtype_bytes(side.dtype);
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
      launch(call, manner.tiling);
    }
    std::vector<std::vector<std::byte>> outputs;
    for (std::size_t o = 0; o < node_.out.size() && gpu_.good(); ++o) {
      const Side& side = node_.out[o];
      outputs.emplace_back();
      if (call.out[o].data == nullptr) continue;
      outputs.back() = gpu_.download(call.out[o].data, side.values.size() * dtype_bytes(side.dtype));
    }
    return outputs;
  }

 private:
  bool is_packed() const {
    return node_.op->conv != nullptr && node_.op->conv(shapes_of(node_.in), node_.attr).pass != ConvPass::kWeightGrad;
  }

  void launch(TroupeCudaCall& call, int tiling) {
    const TroupeCudaApi& api = gpu_.api();
    const TroupeCudaKernel* kernel = api.find_kernel(std::string(node_.op->name).c_str());
    if (kernel == nullptr) return gpu_.fail("there is no kernel");
    if (product_ != nullptr && tiling != tiling_) api.destroy_product(std::exchange(product_, nullptr));
    tiling_ = tiling;
    if (node_.op->gemm != nullptr && product_ == nullptr) {
      const GemmShape s = node_.op->gemm(shapes_of(node_.in), node_.attr);
      const TroupeCudaProductShape shape{.m = s.m,
                                         .n = s.n,
                                         .k = s.k,
                                         .transpose_a = s.transpose_a,
                                         .transpose_b = s.transpose_b,
                                         .bf16 = node_.in[0].dtype == DType::kBF16,
                                         .tf32 = 0,
                                         .bias = call.inputs > 2,
                                         .activation = call.inputs > 2 ? static_cast<std::int32_t>(call.integer[0]) : 0,
                                         .tiling = tiling};
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
  int tiling_ = 0;
  TroupeCudaConv* conv_ = nullptr;
};

/// Runs the node in every manner that a program may, and says what is wrong.
void check_node(gpu::GpuUnderTest& gpu, NodeCase node) {
  // Of channels that are no multiple of 8 cuDNN has no other in bfloat16 (gpu/cudnn/conv.cpp).
  if (node.bf16 && node.op->name == "conv2d_weight_grad") node.out[0].rounded = true;
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
  const bool tiled = node.op->gemm != nullptr && node.in[0].dtype == DType::kF32;
  for (int tiling = 1; tiled && tiling <= TROUPE_CUDA_TILINGS; ++tiling) {
    const std::string manner = fmt::format(", tiling {}", tiling);
    const auto outputs = device.run({.tiling = tiling});
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
          walk(graph, {.valid = valid, .bf16 = bf16}, [&](const NodeCase& node) { check_node(*gpu, node); });
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
