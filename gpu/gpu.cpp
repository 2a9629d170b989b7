#include <troupe/gpu/gpu.hpp>

#include <fmt/format.h>

#include <functional>
#include <map>
#include <mutex>

namespace troupe::gpu {

namespace {

/// Opens a plug-in once in a process; a failure is told to everybody who asks.
template <typename Plugin>
const Result<Plugin>& opened(std::string_view file) {
  static std::mutex mutex;
  static std::map<std::string, Result<Plugin>, std::less<>> plugins;
  const std::lock_guard lock(mutex);
  auto found = plugins.find(file);
  if (found == plugins.end()) found = plugins.emplace(file, Plugin::load(find_plugin(file))).first;
  return found->second;
}

double gib(std::size_t bytes) { return static_cast<double>(bytes) / (1024.0 * 1024.0 * 1024.0); }

}  // namespace

GpuMemory::~GpuMemory() {
  // The GPU may be lost by now, and nobody is left who could be told.
  if (data_ == nullptr || !gpu_->use().ok()) return;
  (void)(pinned_ ? gpu_->api().release_host(data_) : gpu_->api().release(data_));
}

Result<std::shared_ptr<const Gpu>> Gpu::open(int index) {
  const Result<CudaPlugin>& plugin = opened<CudaPlugin>("libtroupe_cuda.so");
  if (!plugin.ok()) return plugin.error();
  TROUPE_ASSIGN(const std::vector<CudaDevice> devices, plugin->devices());
  if (index < 0 || index >= static_cast<int>(devices.size())) {
    return Error{Code::kNotFound, fmt::format("cuda:{}: this machine has {} GPU{}, expected 0 to {}", index,
                                              devices.size(), devices.size() == 1 ? "" : "s", devices.size() - 1)};
  }
  const CudaDevice& device = devices[static_cast<std::size_t>(index)];
  TROUPE_TRY(plugin->check_code_for(device));
  return std::shared_ptr<const Gpu>(new Gpu(*plugin, device));
}

std::string Gpu::name() const { return fmt::format("cuda:{}", index()); }

Status Gpu::check(int error, std::string_view what, const char* (*library_error)()) const {
  if (error == 0) return {};
  if (library_error == nullptr) library_error = api().library_error;
  const char* const words = error == TROUPE_CUDA_LIBRARY_ERROR ? library_error() : api().error_text(error);
  return Error{is_lost(error) ? Code::kLost : Code::kInternal,
               fmt::format("{} ({}): {}: {}", name(), about_.name, what, words)};
}

bool Gpu::is_lost(int error) const {
  if (api().is_lost(error) != 0) return true;
  // Libraries tell a lost GPU in words of their own, and a recording that it breaks has a number of its own; but any
  // further call says it.
  std::size_t free = 0;
  return api().is_lost(api().free_memory(&free)) != 0;
}

Result<GpuMemory> Gpu::allocate(std::size_t bytes, std::string_view what) const {
  if (bytes == 0) return GpuMemory();
  TROUPE_TRY(use());
  void* data = nullptr;
  if (const int error = api().allocate(bytes, &data)) {
    if (is_lost(error)) return check(error, what).error();
    std::size_t free = 0;
    (void)api().free_memory(&free);
    return Error{Code::kUnavailable, fmt::format("{} ({}): {:.2f} GiB for {}: {} ({:.2f} GiB of {:.2f} are free)",
                                                 name(), about_.name, gib(bytes), what, api().error_text(error),
                                                 gib(free), gib(static_cast<std::size_t>(about_.total_bytes)))};
  }
  return GpuMemory(shared_from_this(), data, bytes, false);
}

Result<GpuMemory> Gpu::allocate_pinned(std::size_t bytes, std::string_view what) const {
  if (bytes == 0) return GpuMemory();
  TROUPE_TRY(use());
  void* data = nullptr;
  if (const int error = api().allocate_host(bytes, &data)) {
    if (is_lost(error)) return check(error, what).error();
    return Error{Code::kUnavailable, fmt::format("{} ({}): {:.2f} GiB of the host's memory for {}: {}", name(),
                                                 about_.name, gib(bytes), what, api().error_text(error))};
  }
  return GpuMemory(shared_from_this(), data, bytes, true);
}

Result<const TroupeCudaKernel*> Gpu::kernel(const std::string& op, std::string_view library) const {
  if (library.empty()) return api().find_kernel(op.c_str());
  const Result<CudaKernels>& kernels = opened<CudaKernels>(library);
  if (!kernels.ok()) {
    return Error{kernels.error().code, fmt::format("the operation {}: {}", op, kernels.error().message)};
  }
  return kernels->api().find_kernel(op.c_str());
}

Result<const TroupeCudnnApi*> Gpu::cudnn() const {
  const Result<CudnnPlugin>& plugin = opened<CudnnPlugin>("libtroupe_cudnn.so");
  if (!plugin.ok()) return plugin.error();
  return &plugin->api();
}

}  // namespace troupe::gpu
