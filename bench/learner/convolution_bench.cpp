// One convolution layer, all three passes (y, dx, dw) as programs run them, packing of the weight and unpacking of its
// gradient included, in turn with oneDNN's own primitives in the order of weights that it likes best and no reorder.
// The value is GFLOP/s of one thread; vs_onednn is the library alone, where it has such a convolution for the
// processor. A float32 row and a bfloat16 one for each layer.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <memory>
#include <oneapi/dnnl/dnnl.hpp>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include <troupe/core/aligned.hpp>
#include <troupe/learner/engine/cpu/convolution.hpp>

namespace troupe::learner {
namespace {

struct Layer {
  const char* name;
  std::int64_t batch, size, in, kernel, out, stride, padding;

  std::int64_t out_size() const { return (size + 2 * padding - kernel) / stride + 1; }
  double flop() const {
    return 3.0 * 2.0 * static_cast<double>(batch * out_size() * out_size() * out * kernel * kernel * in);
  }
};

constexpr Layer kLayers[] = {
    {"conv_128_3x3_at_32", 64, 32, 128, 3, 128, 1, 1},      {"conv_256_3x3_at_16", 64, 16, 256, 3, 256, 1, 1},
    {"conv_32_3x3_at_41", 64, 41, 32, 3, 32, 1, 1},         {"conv_9_to_32_3x3_s2_at_84", 64, 84, 9, 3, 32, 2, 0},
    {"conv_3_to_64_7x7_s2_at_224", 8, 224, 3, 7, 64, 2, 3}, {"conv_64_to_256_1x1_at_56", 8, 56, 64, 1, 256, 1, 0},
    {"conv_512_3x3_at_7", 8, 7, 512, 3, 512, 1, 1},
};

double seconds_of(const std::function<void()>& run) {
  const auto begin = std::chrono::steady_clock::now();
  run();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

AlignedArray<std::byte> filled(std::size_t bytes) {
  auto made = make_aligned<std::byte>(bytes);
  std::fill_n(made.get(), bytes, std::byte{0x3c});  // small numbers in both types
  return made;
}

/// What a program does with the layer in one step.
class Ours {
 public:
  Ours(const Layer& layer, DType dtype) {
    ConvShape shape{.batch = layer.batch,
                    .height = layer.size,
                    .width = layer.size,
                    .in = layer.in,
                    .kernel_h = layer.kernel,
                    .kernel_w = layer.kernel,
                    .out = layer.out,
                    .stride = layer.stride,
                    .padding = layer.padding};
    const std::size_t element = dtype_bytes(dtype),
                      pixels = static_cast<std::size_t>(layer.batch * layer.size * layer.size);
    const auto results = static_cast<std::size_t>(layer.batch * layer.out_size() * layer.out_size() * layer.out);
    x_ = filled(pixels * static_cast<std::size_t>(layer.in) * element);
    dx_ = filled(pixels * static_cast<std::size_t>(layer.in) * element);
    y_ = filled(results * element);
    dy_ = filled(results * element);
    w_ = filled(static_cast<std::size_t>(layer.kernel * layer.kernel * layer.in * layer.out) * 4);
    dw_ = filled(static_cast<std::size_t>(layer.kernel * layer.kernel * layer.in * layer.out) * 4);
    std::size_t workspace = 0;
    const ComputeBy by{GemmBackend::kAuto, PlanChoice::kMeasured};
    for (const ConvPass pass : {ConvPass::kForward, ConvPass::kInputGrad, ConvPass::kWeightGrad}) {
      shape.pass = pass;
      auto& step = steps_.emplace_back();
      const std::size_t packed = pass == ConvPass::kWeightGrad ? 0 : packed_bytes(by, shape, dtype).value();
      if (packed > 0) step.pack = make_pack(by, shape, dtype).value();
      step.packed = filled(packed);
      step.plan = make_convolution(by, shape, layer.batch, dtype).value();
      workspace = std::max(workspace, step.plan->workspace_bytes());
    }
    workspace_ = filled(workspace);
  }

  void run() const {
    const void* weights[2];
    for (std::size_t i = 0; i < 2; ++i) {
      if (steps_[i].pack) steps_[i].pack->run(w_.get(), nullptr, nullptr, steps_[i].packed.get(), nullptr);
      weights[i] = steps_[i].pack ? steps_[i].packed.get() : w_.get();
    }
    steps_[0].plan->run(x_.get(), weights[0], nullptr, y_.get(), workspace_.get());
    steps_[1].plan->run(dy_.get(), weights[1], nullptr, dx_.get(), workspace_.get());
    steps_[2].plan->run(x_.get(), dy_.get(), nullptr, dw_.get(), workspace_.get());
  }

 private:
  struct Step {
    std::unique_ptr<ConvPlan> pack, plan;
    AlignedArray<std::byte> packed{nullptr, nullptr};
  };
  std::vector<Step> steps_;
  AlignedArray<std::byte> x_{nullptr, nullptr}, dx_{nullptr, nullptr}, y_{nullptr, nullptr}, dy_{nullptr, nullptr};
  AlignedArray<std::byte> w_{nullptr, nullptr}, dw_{nullptr, nullptr}, workspace_{nullptr, nullptr};
};

/// The library's three primitives.
class Library {
 public:
  Library(const Layer& layer, DType dtype) {
    using dnnl::memory;
    enter_compute_thread();
    const auto type = dtype == DType::kBF16 ? memory::data_type::bf16 : memory::data_type::f32;
    const memory::desc image({layer.batch, layer.in, layer.size, layer.size}, type, memory::format_tag::nhwc);
    const memory::desc result({layer.batch, layer.out, layer.out_size(), layer.out_size()}, type,
                              memory::format_tag::nhwc);
    const memory::dims sizes = {layer.out, layer.in, layer.kernel, layer.kernel};
    const memory::desc weight(sizes, type, memory::format_tag::any);
    const memory::desc weight_grad(sizes, memory::data_type::f32, memory::format_tag::any);
    const memory::dims strides = {layer.stride, layer.stride}, before = {layer.padding, layer.padding};
    const std::int64_t last = (layer.out_size() - 1) * layer.stride + layer.kernel - layer.size - layer.padding;
    const memory::dims after = {last, last};
    constexpr auto algorithm = dnnl::algorithm::convolution_direct;
    const dnnl::convolution_forward::primitive_desc forward(cpu_, dnnl::prop_kind::forward_training, algorithm, image,
                                                            weight, result, strides, before, after);
    const dnnl::convolution_backward_data::primitive_desc data(cpu_, algorithm, image, weight, result, strides, before,
                                                               after, forward);
    const dnnl::convolution_backward_weights::primitive_desc weights(cpu_, algorithm, image, weight_grad, result,
                                                                     strides, before, after, forward);
    const memory x = make(image), dy = make(result);
    forward_ = {dnnl::convolution_forward(forward),
                {{DNNL_ARG_SRC, x}, {DNNL_ARG_WEIGHTS, make(forward.weights_desc())}, {DNNL_ARG_DST, make(result)}}};
    data_ = {
        dnnl::convolution_backward_data(data),
        {{DNNL_ARG_DIFF_DST, dy}, {DNNL_ARG_WEIGHTS, make(data.weights_desc())}, {DNNL_ARG_DIFF_SRC, make(image)}}};
    weights_ = {
        dnnl::convolution_backward_weights(weights),
        {{DNNL_ARG_SRC, x}, {DNNL_ARG_DIFF_DST, dy}, {DNNL_ARG_DIFF_WEIGHTS, make(weights.diff_weights_desc())}}};
  }

  void run() {
    for (Call* call : {&forward_, &data_, &weights_}) call->primitive.execute(stream_, call->arguments);
  }

 private:
  struct Call {
    dnnl::primitive primitive;
    std::unordered_map<int, dnnl::memory> arguments;
  };
  dnnl::memory make(const dnnl::memory::desc& desc) {
    dnnl::memory made(desc, cpu_);
    std::fill_n(static_cast<char*>(made.get_data_handle()), desc.get_size(), 0x3c);
    return made;
  }

  dnnl::engine cpu_{dnnl::engine::kind::cpu, 0};
  dnnl::stream stream_{cpu_};
  Call forward_, data_, weights_;
};

void convolution(benchmark::State& state, const Layer& layer, DType dtype) {
  constexpr double kSeconds = 1.5;
  const Ours ours(layer, dtype);
  std::optional<Library> library;
  if (dtype != DType::kBF16 || multiplies_bf16()) library.emplace(layer, dtype);
  std::vector<double> of_ours, of_library;
  for ([[maybe_unused]] auto _ : state) {
    double spent = 0;
    while (spent < kSeconds) {
      of_ours.push_back(seconds_of([&] { ours.run(); }));
      spent += of_ours.back();
      if (!library) continue;
      of_library.push_back(seconds_of([&] { library->run(); }));
      spent += of_library.back();
    }
  }
  const auto rate = [&](std::vector<double>& times) {
    std::ranges::nth_element(times, times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2));
    return layer.flop() / times[times.size() / 2] / 1e9;
  };
  state.counters["value"] = rate(of_ours);
  if (library) state.counters["vs_onednn"] = rate(of_library);
  state.SetLabel("GFLOP/s");
}

}  // namespace
}  // namespace troupe::learner

int main(int argc, char** argv) {
  using namespace troupe::learner;
  for (const Layer& layer : kLayers) {
    for (const auto& [suffix, dtype] : {std::pair{"", troupe::DType::kF32}, {"_bf16", troupe::DType::kBF16}}) {
      const std::string name = std::string(layer.name) + suffix;
      benchmark::RegisterBenchmark(
          name.c_str(), [&layer, dtype = dtype](benchmark::State& state) { convolution(state, layer, dtype); })
          ->Iterations(1)
          ->UseRealTime();
    }
  }
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
}
