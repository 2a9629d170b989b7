// The rules of the emulated device: that it finds the mistakes it is there to find, and runs what is right.
#include <cuda_runtime.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <set>
#include <thread>
#include <vector>

#include <troupe/tests/gpu/emulator/emulator.h>
#include <troupe/gpu/kernels/launch.hpp>
#include <troupe/gpu/kernels/reduce.hpp>

namespace troupe_cuda {
namespace {

using testing::Each;
using testing::HasSubstr;

class EmulatedDevice : public testing::Test {
 protected:
  void SetUp() override {
    emulator_.reset();
    ASSERT_EQ(cudaSetDevice(0), cudaSuccess);
    ASSERT_EQ(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), cudaSuccess);
  }
  void TearDown() override {
    emulator_.reset();
    for (void* memory : memory_) EXPECT_EQ(cudaFree(memory), cudaSuccess);
    for (void* memory : pinned_) EXPECT_EQ(cudaFreeHost(memory), cudaSuccess);
    EXPECT_EQ(cudaStreamDestroy(stream_), cudaSuccess);
    EXPECT_EQ(emulator_.alive(), 0);
  }

  template <typename T>
  T* device(std::size_t count) {
    void* memory = nullptr;
    EXPECT_EQ(cudaMalloc(&memory, count * sizeof(T)), cudaSuccess);
    memory_.push_back(memory);
    return static_cast<T*>(memory);
  }
  template <typename T>
  T* pinned(std::size_t count) {
    void* memory = nullptr;
    EXPECT_EQ(cudaMallocHost(&memory, count * sizeof(T)), cudaSuccess);
    pinned_.push_back(memory);
    return static_cast<T*>(memory);
  }
  cudaError_t copy(void* to, const void* from, std::size_t bytes) {
    return cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, stream_);
  }
  template <typename T>
  std::vector<T> read(const T* from, std::size_t count) {
    std::vector<T> values(count);
    EXPECT_EQ(copy(values.data(), from, count * sizeof(T)), cudaSuccess) << emulator_.fault();
    return values;
  }
  cudaError_t wait() { return cudaStreamSynchronize(stream_); }

  const TroupeEmulator& emulator_ = *troupe_cuda_emulator();
  cudaStream_t stream_ = nullptr;
  std::vector<void*> memory_, pinned_;
};

// ---- streams ----

TEST_F(EmulatedDevice, WorkRunsOnlyWhenSomebodyWaitsForIt) {
  int* const memory = device<int>(1);
  int* const host = pinned<int>(1);
  *host = 7;
  ASSERT_EQ(cudaMemsetAsync(memory, 0, sizeof(int), stream_), cudaSuccess);
  ASSERT_EQ(copy(host, memory, sizeof(int)), cudaSuccess);
  EXPECT_EQ(*host, 7);
  ASSERT_EQ(wait(), cudaSuccess);
  EXPECT_EQ(*host, 0);
}

TEST_F(EmulatedDevice, AskingAnEventLetsWorkGoOn) {
  int* const memory = device<int>(1);
  cudaEvent_t event = nullptr;
  ASSERT_EQ(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), cudaSuccess);
  EXPECT_EQ(cudaEventQuery(event), cudaSuccess) << "what was never recorded is done";
  ASSERT_EQ(cudaMemsetAsync(memory, 0, sizeof(int), stream_), cudaSuccess);
  ASSERT_EQ(cudaEventRecord(event, stream_), cudaSuccess);
  EXPECT_EQ(cudaEventQuery(event), cudaErrorNotReady);
  EXPECT_EQ(cudaEventQuery(event), cudaErrorNotReady);
  EXPECT_EQ(cudaEventQuery(event), cudaSuccess);
  EXPECT_EQ(cudaEventDestroy(event), cudaSuccess);
}

TEST_F(EmulatedDevice, StreamsWaitForEachOtherByEventsAlone) {
  int* const memory = device<int>(1);
  int* const host = pinned<int>(2);
  cudaStream_t other = nullptr;
  cudaEvent_t event = nullptr;
  ASSERT_EQ(cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking), cudaSuccess);
  ASSERT_EQ(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), cudaSuccess);
  ASSERT_EQ(cudaMemsetAsync(memory, 0, sizeof(int), other), cudaSuccess);
  ASSERT_EQ(cudaEventRecord(event, other), cudaSuccess);
  ASSERT_EQ(copy(&host[0], memory, sizeof(int)), cudaSuccess);
  ASSERT_EQ(wait(), cudaSuccess);
  EXPECT_EQ(host[0], -1) << "read before it was written";
  ASSERT_EQ(cudaStreamWaitEvent(stream_, event), cudaSuccess);
  ASSERT_EQ(copy(&host[1], memory, sizeof(int)), cudaSuccess);
  ASSERT_EQ(wait(), cudaSuccess);
  EXPECT_EQ(host[1], 0);
  EXPECT_EQ(cudaEventDestroy(event), cudaSuccess);
  EXPECT_EQ(cudaStreamDestroy(other), cudaSuccess);
}

TEST_F(EmulatedDevice, MemoryThatIsNotPinnedIsCopiedBeforeTheCallReturns) {
  int* const memory = device<int>(1);
  int value = 5;
  ASSERT_EQ(copy(memory, &value, sizeof(int)), cudaSuccess);
  value = 6;
  EXPECT_THAT(read(memory, 1), Each(5));
  int* const host = pinned<int>(1);
  *host = 5;
  ASSERT_EQ(copy(memory, host, sizeof(int)), cudaSuccess);
  *host = 6;
  EXPECT_THAT(read(memory, 1), Each(6)) << "pinned memory is read when the copy runs";
}

TEST_F(EmulatedDevice, StreamsBelongToTheirDevice) {
  float* const memory = device<float>(4);
  ASSERT_EQ(cudaSetDevice(1), cudaSuccess);
  EXPECT_EQ(for_each(stream_, 4, [=](std::int64_t i) { memory[i] = 0; }), cudaErrorInvalidResourceHandle);
  EXPECT_THAT(emulator_.fault(), HasSubstr("stream of device 0, but device 1"));
  cudaEvent_t event = nullptr;
  ASSERT_EQ(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), cudaSuccess);
  EXPECT_EQ(cudaEventRecord(event, stream_), cudaErrorInvalidResourceHandle);
  EXPECT_EQ(cudaEventDestroy(event), cudaSuccess);
  EXPECT_EQ(for_each(nullptr, 4, [=](std::int64_t i) { memory[i] = 0; }), cudaErrorInvalidResourceHandle);
}

// ---- memory ----

TEST_F(EmulatedDevice, MemoryStartsAsNoNumber) {
  EXPECT_THAT(read(device<float>(100), 100), Each(testing::NanSensitiveFloatEq(NAN)));
}

TEST_F(EmulatedDevice, HostCannotTouchDeviceMemory) {
  int* const memory = device<int>(1);
  EXPECT_DEATH(*static_cast<volatile int*>(memory) = 1, "");
  EXPECT_DEATH(
      {
        cudaMemsetAsync(memory, 0, sizeof(int), stream_);
        wait();
        std::exit(*static_cast<volatile int*>(memory));
      },
      "");
}

TEST_F(EmulatedDevice, KernelsCannotTouchAnotherDevice) {
  float* const memory = device<float>(4);
  EXPECT_DEATH(
      {
        cudaSetDevice(1);
        cudaStream_t other = nullptr;
        cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking);
        for_each(other, 4, [=](std::int64_t i) { memory[i] = 0; });
        cudaStreamSynchronize(other);
      },
      "");
}

TEST_F(EmulatedDevice, WritingBesideAnAllocationIsFoundOut) {
  float* const memory = device<float>(3);
  for (const std::int64_t offset : {-1, 3}) {
    emulator_.reset();
    ASSERT_EQ(for_each(stream_, 1, [=](std::int64_t) { memory[offset] = 0; }), cudaSuccess);
    EXPECT_EQ(wait(), cudaErrorIllegalAddress);
    EXPECT_THAT(emulator_.fault(), HasSubstr(offset < 0 ? "before an allocation of 12 bytes" : "behind an allocation"));
    EXPECT_EQ(cudaMemsetAsync(memory, 0, 12, stream_), cudaErrorIllegalAddress) << "the device stays broken";
    emulator_.reset();
    ASSERT_EQ(for_each(stream_, 1, [=](std::int64_t) { std::memset(&memory[offset], 0xff, 4); }), cudaSuccess);
    ASSERT_EQ(wait(), cudaSuccess);
  }
}

TEST_F(EmulatedDevice, WritingToReleasedMemoryIsFoundOut) {
  void* memory = nullptr;
  ASSERT_EQ(cudaMalloc(&memory, 16), cudaSuccess);
  auto* const numbers = static_cast<float*>(memory);
  ASSERT_EQ(for_each(stream_, 4, [=](std::int64_t i) { numbers[i] = 1; }), cudaSuccess);
  ASSERT_EQ(cudaFree(memory), cudaSuccess);
  EXPECT_EQ(wait(), cudaErrorIllegalAddress);
  EXPECT_THAT(emulator_.fault(), HasSubstr("16 bytes after their release"));

  emulator_.reset();
  ASSERT_EQ(cudaMalloc(&memory, 16), cudaSuccess);
  ASSERT_EQ(cudaMemsetAsync(memory, 0, 16, stream_), cudaSuccess);
  ASSERT_EQ(cudaFree(memory), cudaSuccess);
  EXPECT_EQ(wait(), cudaErrorIllegalAddress);
  EXPECT_THAT(emulator_.fault(), HasSubstr("released since"));
  EXPECT_EQ(cudaFree(memory), cudaErrorInvalidValue) << "twice";
}

TEST_F(EmulatedDevice, CopiesBeyondAnAllocationAreRefused) {
  int* const memory = device<int>(4);
  int* const host = pinned<int>(2);
  std::array<int, 8> pageable{};
  EXPECT_EQ(copy(memory, pageable.data(), 5 * sizeof(int)), cudaErrorInvalidValue);
  EXPECT_EQ(copy(memory + 1, pageable.data(), 4 * sizeof(int)), cudaErrorInvalidValue);
  EXPECT_EQ(copy(pageable.data(), memory, 5 * sizeof(int)), cudaErrorInvalidValue);
  EXPECT_EQ(copy(host, memory, 3 * sizeof(int)), cudaErrorInvalidValue);
  EXPECT_EQ(cudaMemsetAsync(memory + 2, 0, 3 * sizeof(int), stream_), cudaErrorInvalidValue);
  EXPECT_EQ(cudaMemsetAsync(pageable.data(), 0, sizeof(int), stream_), cudaErrorInvalidValue);
  EXPECT_EQ(cudaMemcpyAsync(memory, host, 4, cudaMemcpyDeviceToHost, stream_), cudaErrorInvalidMemcpyDirection);
  EXPECT_EQ(copy(memory + 1, pageable.data(), 3 * sizeof(int)), cudaSuccess);
  EXPECT_EQ(wait(), cudaSuccess);
}

TEST_F(EmulatedDevice, HasOnlySoMuchMemory) {
  emulator_.set_memory(64 * 1024);
  std::size_t free = 0, total = 0;
  char* const memory = device<char>(40'000);
  void* more = &free;
  EXPECT_EQ(cudaMalloc(&more, 30'000), cudaErrorMemoryAllocation);
  EXPECT_EQ(more, &free);
  EXPECT_STREQ(cudaGetErrorString(cudaGetLastError()), "out of memory");
  EXPECT_EQ(cudaGetLastError(), cudaSuccess) << "reading forgets it";
  ASSERT_EQ(cudaMemGetInfo(&free, &total), cudaSuccess);
  EXPECT_EQ(total, 64U * 1024);
  EXPECT_EQ(free, 64U * 1024 - 40'192) << "whole 256 bytes";
  ASSERT_EQ(cudaFree(memory), cudaSuccess);
  memory_.clear();
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(device<char>(64 * 1024)) % 256, 0U);
  EXPECT_EQ(emulator_.allocations(), 2);
}

// ---- kernels ----

__global__ void count_threads(int* counts) {
  const unsigned block = (blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;
  const unsigned thread = (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;
  counts[block * (blockDim.x * blockDim.y * blockDim.z) + thread] = static_cast<int>(block);
}

TEST_F(EmulatedDevice, EveryThreadOfTheGridRunsOnce) {
  const dim3 blocks(3, 2, 2), threads(5, 3, 4);
  int* const counts = device<int>(12 * 60);
  ASSERT_EQ(launch(count_threads, blocks, threads, stream_, counts), cudaSuccess);
  const std::vector<int> got = read(counts, 12 * 60);
  for (std::size_t i = 0; i < got.size(); ++i) ASSERT_EQ(got[i], static_cast<int>(i / 60));
  EXPECT_EQ(emulator_.launches(), 1);
  EXPECT_EQ(emulator_.kernels(), 1);
  EXPECT_EQ(launch(count_threads, 1, 1025, stream_, counts), cudaErrorInvalidConfiguration);
  EXPECT_EQ(launch(count_threads, 0, 1, stream_, counts), cudaErrorInvalidConfiguration);
}

__global__ void sum_blocks(const double* x, double* sums) {
  const double first = block_sum(x[blockIdx.x * blockDim.x + threadIdx.x]);
  const double second = block_sum(first + threadIdx.x);
  if (threadIdx.x == blockDim.x - 1) {
    sums[2 * blockIdx.x] = first;
    sums[2 * blockIdx.x + 1] = second;
  }
}

TEST_F(EmulatedDevice, BlocksAddUpWhatTheirThreadsHave) {
  for (const unsigned threads : {32U, 256U, 1024U}) {
    std::vector<double> x(3 * threads);
    for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<double>(i);
    auto* const values = device<double>(x.size());
    auto* const sums = device<double>(6);
    ASSERT_EQ(copy(values, x.data(), x.size() * sizeof(double)), cudaSuccess);
    ASSERT_EQ(launch(sum_blocks, 3, threads, stream_, values, sums), cudaSuccess);
    const std::vector<double> got = read(sums, 6);
    for (unsigned block = 0; block < 3; ++block) {
      const double within = threads * (threads - 1) / 2.0;
      const double first = within + 1.0 * block * threads * threads;
      EXPECT_EQ(got[2 * block], first) << threads << " threads";
      EXPECT_EQ(got[2 * block + 1], first * threads + within) << threads << " threads";
    }
  }
}

__global__ void shuffle_lanes(int* out) {
  const int lane = static_cast<int>(threadIdx.x);
  out[lane] = __shfl_xor_sync(0xffffffffU, lane, 5);
  out[32 + lane] = __shfl_down_sync(0xffffffffU, lane, 3);
  out[64 + lane] = __shfl_sync(0xffffffffU, lane, 3, 8);
  out[96 + lane] = __shfl_up_sync(0xffffffffU, lane, 2, 16);
  const float half = lane % 2 == 0 ? __shfl_xor_sync(0x55555555U, 0.5F * static_cast<float>(lane), 2)
                                   : __shfl_xor_sync(0xaaaaaaaaU, -0.5F * static_cast<float>(lane), 2);
  __syncwarp();
  out[128 + lane] = static_cast<int>(2 * half);
}

TEST_F(EmulatedDevice, ShufflesTakeTheLanesThatCudaTakes) {
  int* const memory = device<int>(160);
  ASSERT_EQ(launch(shuffle_lanes, 1, 32, stream_, memory), cudaSuccess);
  const std::vector<int> got = read(memory, 160);
  for (int lane = 0; lane < 32; ++lane) {
    const auto at = static_cast<std::size_t>(lane);
    EXPECT_EQ(got[at], lane ^ 5);
    EXPECT_EQ(got[32 + at], lane + 3 < 32 ? lane + 3 : lane);
    EXPECT_EQ(got[64 + at], lane / 8 * 8 + 3);
    EXPECT_EQ(got[96 + at], lane % 16 < 2 ? lane : lane - 2);
    EXPECT_EQ(got[128 + at], (lane % 2 == 0 ? 1 : -1) * (lane ^ 2));
  }
}

__global__ void turn(const int* in, int* out, int barrier) {
  __shared__ int tile[256];
  tile[threadIdx.x] = in[blockIdx.x * 256 + threadIdx.x];
  if (barrier != 0) __syncthreads();
  out[blockIdx.x * 256 + threadIdx.x] = tile[255 - threadIdx.x];
}

TEST_F(EmulatedDevice, AMissingBarrierShows) {
  std::vector<int> x(512);
  for (int i = 0; i < 512; ++i) x[static_cast<std::size_t>(i)] = i;
  int* const in = device<int>(512);
  int* const out = device<int>(512);
  ASSERT_EQ(copy(in, x.data(), 512 * sizeof(int)), cudaSuccess);
  const auto wrong = [&] {
    const std::vector<int> got = read(out, 512);
    int count = 0;
    for (std::size_t i = 0; i < 512; ++i) count += got[i] != x[i / 256 * 256 + 255 - i % 256];
    return count;
  };
  ASSERT_EQ(launch(turn, 2, 256, stream_, in, out, 0), cudaSuccess);
  EXPECT_GT(wrong(), 0);
  ASSERT_EQ(launch(turn, 2, 256, stream_, in, out, 1), cudaSuccess);
  EXPECT_EQ(wrong(), 0);
}

// What thread 0 has written is seen by those behind it even without a barrier, unless they run first.
__global__ void tell(int* out, int value) {
  __shared__ int told;
  if (threadIdx.x == 0) told = value;
  out[threadIdx.x] = told;
}

TEST_F(EmulatedDevice, ThreadsRunInAnotherOrderTheNextTime) {
  int* const out = device<int>(64);
  int wrong = 0;
  for (int launches = 1; launches <= 2; ++launches) {
    ASSERT_EQ(launch(tell, 1, 64, stream_, out, 10 * launches), cudaSuccess);
    wrong += read(out, 64)[63] != 10 * launches;
  }
  EXPECT_EQ(wrong, 1);
}

__global__ void leave_some(int* out) {
  if (threadIdx.x >= 40) return;
  __syncthreads();
  out[threadIdx.x] = 1;
}
__global__ void part_ways(int* out) {
  if (threadIdx.x < 32) {
    __syncthreads();
  } else {
    __syncthreads();
  }
  out[threadIdx.x] = 1;
}
__global__ void lose_lanes(int* out) {
  if (threadIdx.x == 3) return;
  out[threadIdx.x] = __shfl_xor_sync(0xffffffffU, 1, 1);
}
__global__ void mix(int* out) {
  if (threadIdx.x == 3) {
    __syncthreads();
  } else {
    out[threadIdx.x] = __shfl_xor_sync(0xffffffffU, 1, 1);
  }
}

TEST_F(EmulatedDevice, BarriersThatThreadsMissFail) {
  struct Case {
    void (*kernel)(int*);
    unsigned threads;
    const char* what;
    const char* other;
  };
  const Case cases[] = {
      {leave_some, 64, "thread 0 waits in __syncthreads", "but thread 40 has ended"},
      {part_ways, 64, "thread 0 waits in __syncthreads", "but thread 32 waits in __syncthreads"},
      {lose_lanes, 32, "thread 0 waits for lanes 0xffffffff", "but thread 3 has ended"},
      {mix, 32, "thread 0 waits for lanes 0xffffffff", "but thread 3 waits in __syncthreads"},
      {lose_lanes, 2, "thread 0 waits for lanes 0xffffffff", "lanes are missing"},
  };
  int* const out = device<int>(64);
  for (const Case& c : cases) {
    emulator_.reset();
    ASSERT_EQ(launch(c.kernel, 1, c.threads, stream_, out), cudaSuccess);
    EXPECT_EQ(wait(), cudaErrorLaunchFailure);
    EXPECT_THAT(emulator_.fault(), HasSubstr(c.what));
    EXPECT_THAT(emulator_.fault(), HasSubstr(c.other));
    EXPECT_EQ(wait(), cudaErrorLaunchFailure) << "the device stays broken";
  }
  emulator_.reset();
  ASSERT_EQ(launch(shuffle_lanes, 1, 32, stream_, device<int>(160)), cudaSuccess);
  EXPECT_EQ(wait(), cudaSuccess) << "and is whole again after a reset";
}

// ---- graphs ----

TEST_F(EmulatedDevice, CaptureRecordsAndReplays) {
  float* const memory = device<float>(4);
  float* const host = pinned<float>(8);
  host[0] = host[1] = host[2] = host[3] = 1;
  host[7] = 5;
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t exec = nullptr;
  ASSERT_EQ(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeThreadLocal), cudaSuccess);
  ASSERT_EQ(copy(memory, host, 4 * sizeof(float)), cudaSuccess);
  ASSERT_EQ(for_each(stream_, 4, [=](std::int64_t i) { memory[i] *= 2; }), cudaSuccess);
  ASSERT_EQ(copy(host + 4, memory, 4 * sizeof(float)), cudaSuccess);
  ASSERT_EQ(cudaStreamEndCapture(stream_, &graph), cudaSuccess);
  ASSERT_EQ(cudaGraphInstantiate(&exec, graph), cudaSuccess);
  ASSERT_EQ(cudaGraphDestroy(graph), cudaSuccess);
  ASSERT_EQ(wait(), cudaSuccess);
  EXPECT_EQ(host[7], 5) << "nothing has run";
  EXPECT_EQ(emulator_.kernels(), 0);
  for (int run = 1; run <= 3; ++run) {
    host[3] = static_cast<float>(run);
    ASSERT_EQ(cudaGraphLaunch(exec, stream_), cudaSuccess);
    ASSERT_EQ(wait(), cudaSuccess);
    EXPECT_EQ(host[7], 2 * run);
  }
  EXPECT_EQ(emulator_.launches(), 1);
  EXPECT_EQ(emulator_.graph_launches(), 3);
  EXPECT_EQ(emulator_.kernels(), 3);
  EXPECT_EQ(cudaGraphExecDestroy(exec), cudaSuccess);
}

TEST_F(EmulatedDevice, BranchesOfAGraphRunInAnyOrderThatTheirEdgesAllow) {
  // Each kernel appends its number: 1, then 2 and 3 as branches, then 4.
  int* const order = device<int>(5);
  int* const host = pinned<int>(5);
  const auto append = [&](int number) {
    return for_each(stream_, 1, [=](std::int64_t) { order[++order[0]] = number; });
  };
  struct Last {
    cudaStreamCaptureStatus status;
    cudaGraph_t graph = nullptr;
    const cudaGraphNode_t* nodes = nullptr;
    const cudaGraphEdgeData* edges = nullptr;
    std::size_t count = 0;
  };
  const auto last = [&] {
    Last made{};
    EXPECT_EQ(
        cudaStreamGetCaptureInfo(stream_, &made.status, nullptr, &made.graph, &made.nodes, &made.edges, &made.count),
        cudaSuccess);
    EXPECT_EQ(made.status, cudaStreamCaptureStatusActive);
    return made;
  };
  const auto follow = [&](std::vector<cudaGraphNode_t> nodes) {
    return cudaStreamUpdateCaptureDependencies(stream_, nodes.data(), nullptr, nodes.size(),
                                               cudaStreamSetCaptureDependencies);
  };
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t exec = nullptr;
  ASSERT_EQ(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeRelaxed), cudaSuccess);
  EXPECT_EQ(last().count, 0U);
  ASSERT_EQ(append(1), cudaSuccess);
  const cudaGraphNode_t first = last().nodes[0];
  ASSERT_EQ(append(2), cudaSuccess);
  const cudaGraphNode_t second = last().nodes[0];
  ASSERT_EQ(follow({first}), cudaSuccess);
  ASSERT_EQ(append(3), cudaSuccess);
  ASSERT_EQ(follow({second, last().nodes[0]}), cudaSuccess);
  cudaGraphNode_t joined = nullptr;
  ASSERT_EQ(cudaGraphAddEmptyNode(&joined, last().graph, last().nodes, last().count), cudaSuccess);
  ASSERT_EQ(follow({joined}), cudaSuccess);
  ASSERT_EQ(append(4), cudaSuccess);
  ASSERT_EQ(cudaStreamEndCapture(stream_, &graph), cudaSuccess);
  ASSERT_EQ(cudaGraphInstantiate(&exec, graph), cudaSuccess);
  ASSERT_EQ(cudaGraphDestroy(graph), cudaSuccess);
  std::set<std::vector<int>> orders;
  for (int run = 0; run < 20; ++run) {
    ASSERT_EQ(cudaMemsetAsync(order, 0, sizeof(int), stream_), cudaSuccess);
    ASSERT_EQ(cudaGraphLaunch(exec, stream_), cudaSuccess);
    ASSERT_EQ(copy(host, order, 5 * sizeof(int)), cudaSuccess);
    ASSERT_EQ(wait(), cudaSuccess);
    orders.emplace(host + 1, host + 5);
  }
  EXPECT_EQ(orders, (std::set<std::vector<int>>{{1, 2, 3, 4}, {1, 3, 2, 4}}));
  EXPECT_EQ(cudaGraphExecDestroy(exec), cudaSuccess);
}

TEST_F(EmulatedDevice, CaptureForbidsWhatCudaForbids) {
  int* const memory = device<int>(1);
  int value = 0;
  void* more = nullptr;
  cudaEvent_t event = nullptr;
  ASSERT_EQ(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), cudaSuccess);
  const std::vector<std::function<cudaError_t()>> forbidden = {
      [&] { return cudaMalloc(&more, 16); },
      [&] { return cudaMallocHost(&more, 16); },
      [&] { return cudaStreamSynchronize(stream_); },
      [&] { return cudaDeviceSynchronize(); },
      [&] { return cudaEventQuery(event); },
      [&] { return copy(memory, &value, sizeof(int)); },
      [&] { return copy(&value, memory, sizeof(int)); },
      [&] { return cudaEventRecord(event, stream_); },
  };
  for (std::size_t i = 0; i < forbidden.size(); ++i) {
    cudaGraph_t graph = nullptr;
    ASSERT_EQ(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeThreadLocal), cudaSuccess);
    EXPECT_EQ(forbidden[i](), cudaErrorStreamCaptureUnsupported) << i;
    EXPECT_EQ(cudaMemsetAsync(memory, 0, sizeof(int), stream_), cudaErrorStreamCaptureInvalidated) << i;
    EXPECT_EQ(cudaStreamEndCapture(stream_, &graph), cudaErrorStreamCaptureInvalidated) << i;
    EXPECT_EQ(graph, nullptr);
    EXPECT_EQ(wait(), cudaSuccess) << "the stream itself is as before";
  }
  EXPECT_EQ(more, nullptr);
  EXPECT_EQ(cudaEventDestroy(event), cudaSuccess);
}

TEST_F(EmulatedDevice, CaptureOfOneThreadLetsOthersAllocate) {
  cudaGraph_t graph = nullptr;
  ASSERT_EQ(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeThreadLocal), cudaSuccess);
  std::thread([&] {
    cudaSetDevice(0);
    device<int>(1);
    EXPECT_EQ(cudaStreamEndCapture(stream_, &graph), cudaErrorStreamCaptureWrongThread);
  }).join();
  ASSERT_EQ(cudaStreamEndCapture(stream_, &graph), cudaSuccess);
  EXPECT_EQ(cudaGraphDestroy(graph), cudaSuccess);

  ASSERT_EQ(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeGlobal), cudaSuccess);
  std::thread([&] {
    void* memory = nullptr;
    EXPECT_EQ(cudaMalloc(&memory, 4), cudaErrorStreamCaptureUnsupported);
  }).join();
  EXPECT_EQ(cudaStreamEndCapture(stream_, &graph), cudaErrorStreamCaptureInvalidated);
}

// ---- what goes wrong ----

TEST_F(EmulatedDevice, AKernelFailsWhenTestsWantIt) {
  float* const memory = device<float>(1);
  emulator_.fail_kernel(1);
  for (int i = 0; i < 3; ++i) ASSERT_EQ(for_each(stream_, 1, [=](std::int64_t) { memory[0] = 0; }), cudaSuccess);
  EXPECT_EQ(wait(), cudaErrorIllegalAddress);
  EXPECT_EQ(emulator_.kernels(), 1);
  void* more = nullptr;
  EXPECT_EQ(cudaMalloc(&more, 4), cudaErrorIllegalAddress);
  EXPECT_EQ(cudaGetLastError(), cudaErrorIllegalAddress);
  EXPECT_EQ(cudaGetLastError(), cudaErrorIllegalAddress) << "for good";
  EXPECT_EQ(cudaSetDevice(1), cudaSuccess);
  EXPECT_EQ(cudaMalloc(&more, 4), cudaSuccess) << "the other device is whole";
  EXPECT_EQ(cudaFree(more), cudaSuccess);
}

TEST_F(EmulatedDevice, DriverAndDevicesCanBeMissing) {
  int count = 0, version = -1;
  void* memory = nullptr;
  EXPECT_EQ(cudaGetDeviceCount(&count), cudaSuccess);
  EXPECT_EQ(count, 2);
  EXPECT_EQ(cudaSetDevice(2), cudaErrorInvalidDevice);
  emulator_.set_devices(0);
  EXPECT_EQ(cudaGetDeviceCount(&count), cudaErrorNoDevice);
  emulator_.set_driver(0);
  EXPECT_EQ(cudaGetDeviceCount(&count), cudaErrorInsufficientDriver);
  EXPECT_EQ(cudaMalloc(&memory, 4), cudaErrorInsufficientDriver);
  EXPECT_EQ(cudaDriverGetVersion(&version), cudaSuccess);
  EXPECT_EQ(version, 0);
}

}  // namespace
}  // namespace troupe_cuda
