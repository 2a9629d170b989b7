#pragma once
// A library's handle for each device of the process.
#include <cuda_runtime.h>

#include <map>
#include <memory>
#include <mutex>

namespace troupe_cuda {

/// The Handle of the device in use: made when somebody first asks, shared by all who hold it, destroyed with the last.
/// Handle has `cudaError_t make()`, which is called with the device in use, and a destructor.
template <typename Handle>
cudaError_t share_handle(std::shared_ptr<Handle>* handle) {
  static std::mutex mutex;
  static std::map<int, std::weak_ptr<Handle>> of_device;
  int device = 0;
  if (const cudaError_t error = cudaGetDevice(&device)) return error;
  const std::lock_guard lock(mutex);
  std::shared_ptr<Handle> found = of_device[device].lock();
  if (!found) {
    found = std::make_shared<Handle>();
    if (const cudaError_t error = found->make()) return error;
    of_device[device] = found;
  }
  *handle = std::move(found);
  return cudaSuccess;
}

}  // namespace troupe_cuda
