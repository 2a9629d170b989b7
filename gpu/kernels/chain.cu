#include <troupe/gpu/kernels/activation.hpp>
#include <troupe/gpu/kernels/chain.hpp>
#include <troupe/gpu/kernels/functions.hpp>
#include <troupe/gpu/kernels/launch.hpp>
#include <troupe/gpu/kernels/operands.hpp>

namespace troupe_cuda {

namespace {

constexpr int kMostInputs = 3;

struct Link {
  Function function;
  std::int32_t kind;  // of an activation, or what else integer[0] says
  float real[2];
  const float* in[kMostInputs];    // null: there is none, or it is the result of an earlier link
  std::int32_t from[kMostInputs];  // which one, or -1
  float* out;
};
struct Chain {
  std::int32_t count;
  Link links[TROUPE_CUDA_MAX_CHAIN];
};

__device__ float value(const Link& link, float a, float b, float c) {
  switch (link.function) {
    case Function::kAdd:
      return Add{}(a, b);
    case Function::kSub:
      return Sub{}(a, b);
    case Function::kMul:
      return Mul{link.real[0]}(a, b);
    case Function::kAffine:
      return Affine{link.real[0], link.real[1]}(a);
    case Function::kClip:
      return Clip{link.real[0], link.real[1]}(a);
    case Function::kClipGrad:
      return ClipGrad{link.real[0], link.real[1]}(a, b);
    case Function::kActivation:
      return by_activation(link.kind, [&](auto of) { return decltype(of)::forward(a); });
    case Function::kAddActivation:
      return by_activation(link.kind, [&](auto of) { return decltype(of)::forward(a + b); });
    case Function::kActivationGrad:
      return by_activation(link.kind, [&](auto of) { return decltype(of)::backward(a, b); });
    case Function::kExp:
      return Exp{}(a);
    case Function::kLog:
      return Log{}(a);
    case Function::kSqrt:
      return Sqrt{}(a);
    case Function::kAbs:
      return Abs{}(a);
    case Function::kSign:
      return Sign{}(a);
    case Function::kSoftplus:
      return Softplus{}(a);
    case Function::kDiv:
      return Div{}(a, b);
    case Function::kMinimum:
      return Minimum{}(a, b);
    case Function::kMaximum:
      return Maximum{}(a, b);
    case Function::kGreater:
      return Greater{link.real[0]}(a, b);
    case Function::kWhere:
      return Where{}(a, b, c);
    case Function::kKeepWhere:
      return KeepWhere{link.kind != 0}(a, b);
    case Function::kNone:
      break;
  }
  return a;
}

__global__ void chain_kernel(std::int64_t count, Chain chain) {
  const std::int64_t stride = std::int64_t{gridDim.x} * blockDim.x;
  for (std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < count; i += stride) {
    float results[TROUPE_CUDA_MAX_CHAIN];
    for (std::int32_t l = 0; l < chain.count; ++l) {
      const Link& link = chain.links[l];
      float in[kMostInputs];
      for (int k = 0; k < kMostInputs; ++k) {
        in[k] = link.from[k] >= 0 ? results[link.from[k]] : link.in[k] != nullptr ? link.in[k][i] : 0;
      }
      results[l] = value(link, in[0], in[1], in[2]);
      link.out[i] = results[l];
    }
  }
}

}  // namespace

bool can_chain(const Kernel& kernel, const Call& call) {
  if (kernel.function == Function::kNone || !all_f32(call, -1)) return false;
  if (call.inputs > kMostInputs || call.outputs != 1 || call.out[0].data == nullptr) return false;
  if (kernel.function == Function::kActivation && call.integer[1] != 0) return false;  // with a bias
  for (int i = 0; i < call.inputs; ++i) {
    if (call.in[i].data == nullptr || elements(call.in[i]) != elements(call.out[0])) return false;
  }
  return true;
}

cudaError_t launch_chain(const Kernel* const* kernels, const Call* const* calls, std::int32_t count,
                         cudaStream_t stream) {
  if (count < 1 || count > TROUPE_CUDA_MAX_CHAIN) return cudaErrorInvalidValue;
  Chain chain{.count = count, .links = {}};
  const std::int64_t size = elements(calls[0]->out[0]);
  for (std::int32_t l = 0; l < count; ++l) {
    const Call& call = *calls[l];
    if (!can_chain(*kernels[l], call) || elements(call.out[0]) != size) return cudaErrorInvalidValue;
    Link& link = chain.links[l];
    link = {.function = kernels[l]->function,
            .kind = static_cast<std::int32_t>(call.integer[0]),
            .real = {static_cast<float>(call.real[0]), static_cast<float>(call.real[1])},
            .in = {},
            .from = {-1, -1, -1},
            .out = data<float>(call.out[0])};
    for (int k = 0; k < call.inputs; ++k) {
      link.in[k] = data<const float>(call.in[k]);
      for (std::int32_t earlier = 0; earlier < l; ++earlier) {  // the last one that wrote there
        if (chain.links[earlier].out == link.in[k]) link.from[k] = earlier;
      }
    }
  }
  return size == 0 ? cudaSuccess : launch(chain_kernel, blocks_for(size), kThreads, stream, size, chain);
}

}  // namespace troupe_cuda
