#include <troupe/learner/engine/device.hpp>

#include <fmt/format.h>

#include <charconv>
#include <mutex>

#include <troupe/core/log.hpp>
#include <troupe/gpu/gpu.hpp>

namespace troupe::learner {

std::string to_string(const Device& device) {
  if (!device.is_gpu() && !device.is_pjrt()) return device.engine;
  return fmt::format("{}{}{}", device.engine, device.engine.starts_with("pjrt:") ? '#' : ':', device.index);
}

Result<Device> parse_device(std::string_view text) {
  if (text == "cpu" || text == "auto") return Device{std::string(text)};
  const bool is_pjrt = text.starts_with("pjrt:");
  const std::size_t at = is_pjrt ? text.rfind('#') : text.find(':');
  Device device{std::string(text.substr(0, at)), is_pjrt && at == std::string_view::npos ? 0 : -1};
  if (at != std::string_view::npos) {
    const std::string_view number = text.substr(at + 1);
    const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), device.index);
    if (error != std::errc() || end != number.data() + number.size()) device.index = -1;
  }
  if (device.index >= 0 && device.engine != "pjrt:" && (device.is_gpu() || device.is_pjrt())) return device;
  return Error{
      Code::kInvalidArgument,
      fmt::format("device \"{}\", expected \"auto\", \"cpu\", \"cuda:N\", \"tpu:N\" or \"pjrt:NAME#N\"", text)};
}

Result<std::vector<Device>> parse_devices(std::span<const std::string> texts) {
  std::vector<Device> devices;
  for (const std::string& text : texts) {
    TROUPE_ASSIGN(const Device device, parse_device(text));
    devices.push_back(device);
  }
  return devices;
}

Device device_of(std::span<const Device> devices, std::int64_t index) {
  return devices.empty() ? Device{} : devices[static_cast<std::size_t>(index) % devices.size()];
}

Device resolve(const Device& device) {
  if (device.engine != "auto") return device;
  const auto gpu = gpu::Gpu::open(0);
  static std::once_flag told;
  std::call_once(told, [&gpu] {
    log::info("device auto: {}", gpu.ok() ? fmt::format("cuda:0 ({})", (*gpu)->about().name)
                                          : fmt::format("cpu, because {}", gpu.error().message));
  });
  return gpu.ok() ? gpu_device(0) : Device{};
}

}  // namespace troupe::learner
