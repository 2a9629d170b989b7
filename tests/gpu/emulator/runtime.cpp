// The CUDA runtime's functions about errors, devices, memory and kernels.
#include <cuda_runtime.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include <troupe/tests/gpu/emulator/emulator.h>
#include <troupe/tests/gpu/emulator/machine.hpp>
#include <troupe/tests/gpu/emulator/rules.hpp>

namespace troupe_emulator {

namespace {

thread_local cudaError_t last_error = cudaSuccess;
thread_local std::string last_why;
thread_local int device_in_use = 0;

}  // namespace

int& current_device() { return device_in_use; }

cudaError_t failed(cudaError_t error, std::string_view why) {
  last_error = error;
  last_why = why;
  return error;
}

cudaError_t no_device() {
  const Machine& m = machine();
  if (m.driver == 0) return failed(cudaErrorInsufficientDriver, "no driver is installed");
  if (m.device_count == 0) return failed(cudaErrorNoDevice, "the driver lists no device");
  return cudaSuccess;
}

cudaError_t no_good(int device) {
  if (const cudaError_t error = no_device()) return error;
  const Device& at = machine().devices[static_cast<std::size_t>(device)];
  return at.failed == cudaSuccess ? cudaSuccess : failed(at.failed, at.why);
}

cudaError_t spoils_capture(std::string_view what) {
  cudaError_t error = cudaSuccess;
  for (CUstream_st* stream : machine().streams) {
    if (stream->capture == nullptr || stream->capture->mode == cudaStreamCaptureModeRelaxed) continue;
    if (stream->capture->mode == cudaStreamCaptureModeThreadLocal &&
        stream->capture->thread != std::this_thread::get_id()) {
      continue;
    }
    stream->capture->spoiled = true;
    error = failed(cudaErrorStreamCaptureUnsupported, fmt::format("{} while a stream is captured", what));
  }
  return error;
}

cudaError_t launch(dim3 blocks, dim3 threads, cudaStream_t stream, std::function<void()> thread) {
  Machine& m = machine();
  const std::lock_guard hold(m.lock);
  const std::uint64_t in_block = std::uint64_t{threads.x} * threads.y * threads.z;
  if (in_block < 1 || in_block > 1024 || threads.z > 64 || blocks.x < 1 || blocks.x > 0x7fffffffU || blocks.y < 1 ||
      blocks.y > 65535 || blocks.z < 1 || blocks.z > 65535) {
    return failed(cudaErrorInvalidConfiguration, fmt::format("launch: blocks {}x{}x{} of {}x{}x{} threads", blocks.x,
                                                             blocks.y, blocks.z, threads.x, threads.y, threads.z));
  }
  if (const cudaError_t error = bad_stream(stream, "launch")) return error;
  if (stream->device != current_device()) {
    return failed(
        cudaErrorInvalidResourceHandle,
        fmt::format("launch: on a stream of device {}, but device {} is in use", stream->device, current_device()));
  }
  ++m.launches;
  return put(*stream, KernelWork{stream->device, blocks, threads, std::move(thread)});
}

}  // namespace troupe_emulator

using namespace troupe_emulator;  // NOLINT: the rest of the file is the runtime's own functions

// ---- errors ----

const char* cudaGetErrorString(cudaError_t error) {
  switch (error) {
    case cudaSuccess:
      return "no error";
    case cudaErrorInvalidValue:
      return "invalid argument";
    case cudaErrorMemoryAllocation:
      return "out of memory";
    case cudaErrorInvalidConfiguration:
      return "invalid configuration argument";
    case cudaErrorInvalidMemcpyDirection:
      return "invalid copy direction for memcpy";
    case cudaErrorInsufficientDriver:
      return "CUDA driver version is insufficient for CUDA runtime version";
    case cudaErrorNoDevice:
      return "no CUDA-capable device is detected";
    case cudaErrorInvalidDevice:
      return "invalid device ordinal";
    case cudaErrorIllegalState:
      return "the operation cannot be performed in the present state";
    case cudaErrorInvalidResourceHandle:
      return "invalid resource handle";
    case cudaErrorNotReady:
      return "device not ready";
    case cudaErrorIllegalAddress:
      return "an illegal memory access was encountered";
    case cudaErrorLaunchFailure:
      return "unspecified launch failure";
    case cudaErrorStreamCaptureUnsupported:
      return "operation not permitted when stream is capturing";
    case cudaErrorStreamCaptureInvalidated:
      return "operation failed due to a previous error during capture";
    case cudaErrorStreamCaptureUnmatched:
      return "capture was not initiated in this stream";
    case cudaErrorStreamCaptureWrongThread:
      return "attempt to terminate a thread-local capture sequence from another thread";
    case cudaErrorUnknown:
      return "unknown error";
    default:  // no emulated device fails so
      return "unrecognized error code";
  }
}

cudaError_t cudaGetLastError() {
  const cudaError_t error = last_error;
  Machine& m = machine();
  const std::lock_guard hold(m.lock);
  last_error = m.devices[static_cast<std::size_t>(current_device())].failed;
  return error;
}

cudaError_t cudaPeekAtLastError() { return last_error; }

// ---- devices ----

cudaError_t cudaDriverGetVersion(int* version) {
  Machine& m = machine();
  const std::lock_guard hold(m.lock);
  *version = m.driver;
  return cudaSuccess;
}

cudaError_t cudaRuntimeGetVersion(int* version) {
  *version = 13000;
  return cudaSuccess;
}

cudaError_t cudaGetDeviceCount(int* count) {
  Machine& m = machine();
  const std::lock_guard hold(m.lock);
  if (const cudaError_t error = no_device()) return error;
  *count = m.device_count;
  return cudaSuccess;
}

namespace {
/// With the lock held.
cudaError_t not_there(int device) {
  if (const cudaError_t error = no_device()) return error;
  if (device >= 0 && device < machine().device_count) return cudaSuccess;
  return failed(cudaErrorInvalidDevice, fmt::format("device {} of {}", device, machine().device_count));
}
}  // namespace

cudaError_t cudaGetDeviceProperties(cudaDeviceProp* about, int device) {
  Machine& m = machine();
  const std::lock_guard hold(m.lock);
  if (const cudaError_t error = not_there(device)) return error;
  *about = {};
  fmt::format_to_n(about->name, sizeof(about->name) - 1, "Emulated device {}", device);
  about->totalGlobalMem = m.devices[static_cast<std::size_t>(device)].memory.total();
  about->major = 9;
  about->minor = 0;
  about->multiProcessorCount = 132;
  about->warpSize = 32;
  return cudaSuccess;
}

cudaError_t cudaSetDevice(int device) {
  const std::lock_guard hold(machine().lock);
  if (const cudaError_t error = not_there(device)) return error;
  current_device() = device;
  return no_good(device);
}

cudaError_t cudaGetDevice(int* device) {
  *device = current_device();
  return cudaSuccess;
}

// ---- memory ----

cudaError_t cudaMemGetInfo(std::size_t* free, std::size_t* total) {
  Machine& m = machine();
  const std::lock_guard hold(m.lock);
  if (const cudaError_t error = no_good(current_device())) return error;
  const DeviceMemory& memory = m.devices[static_cast<std::size_t>(current_device())].memory;
  *total = memory.total();
  *free = memory.total() - std::min(memory.used(), memory.total());
  return cudaSuccess;
}

cudaError_t cudaMalloc(void** memory, std::size_t bytes) {
  Machine& m = machine();
  const std::lock_guard hold(m.lock);
  if (const cudaError_t error = no_good(current_device())) return error;
  if (const cudaError_t error = spoils_capture("cudaMalloc")) return error;
  void* made = nullptr;
  if (bytes > 0) {
    DeviceMemory& device = m.devices[static_cast<std::size_t>(current_device())].memory;
    made = device.allocate(bytes);
    if (made == nullptr) {
      return failed(cudaErrorMemoryAllocation,
                    fmt::format("cudaMalloc: {} bytes, and {} of {} are in use", bytes, device.used(), device.total()));
    }
    ++m.allocations;
  }
  *memory = made;
  return cudaSuccess;
}

cudaError_t cudaFree(void* memory) {
  Machine& m = machine();
  const std::lock_guard hold(m.lock);
  if (const cudaError_t error = spoils_capture("cudaFree")) return error;
  if (memory == nullptr) return no_good(current_device());
  for (int i = 0; i < kMostDevices; ++i) {
    Device& device = m.devices[static_cast<std::size_t>(i)];
    std::string wrong;
    if (!device.memory.release(memory, !m.idle(i), &wrong)) continue;
    if (!wrong.empty()) m.fail(i, cudaErrorIllegalAddress, "cudaFree: " + wrong);
    return no_good(i);
  }
  return failed(cudaErrorInvalidValue, "cudaFree: of what is no allocation");
}

cudaError_t cudaHostAlloc(void** memory, std::size_t bytes, unsigned) { return cudaMallocHost(memory, bytes); }

cudaError_t cudaMallocHost(void** memory, std::size_t bytes) {
  Machine& m = machine();
  const std::lock_guard hold(m.lock);
  if (const cudaError_t error = no_good(current_device())) return error;
  if (const cudaError_t error = spoils_capture("cudaMallocHost")) return error;
  void* const made = bytes == 0 ? nullptr : m.pinned.allocate(bytes);
  if (made == nullptr && bytes > 0) return failed(cudaErrorMemoryAllocation, "cudaMallocHost: the host has no memory");
  *memory = made;
  return cudaSuccess;
}

cudaError_t cudaFreeHost(void* memory) {
  Machine& m = machine();
  const std::lock_guard hold(m.lock);
  if (const cudaError_t error = spoils_capture("cudaFreeHost")) return error;
  if (memory == nullptr) return no_good(current_device());
  std::string wrong;
  if (!m.pinned.release(memory, &wrong)) {
    return failed(cudaErrorInvalidValue, "cudaFreeHost: of what is no pinned allocation");
  }
  if (!wrong.empty()) m.fail(current_device(), cudaErrorIllegalAddress, "cudaFreeHost: " + wrong);
  return no_good(current_device());
}

// ---- what tests ask ----

namespace {

template <auto Member>
std::int64_t count() {
  Machine& m = machine();
  const std::lock_guard hold(m.lock);
  return m.*Member;
}

/// Copies to or from what is at `there` on some device.
void move(void* to, const void* from, const void* there, std::size_t bytes) {
  Machine& m = machine();
  const std::lock_guard hold(m.lock);
  for (Device& device : m.devices) {
    if (device.memory.contains(there)) device.memory.open();
  }
  std::memcpy(to, from, bytes);
  m.settle();
}

constexpr TroupeEmulator kControl = {
    .reset =
        [] {
          const std::lock_guard hold(machine().lock);
          machine().reset();
        },
    .set_driver =
        [](int version) {
          const std::lock_guard hold(machine().lock);
          machine().driver = version;
        },
    .set_devices =
        [](int count) {
          const std::lock_guard hold(machine().lock);
          machine().device_count = std::clamp(count, 0, kMostDevices);
        },
    .set_memory =
        [](std::size_t bytes) {
          const std::lock_guard hold(machine().lock);
          for (Device& device : machine().devices) device.memory.set_total(bytes);
        },
    .fail_kernel =
        [](std::int64_t after) {
          const std::lock_guard hold(machine().lock);
          machine().until_failure = after;
        },
    .allocations = count<&Machine::allocations>,
    .launches = count<&Machine::launches>,
    .kernels = count<&Machine::kernels>,
    .graph_launches = count<&Machine::graph_launches>,
    .alive =
        [] {
          const std::lock_guard hold(machine().lock);
          return machine().alive();
        },
    .fault = [] { return last_why.c_str(); },
    .device_of =
        [](const void* memory, std::size_t bytes) {
          const std::lock_guard hold(machine().lock);
          const auto& devices = machine().devices;
          const auto found = std::ranges::find_if(
              devices, [&](const Device& device) { return device.memory.holds(memory, bytes) >= 0; });
          return found == devices.end() ? -1 : static_cast<int>(found - devices.begin());
        },
    .read = [](void* to, const void* from, std::size_t bytes) { move(to, from, from, bytes); },
    .write = [](void* to, const void* from, std::size_t bytes) { move(to, from, to, bytes); },
};

}  // namespace

const TroupeEmulator* troupe_cuda_emulator(void) { return &kControl; }
