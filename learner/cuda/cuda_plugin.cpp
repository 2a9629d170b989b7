#include <troupe/learner/cuda/cuda_plugin.hpp>

#include <dlfcn.h>
#include <fmt/core.h>

#include <utility>

namespace troupe::learner {

Result<CudaPlugin> CudaPlugin::load(const std::filesystem::path& path) {
  std::error_code ignored;  // a file that cannot be looked at is reported as missing
  if (!std::filesystem::is_regular_file(path, ignored)) {
    return Error{Code::kNotFound, fmt::format("cuda plug-in: no file {}", path.string())};
  }
  // A path with a slash is never searched for elsewhere. RTLD_LOCAL keeps CUDA's symbols apart from the program's.
  void* handle = dlopen(std::filesystem::absolute(path).c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) {
    return Error{Code::kUnavailable, fmt::format("cuda plug-in: cannot open {}: {}", path.string(), dlerror())};
  }
  std::shared_ptr<void> library(handle, [](void* opened) { dlclose(opened); });
  auto entry = reinterpret_cast<const TroupeCudaApi* (*)()>(dlsym(handle, TROUPE_CUDA_ENTRY));
  if (entry == nullptr) {
    return Error{Code::kInvalidArgument,
                 fmt::format("cuda plug-in: {} exports no {}", path.string(), TROUPE_CUDA_ENTRY)};
  }
  const TroupeCudaApi* api = entry();
  if (api->abi != TROUPE_CUDA_ABI) {
    return Error{Code::kInvalidArgument, fmt::format("cuda plug-in: {} has abi {}, expected {}: rebuild it",
                                                     path.string(), api->abi, TROUPE_CUDA_ABI)};
  }
  return CudaPlugin(std::move(library), api);
}

Result<std::vector<CudaDevice>> CudaPlugin::devices() const {
  auto unavailable = [&](int error) {
    int driver = 0;
    if (api_->driver_version(&driver) != 0 || driver == 0) {
      return Error{Code::kUnavailable, fmt::format("cuda: no NVIDIA driver ({})", api_->error_text(error))};
    }
    return Error{Code::kUnavailable,
                 fmt::format("cuda: driver {}.{}: {}", driver / 1000, driver % 1000 / 10, api_->error_text(error))};
  };
  int count = 0;
  if (int error = api_->device_count(&count)) return unavailable(error);
  if (count == 0) return Error{Code::kUnavailable, "cuda: the driver lists no device"};
  std::vector<CudaDevice> devices;
  for (int index = 0; index < count; ++index) {
    char name[256] = {};
    if (int error = api_->device_name(index, name)) return unavailable(error);
    devices.push_back({index, name});
  }
  return devices;
}

}  // namespace troupe::learner
