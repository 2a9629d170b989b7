#pragma once
// The PJRT clients of this process, one for each plug-in, and where plug-ins are found by the names that configurations
// have for devices. Used by the engine and by commands that show what there is.
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <troupe/core/error.hpp>
#include <troupe/pjrt/client.hpp>

namespace troupe::learner {

/// The plug-in of an engine's name: "tpu", "pjrt:NAME" or "pjrt:PATH". Errors: pjrt::find_plugin()'s.
Result<std::filesystem::path> find_pjrt_plugin(std::string_view engine);

/// The client of that plug-in, made at the first call in a process; a failure stays. Of the processor's there is one
/// for each number of devices, 1 to kPjrtCpuDevices: each of its devices adds a thread to those that share a product,
/// and with more threads than processors XLA took 15.4 ms for a step of D4PG that takes 10.0 (two processors, 8 devices
/// and 1, 2026-11-28). Others have the devices that there are.
Result<std::shared_ptr<const pjrt::Client>> pjrt_client(const std::string& engine, int devices = 1);
inline constexpr int kPjrtCpuDevices = 8;

/// XLA's flags that programs of this client are compiled with, unless XLA_FLAGS says otherwise. On processors sums are
/// YNNPACK's, as in newer plug-ins by themselves: XLA's own sum over all axes but the last goes through memory once for
/// each channel, and took half of a step of SN-GAN or ResNet-50. A plug-in that does not know the flag goes without.
std::vector<pjrt::NamedValue> compile_flags(const pjrt::Client& client);

}  // namespace troupe::learner
