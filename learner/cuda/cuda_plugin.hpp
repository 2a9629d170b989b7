#pragma once
// Opens the CUDA plug-in at run time and asks it what there is. The GPU engine of the learner builds on api(); without
// a GPU, or on a build without CUDA, nothing here is ever called and the learner runs on the CPU.
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include <troupe/learner/cuda/api.h>
#include <troupe/core/error.hpp>

namespace troupe::learner {

struct CudaDevice {
  int index = 0;     ///< what the functions of the table take as `device`
  std::string name;  ///< as the driver tells it, e.g. "NVIDIA H200"
};

/// A loaded plug-in. Copies share it; the library is closed when the last one goes, so the table must not outlive it.
class CudaPlugin {
 public:
  /// Opens the shared object at `path`. Errors: kNotFound (no such file), kInvalidArgument (not a plug-in of Troupe, or
  /// one of another ABI: rebuild it), kUnavailable (a library that it needs is missing). Loading succeeds on a machine
  /// without a driver; devices() then says so.
  static Result<CudaPlugin> load(const std::filesystem::path& path);

  /// The devices, never an empty list. Errors: kUnavailable with the driver's own words: no driver, too old, no device.
  Result<std::vector<CudaDevice>> devices() const;

  const TroupeCudaApi& api() const { return *api_; }

 private:
  CudaPlugin(std::shared_ptr<void> library, const TroupeCudaApi* api) : library_(std::move(library)), api_(api) {}

  std::shared_ptr<void> library_;
  const TroupeCudaApi* api_;
};

}  // namespace troupe::learner
