#pragma once
// What a program runs on, as configurations name it: "cpu", "cuda:0", "tpu:0", "pjrt:cpu", or "auto".
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <troupe/core/error.hpp>

namespace troupe::learner {

/// The processor, one device of another engine, or what is best where the program is compiled.
struct Device {
  /// Or "cuda"; "tpu", "pjrt:NAME" or "pjrt:PATH" of a plug-in with PJRT's C API; or "auto" until resolve().
  std::string engine = "cpu";
  int index = 0;  ///< among the engine's devices; 0 of "cpu" and "auto"
  bool is_gpu() const { return engine == "cuda"; }
  bool is_pjrt() const { return engine == "tpu" || engine.starts_with("pjrt:"); }
  friend bool operator==(const Device&, const Device&) = default;
};
inline Device gpu_device(int index) { return {"cuda", index}; }

/// "cpu", "cuda:1", "tpu:0", "pjrt:cpu#0" or "auto".
std::string to_string(const Device& device);

/// Of these names, without a look at the machine: it may be another one. Errors: kInvalidArgument, with what was got
/// and expected.
Result<Device> parse_device(std::string_view text);

/// The same of a list, which several replicas or instances share: number i has the i-th, modulo their count.
Result<std::vector<Device>> parse_devices(std::span<const std::string> texts);
/// The device of number `index` among `devices`; of none the processor.
Device device_of(std::span<const Device> devices, std::int64_t index);

/// "auto" becomes the first GPU of this machine, or the processor where none can be used, and the first time in a
/// process one line of the log says which, and why. Others stay.
Device resolve(const Device& device);

}  // namespace troupe::learner
