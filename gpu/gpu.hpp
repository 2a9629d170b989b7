#pragma once
// One GPU as a program uses it: the plug-ins' tables with Status for error numbers, and memory that frees itself. A
// process opens each plug-in once, when the first program asks for a GPU.
#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include <troupe/core/error.hpp>
#include <troupe/gpu/cuda_plugin.hpp>

namespace troupe::gpu {

class Gpu;

/// Memory of a GPU, or pinned memory of the host beside it; empty after a move. Outlived by its Gpu.
class GpuMemory {
 public:
  GpuMemory() = default;
  GpuMemory(std::shared_ptr<const Gpu> gpu, void* data, std::size_t bytes, bool pinned)
      : gpu_(std::move(gpu)), data_(data), bytes_(bytes), pinned_(pinned) {}
  ~GpuMemory();
  GpuMemory(GpuMemory&& other) noexcept { swap(other); }
  GpuMemory& operator=(GpuMemory&& other) noexcept {
    GpuMemory(std::move(other)).swap(*this);
    return *this;
  }

  std::byte* get() const { return static_cast<std::byte*>(data_); }
  std::size_t bytes() const { return bytes_; }
  template <typename T>
  T* as() const {
    return static_cast<T*>(data_);
  }

 private:
  void swap(GpuMemory& other) noexcept {
    std::swap(gpu_, other.gpu_);
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
    std::swap(pinned_, other.pinned_);
  }
  std::shared_ptr<const Gpu> gpu_;
  void* data_ = nullptr;
  std::size_t bytes_ = 0;
  bool pinned_ = false;
};

class Gpu : public std::enable_shared_from_this<Gpu> {
 public:
  /// Opens GPU `index` and, at the first call in a process, the plug-in. Errors, each one line that says what to do:
  /// kNotFound and kUnavailable (no plug-in, no driver, an old one, no such GPU), kInvalidArgument (the plug-in has no
  /// code for this GPU).
  static Result<std::shared_ptr<const Gpu>> open(int index);

  const TroupeCudaApi& api() const { return plugin_.api(); }
  const CudaDevice& about() const { return about_; }
  int index() const { return about_.index; }
  /// "cuda:0".
  std::string name() const;

  /// This thread's calls from now on are meant for this GPU.
  Status use() const { return check(api().use_device(index()), "choosing it"); }
  /// Errors name the GPU, what was done and CUDA's words. kLost: after a kernel that failed, or a fault of the
  /// hardware, every call of this process fails, and what was on the GPU is gone; kInternal: any other. library_error:
  /// of the table that was called; null: api()'s.
  Status check(int error, std::string_view what, const char* (*library_error)() = nullptr) const;
  /// `what` is for the error: kUnavailable, which also says how much was free, or kLost.
  Result<GpuMemory> allocate(std::size_t bytes, std::string_view what) const;
  Result<GpuMemory> allocate_pinned(std::size_t bytes, std::string_view what) const;
  /// The kernel of the operation `op`: of the plug-in or, if `library` names one, of that, which is looked for as
  /// plug-ins are and opened at the first call in a process. Null: there is none. Errors: as open().
  Result<const TroupeCudaKernel*> kernel(const std::string& op, std::string_view library = {}) const;
  /// The table of the plug-in with cuDNN, opened at the first call in a process. Errors: as open().
  Result<const TroupeCudnnApi*> cudnn() const;

 private:
  Gpu(CudaPlugin plugin, CudaDevice about) : plugin_(std::move(plugin)), about_(std::move(about)) {}
  bool is_lost(int error) const;

  CudaPlugin plugin_;
  CudaDevice about_;
};

}  // namespace troupe::gpu
