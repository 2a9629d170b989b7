#include <troupe/gpu/cuda_plugin.hpp>

#include <dlfcn.h>
#include <fmt/format.h>

#include <cstdlib>
#include <span>

#include <troupe/core/installation.hpp>

namespace troupe::gpu {

namespace {

namespace fs = std::filesystem;

bool is_file(const fs::path& path) {
  std::error_code ignored;  // a file that cannot be looked at is reported as missing
  return fs::is_regular_file(path, ignored);
}

template <typename Api>
constexpr const char* kEntry = nullptr;
template <>
constexpr const char* kEntry<TroupeCudaApi> = TROUPE_CUDA_ENTRY;
template <>
constexpr const char* kEntry<TroupeCudnnApi> = TROUPE_CUDNN_ENTRY;
template <>
constexpr const char* kEntry<TroupeCudaKernels> = TROUPE_CUDA_KERNELS_ENTRY;

}  // namespace

std::string cuda_version_text(int version) { return fmt::format("{}.{}", version / 1000, version % 1000 / 10); }

fs::path find_plugin(std::string_view file) {
  std::vector<fs::path> folders;
  if (const char* given = std::getenv("TROUPE_PLUGIN_PATH"); given != nullptr && *given != 0)
    folders.emplace_back(given);
  std::error_code error;
  if (const fs::path program = fs::read_symlink("/proc/self/exe", error); !error)
    folders.push_back(program.parent_path());
  folders.push_back(installation().libraries);
  for (const fs::path& folder : folders) {
    if (is_file(folder / file)) return fs::absolute(folder / file);
  }
  return fs::path(file);
}

// Of the table only the ABI number may be read before that is known to fit.
template <typename Api>
Result<Plugin<Api>> Plugin<Api>::load(const fs::path& path) {
  const bool searched = !path.has_parent_path();
  if (!searched && !is_file(path)) {
    return Error{Code::kNotFound, fmt::format("cuda plug-in: no file {}", path.string())};
  }
  // A path with a slash is never searched for elsewhere. RTLD_LOCAL keeps CUDA's symbols apart from the program's.
  void* handle = dlopen(searched ? path.c_str() : fs::absolute(path).c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr && searched) {
    return Error{Code::kNotFound,
                 fmt::format("cuda plug-in: {} is not in the folder TROUPE_PLUGIN_PATH, not beside the program, not in "
                             "{}, and the system's loader says: {}; build it where there is a CUDA compiler",
                             path.string(), installation().libraries.string(), dlerror())};
  }
  if (handle == nullptr) {
    return Error{Code::kUnavailable, fmt::format("cuda plug-in: cannot open {}: {}", path.string(), dlerror())};
  }
  std::shared_ptr<void> library(handle, [](void* opened) { dlclose(opened); });
  auto entry = reinterpret_cast<const Api* (*)()>(dlsym(handle, kEntry<Api>));
  if (entry == nullptr) {
    return Error{Code::kInvalidArgument, fmt::format("cuda plug-in: {} exports no {}", path.string(), kEntry<Api>)};
  }
  const Api* api = entry();
  if (api->abi != TROUPE_CUDA_ABI) {
    return Error{Code::kInvalidArgument, fmt::format("cuda plug-in: {} has abi {}, expected {}: rebuild it",
                                                     path.string(), api->abi, TROUPE_CUDA_ABI)};
  }
  return Plugin(std::move(library), api);
}
template class Plugin<TroupeCudaApi>;
template class Plugin<TroupeCudnnApi>;
template class Plugin<TroupeCudaKernels>;

Result<CudaPlugin> CudaPlugin::load(const fs::path& path) {
  TROUPE_ASSIGN(auto table, Plugin::load(path));
  return CudaPlugin(std::move(table));
}

Result<std::vector<CudaDevice>> CudaPlugin::devices() const {
  auto unavailable = [&](int error) {
    const char* const words = api().error_text(error);
    int driver = 0, runtime = 0;
    if (api().driver_version(&driver) != 0 || driver == 0) {
      return Error{Code::kUnavailable, fmt::format("cuda: no NVIDIA driver ({})", words)};
    }
    if (api().runtime_version(&runtime) == 0 && driver < runtime) {
      return Error{Code::kUnavailable,
                   fmt::format("cuda: the driver is for CUDA {}, the plug-in for {}: update the driver, or rebuild the "
                               "plug-in with an older CUDA ({})",
                               cuda_version_text(driver), cuda_version_text(runtime), words)};
    }
    return Error{Code::kUnavailable, fmt::format("cuda: driver {}: {}", cuda_version_text(driver), words)};
  };
  int count = 0;
  if (int error = api().device_count(&count)) return unavailable(error);
  if (count == 0) return Error{Code::kUnavailable, "cuda: the driver lists no device"};
  std::vector<CudaDevice> devices;
  for (int index = 0; index < count; ++index) {
    TroupeCudaDevice about = {};
    if (int error = api().device(index, &about)) return unavailable(error);
    devices.push_back({index, about.name, about.major, about.minor, about.total_bytes});
  }
  return devices;
}

Status CudaPlugin::check_code_for(const CudaDevice& device) const {
  const std::int32_t* list = nullptr;
  int count = 0;
  if (int error = api().architectures(&list, &count)) {
    return Error{Code::kInternal, fmt::format("cuda plug-in: its architectures: {}", api().error_text(error))};
  }
  const std::span<const std::int32_t> built(list, static_cast<std::size_t>(count));
  const int capability = device.major * 10 + device.minor;
  std::string names;
  for (const std::int32_t each : built) {
    // Code for a device runs on those of the same generation that came after it; the last one's is also there in a
    // form that drivers translate for later generations.
    if (each / 10 == device.major && each <= capability) return {};
    if (each == built.back() && each < capability) return {};
    names += fmt::format("{}sm_{}", names.empty() ? "" : ", ", each);
  }
  return Error{Code::kInvalidArgument,
               fmt::format("cuda: {} is sm_{}, and the plug-in has code for {} and later ones: rebuild it with "
                           "-DCMAKE_CUDA_ARCHITECTURES={}",
                           device.name, capability, names, capability)};
}

}  // namespace troupe::gpu
