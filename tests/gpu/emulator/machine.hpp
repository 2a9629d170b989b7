#pragma once
// The state of the emulated machine: devices, and the work that waits on their streams. runtime.cpp and streams.cpp
// show it as the CUDA runtime's functions; all of it is under one lock.
#include <array>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <random>
#include <set>
#include <span>
#include <string>
#include <thread>
#include <variant>
#include <vector>

#include <cuda_runtime.h>
#include <troupe/tests/gpu/emulator/fibers.hpp>
#include <troupe/tests/gpu/emulator/memory.hpp>

namespace troupe_emulator {

/// A place in a stream's work, for which others wait.
struct Mark {
  CUstream_st* stream = nullptr;
  bool passed = false;
};

// ---- what lies on streams ----

struct KernelWork {
  int device = 0;
  dim3 blocks, threads;
  std::function<void()> thread;
};
struct CopyWork {
  void* to = nullptr;
  const void* from = nullptr;
  std::size_t bytes = 0;
  bool from_is_known = false, to_is_known = false;       // of a device, or pinned
  std::shared_ptr<const std::vector<std::byte>> staged;  // what `from` held, where it is not known
};
struct FillWork {
  void* to = nullptr;
  int byte = 0;
  std::size_t bytes = 0;
};
struct RecordWork {
  std::shared_ptr<Mark> mark;
};
struct WaitWork {
  std::shared_ptr<Mark> mark;
};
using Work = std::variant<std::monostate, KernelWork, CopyWork, FillWork, RecordWork, WaitWork>;

struct Capture {
  cudaStreamCaptureMode mode = cudaStreamCaptureModeGlobal;
  std::thread::id thread;
  bool spoiled = false;
  cudaGraph_t graph = nullptr;
  std::vector<cudaGraphNode_t> last;  // what is recorded next follows these
};

constexpr int kMostDevices = 8;
struct Device {
  DeviceMemory memory;
  cudaError_t failed = cudaSuccess;  // for good
  std::string why;
};

struct Machine {
  std::mutex lock;
  int driver = 13000;
  int device_count = 2;
  std::array<Device, kMostDevices> devices;
  PinnedMemory pinned;
  std::set<CUstream_st*> streams;
  std::set<CUevent_st*> events;
  std::set<CUgraph_st*> graphs;
  std::set<CUgraphExec_st*> executables;
  BlockRunner runner;
  std::minstd_rand orders;  // of graphs' nodes

  std::int64_t until_failure = -1;  // kernels
  std::string fail_when;            // a file: while it is there the next kernel fails, and takes it away
  std::int64_t allocations = 0, launches = 0, kernels = 0, graph_launches = 0;

  void reset();
  std::int64_t alive() const;

  bool is_device(const void* memory) const;
  /// Whether the range lies in one allocation of a device, or pinned one.
  bool is_known(const void* memory, std::size_t bytes) const;
  bool idle(int device) const;
  /// Whether a test wants the next kernel to fail.
  bool fails_now();

  /// Runs the first of what waits on the stream. Errors stay with the device, whose other work then vanishes.
  void step(CUstream_st& stream);
  /// Runs what waits on the stream, and returns the error of its device.
  cudaError_t finish(CUstream_st& stream);
  /// Puts a graph's work on the stream, in one of the orders that its nodes allow: another one each time.
  void put_graph(const CUgraphExec_st& graph, CUstream_st& stream);
  /// To be called when steps have been done: looks at what they wrote, and closes the memory.
  void settle();

  /// For good. The first error stays, being the cause.
  void fail(int device, cudaError_t error, std::string why);

 private:
  void run(const Work& work, int device);
  void run(const KernelWork& kernel);
  void run(const CopyWork& copy, int device);
};

/// The one there is. Never destroyed, because plug-ins may be closed in any order.
Machine& machine();

/// What the calling thread's cudaGetLastError() and fault() tell; returns the error.
cudaError_t failed(cudaError_t error, std::string_view why);
/// The device of the calling thread's calls.
int& current_device();

}  // namespace troupe_emulator

struct CUstream_st {
  int device = 0;
  std::deque<troupe_emulator::Work> work;
  std::unique_ptr<troupe_emulator::Capture> capture;  // null: none
};
struct CUevent_st {
  int device = 0;
  std::shared_ptr<troupe_emulator::Mark> mark;  // null: never recorded
};
struct CUgraphNode_st {
  std::size_t index = 0;
  troupe_emulator::Work work;
  std::vector<std::size_t> after;  // indices
};
struct CUgraph_st {
  int device = 0;
  std::deque<CUgraphNode_st> nodes;  // which stay where they are

  cudaGraphNode_t add(troupe_emulator::Work work, std::span<const cudaGraphNode_t> after);
};
struct CUgraphExec_st {
  int device = 0;
  std::deque<CUgraphNode_st> nodes;
};
