#pragma once
// A copy of some of a GPU's memory, as it is between two launches, for the host, which neither the launches nor the
// host wait for: copied aside on the GPU in the order of the launches, and from there into pinned memory by a stream of
// its own. What Program::begin_snapshot() is on a GPU.
#include <cstddef>
#include <memory>
#include <span>

#include <troupe/gpu/handle.hpp>

namespace troupe::learner {

class CudaSnapshot {
 public:
  CudaSnapshot() = default;
  ~CudaSnapshot();
  CudaSnapshot(const CudaSnapshot&) = delete;
  CudaSnapshot& operator=(const CudaSnapshot&) = delete;

  /// Begins a copy of the parts of `from`, one behind the other, as they will be when the work that is on `stream` now
  /// has run. The one before has arrived. Allocates when it is larger than all before. Errors: the GPU's.
  Status begin(const std::shared_ptr<const gpu::Gpu>& gpu, std::span<const std::span<const float>> from,
               TroupeCudaStream* stream);
  /// Whether it is there; of none that has begun. Errors: the GPU's.
  Result<bool> arrived() const;
  /// Once it is there.
  std::span<const float> values() const { return {pinned_.as<float>(), elements_}; }
  std::size_t bytes() const { return device_.bytes(); }  ///< of the GPU's memory

 private:
  Status make(const std::shared_ptr<const gpu::Gpu>& gpu);

  std::shared_ptr<const gpu::Gpu> gpu_;
  gpu::GpuStream stream_;
  gpu::GpuEvent copied_, arrived_;
  gpu::GpuMemory device_, pinned_;
  std::size_t elements_ = 0;
};

}  // namespace troupe::learner
