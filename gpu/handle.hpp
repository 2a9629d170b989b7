#pragma once
// Streams and events of a GPU that destroy themselves. Work that is still on a stream is not waited for: who owns the
// memory that it uses does that.
#include <memory>
#include <utility>

#include <troupe/gpu/gpu.hpp>

namespace troupe::gpu {

/// Made for one GPU and used with its table, as what it converts to; empty until made and after a move.
template <typename T, int (*TroupeCudaApi::*kMake)(T**), int (*TroupeCudaApi::*kDestroy)(T*)>
class GpuHandle {
 public:
  GpuHandle() = default;
  /// Errors: the GPU's.
  static Result<GpuHandle> make(std::shared_ptr<const Gpu> gpu) {
    TROUPE_TRY(gpu->use());
    GpuHandle made;
    TROUPE_TRY(gpu->check((gpu->api().*kMake)(&made.handle_), "making a stream or an event"));
    made.gpu_ = std::move(gpu);
    return made;
  }
  ~GpuHandle() {
    // The GPU may be lost by now, and nobody is left who could be told.
    if (handle_ != nullptr && gpu_->use().ok()) (void)(gpu_->api().*kDestroy)(handle_);
  }
  GpuHandle(GpuHandle&& other) noexcept { swap(other); }
  GpuHandle& operator=(GpuHandle&& other) noexcept {
    GpuHandle(std::move(other)).swap(*this);
    return *this;
  }
  operator T*() const { return handle_; }  // NOLINT: as the table takes it

 private:
  void swap(GpuHandle& other) noexcept {
    std::swap(gpu_, other.gpu_);
    std::swap(handle_, other.handle_);
  }
  std::shared_ptr<const Gpu> gpu_;
  T* handle_ = nullptr;
};

using GpuStream = GpuHandle<TroupeCudaStream, &TroupeCudaApi::make_stream, &TroupeCudaApi::destroy_stream>;
using GpuEvent = GpuHandle<TroupeCudaEvent, &TroupeCudaApi::make_event, &TroupeCudaApi::destroy_event>;

}  // namespace troupe::gpu
