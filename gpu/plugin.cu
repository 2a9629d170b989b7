// The CUDA plug-in: the table of api.h over the CUDA runtime and the kernels of this folder.
#include <cuda_runtime.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <vector>

#include <troupe/gpu/api.h>
#include <troupe/gpu/kernels/chain.hpp>
#include <troupe/gpu/kernels/kernel.hpp>
#include <troupe/gpu/kernels/library_error.hpp>
#include <troupe/gpu/kernels/product.hpp>
#include <troupe/gpu/kernels/replay.hpp>
#include <troupe/gpu/kernels/update.hpp>

namespace {

using troupe_cuda::Kernel;
using troupe_cuda::told;

cudaStream_t of(TroupeCudaStream* stream) { return reinterpret_cast<cudaStream_t>(stream); }
cudaEvent_t of(TroupeCudaEvent* event) { return reinterpret_cast<cudaEvent_t>(event); }
cudaGraphExec_t of(TroupeCudaGraph* graph) { return reinterpret_cast<cudaGraphExec_t>(graph); }
const Kernel& of(const TroupeCudaKernel* kernel) { return *reinterpret_cast<const Kernel*>(kernel); }

// ---- what there is ----

const char* error_text(int error) {
  if (error == TROUPE_CUDA_LIBRARY_ERROR) return "an error of a library, see library_error()";
  return cudaGetErrorString(static_cast<cudaError_t>(error));
}
int32_t is_lost(int error) {
  switch (error) {
    // A kernel did what it may not, or took too long: "the process must be terminated and relaunched".
    case cudaErrorIllegalAddress:
    case cudaErrorLaunchTimeout:
    case cudaErrorAssert:
    case cudaErrorHardwareStackError:
    case cudaErrorIllegalInstruction:
    case cudaErrorMisalignedAddress:
    case cudaErrorInvalidAddressSpace:
    case cudaErrorInvalidPc:
    case cudaErrorLaunchFailure:
    case 721:  // cudaErrorTensorMemoryLeak, which older versions do not name
    // The hardware, or what stands between it and us. "Unknown" is what a GPU says that has fallen off the bus.
    case cudaErrorECCUncorrectable:
    case cudaErrorNvlinkUncorrectable:
    case 226:  // cudaErrorContained, as above
    case cudaErrorMpsClientTerminated:
    case cudaErrorExternalDevice:
    case cudaErrorUnknown:
      return 1;
    default:  // cudaErrorDevicesUnavailable too: who asks again may get the GPU, in the same process as well
      return 0;
  }
}
const char* library_error() { return troupe_cuda::library_error_text(); }
int driver_version(int* version) { return told(cudaDriverGetVersion(version)); }
int runtime_version(int* version) { return told(cudaRuntimeGetVersion(version)); }
int device_count(int* count) { return told(cudaGetDeviceCount(count)); }

int device(int index, TroupeCudaDevice* about) {
  cudaDeviceProp properties;
  if (const int error = told(cudaGetDeviceProperties(&properties, index))) return error;
  static_assert(sizeof(properties.name) == sizeof(about->name));
  std::memcpy(about->name, properties.name, sizeof(about->name));
  about->major = properties.major;
  about->minor = properties.minor;
  about->total_bytes = static_cast<int64_t>(properties.totalGlobalMem);
  return 0;
}

// The compiler tells its list as 800, 900, ...
constexpr auto kArchitectures = [] {
  std::array list = {__CUDA_ARCH_LIST__};
  for (int& each : list) each /= 10;
  return list;
}();
int architectures(const int32_t** list, int* count) {
  *list = kArchitectures.data();
  *count = static_cast<int>(kArchitectures.size());
  return 0;
}

int use_device(int index) { return told(cudaSetDevice(index)); }
int free_memory(size_t* bytes) {
  size_t total = 0;
  return told(cudaMemGetInfo(bytes, &total));
}

// ---- memory ----

int allocate(size_t bytes, void** memory) { return told(cudaMalloc(memory, bytes)); }
int release(void* memory) { return told(cudaFree(memory)); }
int allocate_host(size_t bytes, void** memory) { return told(cudaMallocHost(memory, bytes)); }
int release_host(void* memory) { return told(cudaFreeHost(memory)); }
int copy(void* to, const void* from, size_t bytes, TroupeCudaStream* stream) {
  return told(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, of(stream)));
}
int fill(void* to, int byte, size_t bytes, TroupeCudaStream* stream) {
  return told(cudaMemsetAsync(to, byte, bytes, of(stream)));
}

// ---- streams and events ----

// Non-blocking: no order with the default stream, on which libraries may work for themselves.
int make_stream(TroupeCudaStream** stream) {
  cudaStream_t made = nullptr;
  if (const int error = told(cudaStreamCreateWithFlags(&made, cudaStreamNonBlocking))) return error;
  *stream = reinterpret_cast<TroupeCudaStream*>(made);
  return 0;
}
int destroy_stream(TroupeCudaStream* stream) { return told(cudaStreamDestroy(of(stream))); }
int synchronise(TroupeCudaStream* stream) { return told(cudaStreamSynchronize(of(stream))); }

int make_event(TroupeCudaEvent** event) {
  cudaEvent_t made = nullptr;
  if (const int error = told(cudaEventCreateWithFlags(&made, cudaEventDisableTiming))) return error;
  *event = reinterpret_cast<TroupeCudaEvent*>(made);
  return 0;
}
int destroy_event(TroupeCudaEvent* event) { return told(cudaEventDestroy(of(event))); }
int record(TroupeCudaEvent* event, TroupeCudaStream* stream) { return told(cudaEventRecord(of(event), of(stream))); }
int wait(TroupeCudaStream* stream, TroupeCudaEvent* event) {
  return told(cudaStreamWaitEvent(of(stream), of(event), 0));
}
int finished(TroupeCudaEvent* event, int32_t* yes) {
  const int error = told(cudaEventQuery(of(event)));
  if (error != 0 && error != cudaErrorNotReady) return error;
  *yes = error == 0;
  return 0;
}
int await(TroupeCudaEvent* event) { return told(cudaEventSynchronize(of(event))); }

// ---- graphs ----

// Relaxed: while this thread records, other threads may allocate, and the libraries may load their code at its first
// use, which allocates too.
int begin_capture(TroupeCudaStream* stream) {
  return told(cudaStreamBeginCapture(of(stream), cudaStreamCaptureModeRelaxed));
}
int end_capture(TroupeCudaStream* stream, TroupeCudaGraph** graph) {
  cudaGraph_t recorded = nullptr;
  if (const int error = told(cudaStreamEndCapture(of(stream), &recorded))) return error;
  cudaGraphExec_t made = nullptr;
  const int error = told(cudaGraphInstantiate(&made, recorded, 0));
  (void)told(cudaGraphDestroy(recorded));  // it has been copied, or is of no use
  if (error == 0) *graph = reinterpret_cast<TroupeCudaGraph*>(made);
  return error;
}
int set_dependencies(TroupeCudaStream* stream, cudaGraphNode_t* nodes, std::size_t count) {
  return told(cudaStreamUpdateCaptureDependencies(of(stream), nodes, nullptr, count, cudaStreamSetCaptureDependencies));
}
int recorded_last(TroupeCudaStream* stream, TroupeCudaPoint** point) {
  cudaStreamCaptureStatus status;
  cudaGraph_t graph = nullptr;
  const cudaGraphNode_t* last = nullptr;
  const cudaGraphEdgeData* edges = nullptr;  // asked for, since otherwise an edge that has some would be an error
  std::size_t count = 0;
  if (const int error = told(cudaStreamGetCaptureInfo(of(stream), &status, nullptr, &graph, &last, &edges, &count))) {
    return error;
  }
  cudaGraphNode_t node = count > 0 ? last[0] : nullptr;
  if (count > 1) {  // one that does nothing stands for them all
    if (const int error = told(cudaGraphAddEmptyNode(&node, graph, last, count))) return error;
    if (const int error = set_dependencies(stream, &node, 1)) return error;
  }
  *point = reinterpret_cast<TroupeCudaPoint*>(node);
  return 0;
}
int record_after(TroupeCudaStream* stream, TroupeCudaPoint* const* points, int32_t count) {
  std::vector<cudaGraphNode_t> nodes;
  for (int32_t i = 0; i < count; ++i) {
    const auto node = reinterpret_cast<cudaGraphNode_t>(points[i]);
    if (node != nullptr && std::find(nodes.begin(), nodes.end(), node) == nodes.end()) nodes.push_back(node);
  }
  return set_dependencies(stream, nodes.data(), nodes.size());
}
int launch_graph(TroupeCudaGraph* graph, TroupeCudaStream* stream) {
  return told(cudaGraphLaunch(of(graph), of(stream)));
}
int destroy_graph(TroupeCudaGraph* graph) { return told(cudaGraphExecDestroy(of(graph))); }

// ---- kernels ----

const TroupeCudaKernel* find_kernel(const char* op) {
  using namespace troupe_cuda;
  for (const auto family : {elementwise_kernels(), math_kernels(), moving_kernels(), reduction_kernels(),
                            categorical_kernels(), image_kernels(), normalisation_kernels(), product_kernels()}) {
    if (const TroupeCudaKernel* const found = troupe_cuda::find_kernel(family, op)) return found;
  }
  return nullptr;
}
size_t workspace(const TroupeCudaKernel* kernel, const TroupeCudaCall* call) {
  return of(kernel).workspace == nullptr ? 0 : of(kernel).workspace(*call);
}
int launch(const TroupeCudaKernel* kernel, const TroupeCudaCall* call, TroupeCudaStream* stream) {
  return told(of(kernel).launch(*call, of(stream)));
}

int32_t can_chain(const TroupeCudaKernel* kernel, const TroupeCudaCall* call) {
  return troupe_cuda::can_chain(of(kernel), *call) ? 1 : 0;
}
int launch_chain(const TroupeCudaKernel* const* kernels, const TroupeCudaCall* const* calls, int32_t count,
                 TroupeCudaStream* stream) {
  return told(troupe_cuda::launch_chain(reinterpret_cast<const Kernel* const*>(kernels), calls, count, of(stream)));
}

int make_product(const TroupeCudaProductShape* shape, TroupeCudaProduct** product) {
  return told(troupe_cuda::make_product(*shape, product));
}

// ---- the end of a step ----

int sum_squares(const TroupeCudaSquares* parts, int32_t count, TroupeCudaStream* stream) {
  return told(troupe_cuda::sum_squares(parts, count, of(stream)));
}
int decide(const TroupeCudaGradient* gradients, int32_t count, TroupeCudaControl* control, TroupeCudaStream* stream) {
  return told(troupe_cuda::decide(gradients, count, control, of(stream)));
}
int lars_rate(const TroupeCudaLars* variable, float* rate, TroupeCudaStream* stream) {
  return told(troupe_cuda::lars_rate(*variable, rate, of(stream)));
}
int update(const TroupeCudaUpdate* parts, int32_t count, TroupeCudaStream* stream) {
  return told(troupe_cuda::update(parts, count, of(stream)));
}
int keep_length(const TroupeCudaKept* parts, int32_t count, TroupeCudaStream* stream) {
  return told(troupe_cuda::keep_length(parts, count, of(stream)));
}
int follow(const float* values, float* average, uint16_t* shadow, double decay, int64_t count, const int32_t* due,
           const TroupeCudaControl* control, TroupeCudaStream* stream) {
  return told(troupe_cuda::follow(values, average, shadow, decay, count, due, control, of(stream)));
}
int assign(const TroupeCudaAssign* parts, int32_t count, const TroupeCudaControl* control, TroupeCudaStream* stream) {
  return told(troupe_cuda::assign(parts, count, control, of(stream)));
}
int accumulate(float* gradient, float* sum, int64_t count, float weight, float share, int32_t last,
               TroupeCudaStream* stream) {
  return told(troupe_cuda::accumulate(gradient, sum, count, weight, share, last, of(stream)));
}
int to_bf16(const float* from, uint16_t* to, int64_t count, TroupeCudaStream* stream) {
  return told(troupe_cuda::to_bf16(from, to, count, of(stream)));
}

// ---- replay ----

int replay_insert(const TroupeCudaReplay* table, const TroupeCudaReplayItem* items, int64_t first, int64_t count,
                  int64_t present, TroupeCudaStream* stream) {
  return told(troupe_cuda::replay_insert(*table, items, first, count, present, of(stream)));
}
int replay_draw(const TroupeCudaReplay* table, const TroupeCudaDraws* draws, int64_t rows,
                const TroupeCudaReplayColumn* columns, int32_t column_count, float* weights, double importance_exponent,
                TroupeCudaStream* stream) {
  return told(
      troupe_cuda::replay_draw(*table, *draws, rows, columns, column_count, weights, importance_exponent, of(stream)));
}
int replay_update(const TroupeCudaReplay* table, const uint32_t* slots, const int32_t* last, const void* priorities,
                  int32_t dtype, int64_t count, const TroupeCudaControl* control, TroupeCudaStream* stream) {
  return told(troupe_cuda::replay_update(*table, slots, last, priorities, dtype, count, control, of(stream)));
}

constexpr TroupeCudaApi kApi = {
    .abi = TROUPE_CUDA_ABI,
    .error_text = error_text,
    .is_lost = is_lost,
    .library_error = library_error,
    .driver_version = driver_version,
    .runtime_version = runtime_version,
    .device_count = device_count,
    .device = device,
    .architectures = architectures,
    .use_device = use_device,
    .free_memory = free_memory,
    .allocate = allocate,
    .release = release,
    .allocate_host = allocate_host,
    .release_host = release_host,
    .copy = copy,
    .fill = fill,
    .make_stream = make_stream,
    .destroy_stream = destroy_stream,
    .synchronise = synchronise,
    .make_event = make_event,
    .destroy_event = destroy_event,
    .record = record,
    .wait = wait,
    .finished = finished,
    .await = await,
    .begin_capture = begin_capture,
    .end_capture = end_capture,
    .recorded_last = recorded_last,
    .record_after = record_after,
    .launch_graph = launch_graph,
    .destroy_graph = destroy_graph,
    .find_kernel = find_kernel,
    .workspace = workspace,
    .launch = launch,
    .can_chain = can_chain,
    .launch_chain = launch_chain,
    .make_product = make_product,
    .destroy_product = troupe_cuda::destroy_product,
    .sum_squares = sum_squares,
    .decide = decide,
    .lars_rate = lars_rate,
    .update = update,
    .keep_length = keep_length,
    .follow = follow,
    .assign = assign,
    .accumulate = accumulate,
    .to_bf16 = to_bf16,
    .replay_insert = replay_insert,
    .replay_draw = replay_draw,
    .replay_update = replay_update,
};

}  // namespace

extern "C" __attribute__((visibility("default"))) const TroupeCudaApi* troupe_cuda_api(void) { return &kApi; }
