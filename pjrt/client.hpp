#pragma once
// The devices of one PJRT plug-in as this process uses them: moving arrays there and back, compiling and running
// programs. An engine of the learner makes one client for each plug-in; threads may share it.
#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <troupe/core/tensor.hpp>
#include <troupe/pjrt/buffer.hpp>
#include <troupe/pjrt/compile_options.hpp>
#include <troupe/pjrt/executable.hpp>
#include <troupe/pjrt/plugin.hpp>

namespace troupe::pjrt {

struct DeviceInfo {
  std::string kind;  ///< "cpu", "TPU v5 lite"
  std::vector<NamedValue> attributes;
};

struct DeviceMemory {
  std::int64_t bytes_in_use = 0;
  std::optional<std::int64_t> bytes_peak, bytes_limit;
};

/// An array of the host's, row-major.
struct HostArray {
  const void* data = nullptr;
  DType dtype = DType::kF32;
  Shape shape;
};

class Client : public std::enable_shared_from_this<Client> {
 public:
  /// Takes the plug-in's devices into use, with options of the plug-in's such as cpu_device_count of the processor's.
  /// Errors: the plug-in's, such as kNotFound where there is no such device.
  static Result<std::shared_ptr<const Client>> make(std::shared_ptr<const Plugin> plugin,
                                                    const std::vector<NamedValue>& options = {});
  ~Client();
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  const Plugin& plugin() const { return *plugin_; }
  /// "cpu", "tpu", "cuda".
  const std::string& platform() const { return platform_; }
  const std::string& platform_version() const { return version_; }
  /// Whether its devices' memory is the host's.
  bool is_host() const { return platform_ == "cpu"; }
  std::size_t devices() const { return devices_.size(); }
  Result<DeviceInfo> device(std::size_t index) const;
  /// Errors: some plug-ins do not say.
  Result<DeviceMemory> device_memory(std::size_t index) const;

  /// An array copied to a device; `data` may change as soon as this returns.
  Result<Buffer> copy_from_host(const HostArray& array, std::size_t device = 0) const;
  /// Whether an array can be viewed: is_host(), and `data` is aligned to the 64 bytes that XLA's code may rely on.
  bool can_view(const void* data) const;
  /// A buffer that is the array itself, for every run to come: each reads what `data` holds then, which must be valid
  /// and stay as it is until the run has ended. The buffer must not be donated. Errors: !can_view().
  Result<Buffer> view_of_host(const HostArray& array, std::size_t device = 0) const;

  /// Compiles StableHLO text and loads it on the devices of the options. Takes seconds for large programs.
  /// Errors: the plug-in's, with the line and column that it does not understand.
  Result<LoadedExecutable> compile(std::string_view stablehlo, const CompileOptions& options = {}) const;
  /// Of Executable::serialised() of the same build of the same plug-in.
  Result<LoadedExecutable> load(std::string_view serialised) const;

 private:
  Client(std::shared_ptr<const Plugin> plugin, c::Client* client) : plugin_(std::move(plugin)), client_(client) {}
  /// The plug-in, in a pointer that keeps this client too.
  std::shared_ptr<const Plugin> keeper() const { return {shared_from_this(), plugin_.get()}; }
  Result<c::Device*> at(std::size_t index) const;

  std::shared_ptr<const Plugin> plugin_;
  c::Client* client_;
  std::string platform_, version_;
  std::vector<c::Device*> devices_;
};

/// Of a device that is there or, in a topology, need not be.
Result<DeviceInfo> describe(const Plugin& plugin, c::DeviceDescription* description);

}  // namespace troupe::pjrt
