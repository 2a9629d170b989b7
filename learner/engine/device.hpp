#pragma once
// What a program runs on, as configurations name it: "cpu", "cuda:0", or "auto".
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <troupe/core/error.hpp>

namespace troupe::learner {

/// The processor, one GPU, or what is best where the program is compiled.
struct Device {
  static constexpr int kCpu = -1, kAuto = -2;
  int cuda = kCpu;  ///< index of the GPU, or one of the above
  bool is_gpu() const { return cuda >= 0; }
  friend bool operator==(Device, Device) = default;
};

/// "cpu", "cuda:1" or "auto".
std::string to_string(Device device);

/// Of these names, without a look at the machine: it may be another one. Errors: kInvalidArgument, with what was got
/// and expected.
Result<Device> parse_device(std::string_view text);

/// The same of a list, which several replicas or instances share: number i has the i-th, modulo their count.
Result<std::vector<Device>> parse_devices(std::span<const std::string> texts);
/// The device of number `index` among `devices`; of none the processor.
Device device_of(std::span<const Device> devices, std::int64_t index);

/// kAuto becomes the first GPU of this machine, or the processor where none can be used, and the first time in a
/// process one line of the log says which, and why. Others stay.
Device resolve(Device device);

}  // namespace troupe::learner
