#pragma once
// Opens the CUDA plug-ins at run time and asks what there is. The GPU engine of the learner builds on their tables;
// without a GPU, or on a build without CUDA, nothing here is ever called and the learner runs on the CPU.
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <troupe/gpu/api.h>
#include <troupe/core/error.hpp>

namespace troupe::gpu {

struct CudaDevice {
  int index = 0;             ///< what the functions of the table take as `device`
  std::string name;          ///< as the driver tells it, e.g. "NVIDIA H200"
  int major = 0, minor = 0;  ///< compute capability
  std::int64_t total_bytes = 0;
};

/// "13.0" of 13000, as CUDA writes its versions in numbers.
std::string cuda_version_text(int version);

/// Where the shared object `file` is: in $TROUPE_PLUGIN_PATH (a folder), in the program's folder, beside Troupe's own
/// libraries (core/installation.hpp); where it is in none of them, `file` itself, which load() leaves to the system's
/// loader.
std::filesystem::path find_plugin(std::string_view file);

/// What a shared object gives: a table of functions. Copies share it; the library is closed when the last one goes, so
/// the table must not outlive it.
template <typename Api>
class Plugin {
 public:
  /// Opens the shared object at `path`. Errors: kNotFound (no such file), kInvalidArgument (not a plug-in of Troupe, or
  /// one of another ABI: rebuild it), kUnavailable (a library that it needs is missing).
  static Result<Plugin> load(const std::filesystem::path& path);

  const Api& api() const { return *api_; }

 private:
  Plugin(std::shared_ptr<void> library, const Api* api) : library_(std::move(library)), api_(api) {}

  std::shared_ptr<void> library_;
  const Api* api_;
};

/// The one that computes. Loading succeeds on a machine without a driver; devices() then says so.
class CudaPlugin : public Plugin<TroupeCudaApi> {
 public:
  static Result<CudaPlugin> load(const std::filesystem::path& path);

  /// The devices, never an empty list. Errors: kUnavailable with the driver's own words: no driver, too old, no device.
  Result<std::vector<CudaDevice>> devices() const;
  /// Errors: kInvalidArgument when the plug-in was built for other devices.
  Status check_code_for(const CudaDevice& device) const;

 private:
  explicit CudaPlugin(Plugin<TroupeCudaApi> table) : Plugin(std::move(table)) {}
};

/// With cuDNN. It works on the devices, streams and memory of the other one.
using CudnnPlugin = Plugin<TroupeCudnnApi>;
/// Kernels of somebody's own operations, which the first one launches.
using CudaKernels = Plugin<TroupeCudaKernels>;

}  // namespace troupe::gpu
