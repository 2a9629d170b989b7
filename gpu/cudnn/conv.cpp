#include <troupe/gpu/cudnn/conv.hpp>

#include <cudnn_frontend.h>

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include <troupe/gpu/cudnn/conv_finish.hpp>
#include <troupe/gpu/kernels/device_handle.hpp>
#include <troupe/gpu/kernels/fastest.hpp>
#include <troupe/gpu/kernels/library_error.hpp>

namespace {

namespace fe = cudnn_frontend;
using fe::DataType_t;
using troupe_cuda::library_failed;

struct Planned;
using ShapeKey = std::array<std::int64_t, 15>;

/// Threads take turns: a handle has one stream at a time. A launch takes microseconds.
struct CudnnHandle {
  CudnnHandle() = default;
  ~CudnnHandle() {
    if (handle != nullptr) cudnnDestroy(handle);
  }
  CudnnHandle(const CudnnHandle&) = delete;
  CudnnHandle& operator=(const CudnnHandle&) = delete;

  cudaError_t make() {
    const cudnnStatus_t status = cudnnCreate(&handle);
    if (status == CUDNN_STATUS_SUCCESS) return cudaSuccess;
    return library_failed("cuDNN: cudnnCreate: %s", cudnnGetErrorString(status));
  }
  cudnnHandle_t handle = nullptr;
  std::mutex mutex;
  std::map<ShapeKey, std::weak_ptr<const Planned>> planned;  ///< one for all convolutions of a shape
};

enum Pass : std::int32_t { kForward = 0, kInputGrad = 1, kWeightGrad = 2 };
enum Uid : std::int64_t { kA = 1, kB, kBias, kC };

/// What of a pass cuDNN is asked to do by itself.
struct Attempt {
  bool finish = false;                    ///< forward: bias and activation
  DataType_t result = DataType_t::FLOAT;  ///< of c
};

/// A graph of cuDNN's, and which of its plans is run.
struct Planned {
  std::unique_ptr<fe::graph::Graph> graph;
  std::int64_t plan = 0;
  std::int64_t workspace = 0;
  Attempt done;
};

}  // namespace

struct TroupeCudaConv {
  TroupeCudaConvShape shape{};
  std::shared_ptr<CudnnHandle> handle;
  std::shared_ptr<const Planned> planned;
  std::size_t gradient_bytes = 0;  ///< of the workspace, its beginning: the gradient in cuDNN's order
  std::size_t workspace = 0;
};

namespace {

std::int64_t out_height(const TroupeCudaConvShape& s) { return (s.height + 2 * s.padding - s.kernel_h) / s.stride + 1; }
std::int64_t out_width(const TroupeCudaConvShape& s) { return (s.width + 2 * s.padding - s.kernel_w) / s.stride + 1; }

bool finishes(const TroupeCudaConvShape& s) { return s.pass == kForward && (s.bias != 0 || s.activation != 0); }

DataType_t image_type(const TroupeCudaConvShape& s) { return s.bf16 ? DataType_t::BFLOAT16 : DataType_t::FLOAT; }

/// cuDNN's order of dimensions is [n, c, h, w] (weights: [out, in, h, w]), whatever lies behind what: here c is last.
using Dims = std::vector<std::int64_t>;
Dims strides(const Dims& dims) { return {dims[1] * dims[2] * dims[3], 1, dims[1] * dims[3], dims[1]}; }

std::shared_ptr<fe::graph::Tensor_attributes> input(fe::graph::Graph& graph, Uid uid, const Dims& dims,
                                                    DataType_t type) {
  return graph.tensor(
      fe::graph::Tensor_attributes().set_uid(uid).set_dim(dims).set_stride(strides(dims)).set_data_type(type));
}

template <typename Attributes>
Attributes geometry(const TroupeCudaConvShape& s) {
  Attributes attributes;
  attributes.set_padding({s.padding, s.padding}).set_stride({s.stride, s.stride}).set_dilation({1, 1});
  return attributes;
}

void describe(const TroupeCudaConvShape& s, const Attempt& attempt, fe::graph::Graph& graph) {
  const Dims x = {s.batch, s.in, s.height, s.width}, w = {s.out, s.in, s.kernel_h, s.kernel_w};
  const Dims y = {s.batch, s.out, out_height(s), out_width(s)};
  const DataType_t type = image_type(s);
  graph.set_intermediate_data_type(DataType_t::FLOAT).set_compute_data_type(DataType_t::FLOAT);
  std::shared_ptr<fe::graph::Tensor_attributes> c;
  const Dims* dims = nullptr;
  if (s.pass == kInputGrad) {
    c = graph.conv_dgrad(input(graph, kA, y, type), input(graph, kB, w, type),
                         geometry<fe::graph::Conv_dgrad_attributes>(s));
    dims = &x;
  } else if (s.pass == kWeightGrad) {
    const auto image = input(graph, kA, x, type), gradient = input(graph, kB, y, type);
    c = graph.conv_wgrad(gradient, image, geometry<fe::graph::Conv_wgrad_attributes>(s));
    dims = &w;
  } else {
    c = graph.conv_fprop(input(graph, kA, x, type), input(graph, kB, w, type),
                         geometry<fe::graph::Conv_fprop_attributes>(s));
    dims = &y;
    if (attempt.finish && s.bias) {
      c = graph.pointwise(c, input(graph, kBias, {1, s.out, 1, 1}, DataType_t::FLOAT),
                          fe::graph::Pointwise_attributes().set_mode(fe::PointwiseMode_t::ADD));
    }
    if (attempt.finish && s.activation) {
      fe::graph::Pointwise_attributes activation;
      activation.set_mode(fe::PointwiseMode_t::RELU_FWD);
      if (s.activation == 5) activation.set_relu_lower_clip_slope(0.1F);
      c = graph.pointwise(c, activation);
    }
  }
  c->set_output(true).set_uid(kC).set_dim(*dims).set_stride(strides(*dims)).set_data_type(attempt.result);
}

/// Engines whose results differ from run to run, or are rounded more than was asked for.
std::vector<fe::NumericalNote_t> unwanted(const TroupeCudaConvShape& s) {
  using Note = fe::NumericalNote_t;
  std::vector<Note> notes = {Note::NONDETERMINISTIC, Note::REDUCED_PRECISION_REDUCTION};
  if (!s.bf16) notes.push_back(Note::DOWN_CONVERT_INPUTS);
  if (!s.bf16 && !s.tf32) notes.push_back(Note::TENSOR_CORE);  // which round float32 to TF32
  return notes;
}

/// The most that an engine may ask for; those for the sizes of the shipped networks need less.
constexpr std::int64_t kWorkspaceLimit = std::int64_t{1} << 30;

using Operands = std::unordered_map<std::int64_t, void*>;

cudaError_t execute(const CudnnHandle& handle, const Planned& planned, std::int64_t plan, Operands& operands,
                    void* workspace, cudaStream_t stream) {
  if (const cudnnStatus_t status = cudnnSetStream(handle.handle, stream); status != CUDNN_STATUS_SUCCESS) {
    return library_failed("cuDNN: cudnnSetStream: %s", cudnnGetErrorString(status));
  }
  auto status = planned.graph->execute_plan_at_index(handle.handle, operands, workspace, plan);
  return status.is_good() ? cudaSuccess : library_failed("cuDNN: a convolution: %s", status.get_message().c_str());
}

/// Of these plans, of which the first is cuDNN's choice; that where they cannot be measured.
std::int64_t fastest(const TroupeCudaConvShape& s, const CudnnHandle& handle, const Planned& planned,
                     const std::vector<std::int64_t>& plans) {
  using troupe_cuda::Scratch;
  const std::size_t x = static_cast<std::size_t>(s.batch * s.height * s.width * s.in) * sizeof(float);
  const std::size_t y = static_cast<std::size_t>(s.batch * out_height(s) * out_width(s) * s.out) * sizeof(float);
  const std::size_t w = static_cast<std::size_t>(s.out * s.kernel_h * s.kernel_w * s.in) * sizeof(float);
  std::int64_t most = 0;
  for (const std::int64_t plan : plans) {
    std::int64_t bytes = 0;
    if (planned.graph->get_workspace_size_plan_at_index(plan, bytes).is_good()) most = std::max(most, bytes);
  }
  const Scratch a(s.pass == kInputGrad ? y : x), b(s.pass == kWeightGrad ? y : w),
      c(s.pass == kForward     ? y
        : s.pass == kInputGrad ? x
                               : w),
      bias(static_cast<std::size_t>(s.out) * sizeof(float)), workspace(static_cast<std::size_t>(most));
  for (const Scratch* each : {&a, &b, &c, &bias, &workspace}) {
    if (each->get() == nullptr) return plans[0];
  }
  Operands operands = {{kA, a.get()}, {kB, b.get()}, {kC, c.get()}};
  if (planned.done.finish && s.bias) operands.emplace(kBias, bias.get());
  troupe_cuda::Race race;
  for (const std::int64_t plan : plans) {
    race.add(static_cast<int>(plan),
             [&](cudaStream_t stream) { return execute(handle, planned, plan, operands, workspace.get(), stream); });
  }
  return race.winner(static_cast<int>(plans[0]));
}

/// Of cuDNN's list as many are measured: building one takes up to a tenth of a second.
constexpr std::size_t kMostPlans = 4;

/// Fills `made`. Empty, or why not.
std::string build(const TroupeCudaConvShape& s, const Attempt& attempt, const CudnnHandle& handle, Planned& made) {
  made.graph = std::make_unique<fe::graph::Graph>();
  made.done = attempt;
  fe::graph::Graph& graph = *made.graph;
  describe(s, attempt, graph);
  if (auto status = graph.validate(); status.is_bad()) return status.get_message();
  if (auto status = graph.build_operation_graph(handle.handle); status.is_bad()) return status.get_message();
  if (auto status = graph.create_execution_plans({fe::HeurMode_t::A, fe::HeurMode_t::FALLBACK}); status.is_bad()) {
    return status.get_message();
  }
  graph.deselect_numeric_notes(unwanted(s)).deselect_workspace_greater_than(kWorkspaceLimit);
  std::vector<std::int64_t> plans;
  std::string why = "it offers nothing";
  const std::size_t wanted = s.measured ? kMostPlans : 1;
  for (std::int64_t i = 0; i < graph.get_execution_plan_count() && plans.size() < wanted; ++i) {
    if (auto status = graph.build_plan_at_index(i); status.is_good()) {
      plans.push_back(i);
    } else {
      why = status.get_message();
    }
  }
  if (plans.empty()) return why;
  made.plan = plans.size() > 1 ? fastest(s, handle, made, plans) : plans[0];
  if (auto status = graph.get_workspace_size_plan_at_index(made.plan, made.workspace); status.is_bad()) {
    return status.get_message();
  }
  return {};
}

/// The first that cuDNN takes. Its engines that are compiled at run time take most of what is first here; where none
/// does, a bfloat16 gradient of weights is rounded to bfloat16 at its end, as all of its images are.
std::vector<Attempt> attempts(const TroupeCudaConvShape& s) {
  const DataType_t type = image_type(s);
  if (finishes(s)) return {{true, type}, {false, type}};
  if (s.pass == kWeightGrad && s.bf16) return {{false, DataType_t::FLOAT}, {false, type}};
  return {{false, type}};
}

ShapeKey key_of(const TroupeCudaConvShape& s) {
  return {s.pass,   s.batch,   s.height, s.width,      s.in,   s.kernel_h, s.kernel_w, s.out,
          s.stride, s.padding, s.bias,   s.activation, s.bf16, s.tf32,     s.measured};
}

std::size_t aligned(std::size_t bytes) { return (bytes + 255) / 256 * 256; }

cudaError_t prepare(TroupeCudaConv& conv) {
  const TroupeCudaConvShape& s = conv.shape;
  if (const cudaError_t error = troupe_cuda::share_handle(&conv.handle)) return error;
  const std::lock_guard lock(conv.handle->mutex);
  std::weak_ptr<const Planned>& known = conv.handle->planned[key_of(s)];
  conv.planned = known.lock();
  std::string why;
  for (const Attempt& attempt : attempts(s)) {
    if (conv.planned) break;
    auto made = std::make_shared<Planned>();
    why = build(s, attempt, *conv.handle, *made);
    if (why.empty()) known = conv.planned = std::move(made);
  }
  if (!conv.planned) {
    constexpr const char* kPasses[] = {"forward", "input gradient", "weight gradient"};
    return library_failed(
        "cuDNN %zu: no %s convolution of %s [%lld, %lld, %lld, %lld] with [%lld, %lld, %lld, %lld], stride %lld, "
        "padding %lld: %s",
        cudnnGetVersion(), kPasses[s.pass],
        s.bf16   ? "bfloat16"
        : s.tf32 ? "TF32"
                 : "float32",
        static_cast<long long>(s.batch), static_cast<long long>(s.height), static_cast<long long>(s.width),
        static_cast<long long>(s.in), static_cast<long long>(s.kernel_h), static_cast<long long>(s.kernel_w),
        static_cast<long long>(s.in), static_cast<long long>(s.out), static_cast<long long>(s.stride),
        static_cast<long long>(s.padding), why.c_str());
  }
  if (s.pass == kWeightGrad) {
    const std::size_t element = conv.planned->done.result == DataType_t::FLOAT ? 4 : 2;
    conv.gradient_bytes = aligned(static_cast<std::size_t>(s.out * s.kernel_h * s.kernel_w * s.in) * element);
  }
  conv.workspace = conv.gradient_bytes + static_cast<std::size_t>(conv.planned->workspace);
  return cudaSuccess;
}

cudaError_t execute(const TroupeCudaConv& conv, const void* a, const void* b, const float* bias, void* c,
                    void* workspace, cudaStream_t stream) {
  // The map has pointers to what could be written; only c is.
  Operands operands = {{kA, const_cast<void*>(a)}, {kB, const_cast<void*>(b)}, {kC, c}};
  if (conv.planned->done.finish && conv.shape.bias) operands.emplace(kBias, const_cast<float*>(bias));
  const std::lock_guard lock(conv.handle->mutex);
  return execute(*conv.handle, *conv.planned, conv.planned->plan, operands, workspace, stream);
}

/// f(), and whatever it throws as an error: the front end is C++ and the table is C.
template <typename F>
cudaError_t guarded(F f) {
  try {
    return f();
  } catch (const std::exception& error) {
    return library_failed("cuDNN: %s", error.what());
  }
}

}  // namespace

namespace troupe_cuda {

cudaError_t make_conv(const TroupeCudaConvShape& shape, TroupeCudaConv** conv) {
  return guarded([&] {
    auto made = std::make_unique<TroupeCudaConv>();
    made->shape = shape;
    const cudaError_t error = prepare(*made);
    if (error == cudaSuccess) *conv = made.release();
    return error;
  });
}

void destroy_conv(TroupeCudaConv* conv) { delete conv; }

std::size_t conv_workspace(const TroupeCudaConv& conv) { return conv.workspace; }

cudaError_t run_conv(const TroupeCudaConv& conv, const void* a, const void* b, const float* bias, void* c,
                     void* workspace, cudaStream_t stream) {
  const TroupeCudaConvShape& s = conv.shape;
  const bool weight = s.pass == kWeightGrad;
  void* const result = weight ? workspace : c;
  void* const scratch = static_cast<char*>(workspace) + conv.gradient_bytes;
  if (const cudaError_t error = guarded([&] { return execute(conv, a, b, bias, result, scratch, stream); })) {
    return error;
  }
  if (weight) {
    return transpose_gradient(result, conv.planned->done.result != DataType_t::FLOAT, static_cast<float*>(c), s.out,
                              s.kernel_h * s.kernel_w * s.in, stream);
  }
  if (!finishes(s) || conv.planned->done.finish) return cudaSuccess;
  return finish_forward(c, s.bf16 != 0, s.bias ? bias : nullptr, s.activation, s.batch * out_height(s) * out_width(s),
                        s.out, stream);
}

}  // namespace troupe_cuda
