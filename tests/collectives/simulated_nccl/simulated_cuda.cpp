// The CUDA runtime's part: devices, streams, events.
#include <algorithm>
#include <cstdio>

#include <troupe/tests/collectives/simulated_nccl/world.hpp>

using namespace troupe::collectives::simulated_nccl;

#define EXPORTED extern "C" __attribute__((visibility("default")))

namespace {

thread_local int current_device = 0;

Time now() { return std::chrono::steady_clock::now(); }

CUstream_st* known(cudaStream_t stream) {
  for (const auto& one : world().streams) {
    if (one.get() == stream && !one->destroyed) return one.get();
  }
  ++world().misuses;
  return nullptr;
}

}  // namespace

EXPORTED cudaError_t cudaSetDevice(int device) {
  if (device < 0 || device >= kDevices) return cudaErrorInvalidDevice;
  current_device = device;
  return cudaSuccess;
}

EXPORTED cudaError_t cudaDeviceGetPCIBusId(char* id, int bytes, int device) {
  if (device < 0 || device >= kDevices) return cudaErrorInvalidDevice;
  std::snprintf(id, static_cast<std::size_t>(bytes), "0000:%02x:00.0", device);
  return cudaSuccess;
}

EXPORTED cudaError_t cudaGetDevice(int* device) {
  *device = current_device;
  return cudaSuccess;
}

EXPORTED cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned int) {
  const std::lock_guard lock(world_mutex());
  auto made = std::make_unique<CUstream_st>();
  made->device = current_device;
  *stream = made.get();
  world().streams.push_back(std::move(made));
  ++world().live_streams;
  return cudaSuccess;
}

EXPORTED cudaError_t cudaStreamQuery(cudaStream_t stream) {
  const std::lock_guard lock(world_mutex());
  world().advance(now());
  const CUstream_st* one = known(stream);
  if (!one) return cudaErrorInvalidResourceHandle;
  return one->items.empty() ? cudaSuccess : cudaErrorNotReady;
}

/// What stands on it still runs.
EXPORTED cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  const std::lock_guard lock(world_mutex());
  CUstream_st* one = known(stream);
  if (!one) return cudaErrorInvalidResourceHandle;
  one->destroyed = true;
  --world().live_streams;
  world().advance(now());
  return cudaSuccess;
}

EXPORTED cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned int) {
  const std::lock_guard lock(world_mutex());
  *event = new CUevent_st{.device = current_device, .state = std::make_shared<EventState>()};
  ++world().events;
  return cudaSuccess;
}

EXPORTED cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  const std::lock_guard lock(world_mutex());
  CUstream_st* one = known(stream);
  if (!one || event->device != one->device) {
    ++world().misuses;
    return cudaErrorInvalidResourceHandle;
  }
  event->state = std::make_shared<EventState>(EventState{.done = false});
  one->items.push_back({.event = event->state});
  world().advance(now());
  return cudaSuccess;
}

EXPORTED cudaError_t cudaEventQuery(cudaEvent_t event) {
  const std::lock_guard lock(world_mutex());
  world().advance(now());
  return event->state->done ? cudaSuccess : cudaErrorNotReady;
}

EXPORTED cudaError_t cudaEventDestroy(cudaEvent_t event) {
  const std::lock_guard lock(world_mutex());
  delete event;
  --world().events;
  return cudaSuccess;
}

EXPORTED cudaError_t cudaMemsetAsync(void* at, int value, size_t bytes, cudaStream_t stream) {
  const std::lock_guard lock(world_mutex());
  CUstream_st* one = known(stream);
  if (!one) return cudaErrorInvalidResourceHandle;
  one->items.push_back({.fill = StreamItem::Fill{.at = at, .value = value, .bytes = bytes}});
  world().advance(now());
  return cudaSuccess;
}

EXPORTED const char* cudaGetErrorString(cudaError_t error) {
  switch (error) {
    case cudaSuccess:
      return "no error";
    case cudaErrorInvalidDevice:
      return "invalid device ordinal";
    case cudaErrorInvalidResourceHandle:
      return "invalid resource handle";
    case cudaErrorNotReady:
      return "device not ready";
    default:
      return "unknown error";
  }
}

namespace troupe::collectives::simulated_nccl {

int device_of_this_thread() { return current_device; }

}  // namespace troupe::collectives::simulated_nccl
