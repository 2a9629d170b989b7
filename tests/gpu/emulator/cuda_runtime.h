#pragma once
// What the sources of the CUDA plug-in use of the CUDA runtime, for a device that is emulated on the host: the plug-in
// is compiled by the C++ compiler against this header instead of CUDA's, and so tested where there is no GPU. Found as
// <cuda_runtime.h>; names and error numbers are CUDA's.
//
// It is as strict as the real one may be, because finding mistakes is its purpose:
// - What is put on a stream runs when somebody waits for it, and no sooner; an event query runs one operation. Order
//   between streams comes from events alone.
// - Device memory starts as 0xff bytes (NaN), lies between guards, and cannot be touched but by the device's own work:
//   the host, or the kernels of another device, crash there. What is written after its release is found out.
// - While a stream is captured, nothing runs, and what CUDA forbids then is refused and spoils the capture.
// - Barriers that not all threads reach, and shuffles that miss lanes, fail.
// - After a failed kernel every call on that device fails.
// Why something failed stands in emulator.h's fault(). Blocks run one after another and threads as fibers (fibers.hpp).
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <type_traits>
#include <utility>

#define __global__
#define __device__
#define __host__
#define __shared__ static  // right because one block runs at a time
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __CUDA_ARCH_LIST__ 800, 900

// ---- errors ----

enum cudaError_t : int {
  cudaSuccess = 0,
  cudaErrorInvalidValue = 1,
  cudaErrorMemoryAllocation = 2,
  cudaErrorInvalidConfiguration = 9,
  cudaErrorInvalidMemcpyDirection = 21,
  cudaErrorInsufficientDriver = 35,
  cudaErrorNoDevice = 100,
  cudaErrorInvalidDevice = 101,
  cudaErrorECCUncorrectable = 214,
  cudaErrorNvlinkUncorrectable = 220,
  cudaErrorIllegalState = 401,
  cudaErrorInvalidResourceHandle = 400,
  cudaErrorNotReady = 600,
  cudaErrorIllegalAddress = 700,
  cudaErrorLaunchTimeout = 702,
  cudaErrorAssert = 710,
  cudaErrorHardwareStackError = 714,
  cudaErrorIllegalInstruction = 715,
  cudaErrorMisalignedAddress = 716,
  cudaErrorInvalidAddressSpace = 717,
  cudaErrorInvalidPc = 718,
  cudaErrorLaunchFailure = 719,
  cudaErrorMpsClientTerminated = 810,
  cudaErrorStreamCaptureUnsupported = 900,
  cudaErrorStreamCaptureInvalidated = 901,
  cudaErrorStreamCaptureUnmatched = 903,
  cudaErrorStreamCaptureWrongThread = 908,
  cudaErrorExternalDevice = 911,
  cudaErrorUnknown = 999,
};
const char* cudaGetErrorString(cudaError_t error);
/// Of this thread's calls; reading forgets it unless the device has failed for good.
cudaError_t cudaGetLastError();
cudaError_t cudaPeekAtLastError();

// ---- devices ----

struct cudaDeviceProp {
  char name[256];
  std::size_t totalGlobalMem;
  int major, minor;
  int multiProcessorCount;
  int warpSize;
};
cudaError_t cudaDriverGetVersion(int* version);
cudaError_t cudaRuntimeGetVersion(int* version);
cudaError_t cudaGetDeviceCount(int* count);
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* about, int device);
cudaError_t cudaSetDevice(int device);
cudaError_t cudaGetDevice(int* device);
cudaError_t cudaDeviceSynchronize();

// ---- memory ----

cudaError_t cudaMemGetInfo(std::size_t* free, std::size_t* total);
cudaError_t cudaMalloc(void** memory, std::size_t bytes);
cudaError_t cudaFree(void* memory);
cudaError_t cudaMallocHost(void** memory, std::size_t bytes);
cudaError_t cudaFreeHost(void* memory);
constexpr unsigned cudaHostAllocDefault = 0;
cudaError_t cudaHostAlloc(void** memory, std::size_t bytes, unsigned flags);
template <typename T>
cudaError_t cudaMalloc(T** memory, std::size_t bytes) {
  return cudaMalloc(reinterpret_cast<void**>(memory), bytes);
}

enum cudaMemcpyKind : int {
  cudaMemcpyHostToHost = 0,
  cudaMemcpyHostToDevice = 1,
  cudaMemcpyDeviceToHost = 2,
  cudaMemcpyDeviceToDevice = 3,
  cudaMemcpyDefault = 4,
};

// ---- streams, events and graphs ----

using cudaStream_t = struct CUstream_st*;
using cudaEvent_t = struct CUevent_st*;
using cudaGraph_t = struct CUgraph_st*;
using cudaGraphNode_t = struct CUgraphNode_st*;
using cudaGraphExec_t = struct CUgraphExec_st*;

/// As CUDA does: memory of the host that is not pinned is read before this returns, and has been written.
cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind, cudaStream_t stream);
cudaError_t cudaMemsetAsync(void* to, int byte, std::size_t bytes, cudaStream_t stream);

constexpr unsigned cudaStreamDefault = 0, cudaStreamNonBlocking = 1;
cudaError_t cudaStreamCreate(cudaStream_t* stream);
cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags);
cudaError_t cudaStreamDestroy(cudaStream_t stream);
cudaError_t cudaStreamSynchronize(cudaStream_t stream);
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags = 0);

constexpr unsigned cudaEventDefault = 0, cudaEventBlockingSync = 1, cudaEventDisableTiming = 2;
cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags);
cudaError_t cudaEventDestroy(cudaEvent_t event);
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream);
cudaError_t cudaEventQuery(cudaEvent_t event);
cudaError_t cudaEventSynchronize(cudaEvent_t event);

enum cudaStreamCaptureMode : int {
  cudaStreamCaptureModeGlobal = 0,
  cudaStreamCaptureModeThreadLocal = 1,
  cudaStreamCaptureModeRelaxed = 2,
};
cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode mode);
cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph);
enum cudaStreamCaptureStatus : int {
  cudaStreamCaptureStatusNone = 0,
  cudaStreamCaptureStatusActive = 1,
  cudaStreamCaptureStatusInvalidated = 2,
};
struct cudaGraphEdgeData {};
cudaError_t cudaStreamGetCaptureInfo(cudaStream_t stream, cudaStreamCaptureStatus* status, unsigned long long* id,
                                     cudaGraph_t* graph, const cudaGraphNode_t** last, const cudaGraphEdgeData** edges,
                                     std::size_t* count);
constexpr unsigned cudaStreamSetCaptureDependencies = 1;
/// Only to set them.
cudaError_t cudaStreamUpdateCaptureDependencies(cudaStream_t stream, cudaGraphNode_t* nodes,
                                                const cudaGraphEdgeData* edges, std::size_t count, unsigned flags);
/// Only of a graph that is being recorded.
cudaError_t cudaGraphAddEmptyNode(cudaGraphNode_t* node, cudaGraph_t graph, const cudaGraphNode_t* after,
                                  std::size_t count);
cudaError_t cudaGraphInstantiate(cudaGraphExec_t* exec, cudaGraph_t graph, unsigned long long flags = 0);
cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t stream);
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec);
cudaError_t cudaGraphDestroy(cudaGraph_t graph);

// ---- kernels ----

struct uint3 {
  unsigned x, y, z;
};
struct dim3 {
  unsigned x, y, z;
  constexpr dim3(unsigned x = 1, unsigned y = 1, unsigned z = 1) : x(x), y(y), z(z) {}
};
extern uint3 threadIdx, blockIdx;
extern dim3 blockDim, gridDim;

namespace troupe_emulator {

cudaError_t launch(dim3 blocks, dim3 threads, cudaStream_t stream, std::function<void()> thread);

/// Where in the kernel's source a thread waits.
struct Site {
  const char* file;
  int line;
};
void block_barrier(Site site);
void warp_barrier(unsigned mask, Site site);
/// Of the lanes in `mask`, all of which must come here: the 8 bytes that lane `from` has brought.
std::uint64_t exchange(unsigned mask, std::uint64_t value, unsigned from, Site site);
unsigned lane();

/// from: of the lane, among `width` lanes of which `lane` is one.
template <typename T>
T shuffle(unsigned mask, T value, unsigned from, Site site) {
  static_assert(std::is_arithmetic_v<T> && sizeof(T) <= 8);
  std::uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof(value));
  bits = exchange(mask, bits, from, site);
  std::memcpy(&value, &bits, sizeof(value));
  return value;
}

}  // namespace troupe_emulator

/// Each thread of the grid calls thread(). What launch() of launch.hpp uses without nvcc.
template <typename F>
cudaError_t emulated_launch(dim3 blocks, dim3 threads, cudaStream_t stream, F thread) {
  return troupe_emulator::launch(blocks, threads, stream, std::move(thread));
}

inline void __syncthreads(const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
  troupe_emulator::block_barrier({file, line});
}
inline void __syncwarp(unsigned mask = 0xffffffffU, const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
  troupe_emulator::warp_barrier(mask, {file, line});
}
template <typename T>
T __shfl_sync(unsigned mask, T value, int from, int width = 32, const char* file = __builtin_FILE(),
              int line = __builtin_LINE()) {
  const unsigned lane = troupe_emulator::lane(), part = static_cast<unsigned>(width);
  return troupe_emulator::shuffle(mask, value, lane / part * part + static_cast<unsigned>(from) % part, {file, line});
}
template <typename T>
T __shfl_xor_sync(unsigned mask, T value, int lanes, int width = 32, const char* file = __builtin_FILE(),
                  int line = __builtin_LINE()) {
  const unsigned lane = troupe_emulator::lane(), part = static_cast<unsigned>(width);
  const unsigned from = lane ^ static_cast<unsigned>(lanes);  // a later part's lane: one's own value
  return troupe_emulator::shuffle(mask, value, from / part > lane / part ? lane : from, {file, line});
}
template <typename T>
T __shfl_down_sync(unsigned mask, T value, unsigned lanes, int width = 32, const char* file = __builtin_FILE(),
                   int line = __builtin_LINE()) {
  const unsigned lane = troupe_emulator::lane(), part = static_cast<unsigned>(width);
  return troupe_emulator::shuffle(mask, value, lane % part + lanes < part ? lane + lanes : lane, {file, line});
}
template <typename T>
T __shfl_up_sync(unsigned mask, T value, unsigned lanes, int width = 32, const char* file = __builtin_FILE(),
                 int line = __builtin_LINE()) {
  const unsigned lane = troupe_emulator::lane(), part = static_cast<unsigned>(width);
  return troupe_emulator::shuffle(mask, value, lane % part >= lanes ? lane - lanes : lane, {file, line});
}

inline float rsqrtf(float x) { return 1 / std::sqrt(x); }
/// Rounded, where the compiler could otherwise make one operation of it and a sum behind it.
inline double __dmul_rn(double x, double y) { return x * y; }
inline float __fmul_rn(float x, float y) { return x * y; }
