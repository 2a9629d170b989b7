#pragma once
// Devices that need not be there, by their names: programs compile for them, which shows that they compile, how much
// memory they take and what they cost. Checks before a run on a machine that is not at hand use it.
#include <string>
#include <string_view>
#include <vector>

#include <troupe/pjrt/client.hpp>
#include <troupe/pjrt/compile_options.hpp>
#include <troupe/pjrt/executable.hpp>

namespace troupe::pjrt {

/// What libtpu reads from the environment as it is loaded; what the user has set stays. Without these it asks a cloud's
/// metadata server for minutes where there is no TPU, and writes logs.
void prepare_libtpu();
/// The same for a process that only compiles: without these it asks that server which TPU it has, and refuses a second
/// process.
void prepare_libtpu_to_compile();

/// XLA's compiler for GPUs runs the CUDA toolkit's ptxas: unless XLA_FLAGS name a folder, that of PATH. Errors:
/// kNotFound where there is none.
Status prepare_cuda_to_compile();

class Topology {
 public:
  /// Such as "v5e:2x2" of libtpu, or "h100:8" of CUDA's plug-in (gpu_topology.hpp). Errors: kInvalidArgument; the
  /// plug-in's; those that only run programs have no topologies.
  static Result<Topology> make(std::shared_ptr<const Plugin> plugin, std::string_view name);

  Result<std::vector<DeviceInfo>> devices() const;
  /// As Client::compile. Some compilers end the process on programs that are not well formed, so what is not certain to
  /// be goes into a process of its own. Errors: the plug-in's, such as kUnavailable for a program that needs more
  /// memory than a device has.
  Result<Executable> compile(std::string_view stablehlo, const CompileOptions& options = {}) const;

 private:
  Handle<c::TopologyDescription, c::TopologyDescriptionDestroy> handle_;
};

}  // namespace troupe::pjrt
