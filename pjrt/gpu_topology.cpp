#include <troupe/pjrt/gpu_topology.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <string>

namespace troupe::pjrt {

namespace {

/// What XLA's cost models and ptxas have to know of a GPU: NVIDIA's data sheets and the occupancy tables of the CUDA
/// C++ programming guide ("Compute Capabilities").
struct Gpu {
  std::string_view name, description;
  int major = 0, minor = 0;
  int cores = 0;               ///< multiprocessors
  std::int64_t memory = 0;     ///< bytes
  std::int64_t bandwidth = 0;  ///< bytes/s
  std::int64_t l2 = 0;         ///< bytes
  double clock = 0;            ///< GHz
  int shared_of_core = 0;      ///< bytes
  int shared_of_block = 0;     ///< bytes that a block may ask for
};
constexpr std::array<Gpu, 3> kGpus{{
    {"a100", "NVIDIA A100-SXM4-80GB", 8, 0, 108, 85'899'345'920, 2'039'000'000'000, 41'943'040, 1.41, 167'936, 166'912},
    {"h100", "NVIDIA H100 80GB HBM3", 9, 0, 132, 85'899'345'920, 3'352'000'000'000, 52'428'800, 1.98, 233'472, 232'448},
    {"h200", "NVIDIA H200", 9, 0, 132, 151'397'597'184, 4'800'000'000'000, 62'914'560, 1.98, 233'472, 232'448},
}};

/// A GpuTargetConfigProto as text.
std::string target(const Gpu& gpu) {
  return fmt::format(
      R"(gpu_device_info {{
  threads_per_block_limit: 1024
  threads_per_warp: 32
  shared_memory_per_block: 49152
  shared_memory_per_core: {}
  threads_per_core_limit: 2048
  core_count: {}
  fpus_per_core: {}
  block_dim_limit_x: 2147483647
  block_dim_limit_y: 65535
  block_dim_limit_z: 65535
  memory_bandwidth: {}
  l2_cache_size: {}
  clock_rate_ghz: {}
  device_memory_size: {}
  shared_memory_per_block_optin: {}
  cuda_compute_capability {{ major: {} minor: {} }}
  registers_per_core_limit: 65536
  registers_per_block_limit: 65536
}}
platform_name: "CUDA"
dnn_version_info {{ major: 9 minor: 12 }}
device_description_str: "{}"
)",
      gpu.shared_of_core, gpu.cores, gpu.major == 8 ? 64 : 128, gpu.bandwidth, gpu.l2, gpu.clock, gpu.memory,
      gpu.shared_of_block, gpu.major, gpu.minor, gpu.description);
}

/// 0: none.
int count(std::string_view text) {
  int number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && end == text.data() + text.size() && number > 0 && number <= 4096 ? number : 0;
}

const Gpu* find(std::string_view name) {
  const auto found = std::ranges::find(kGpus, name.substr(0, name.find(':')), &Gpu::name);
  return found == kGpus.end() ? nullptr : &*found;
}

}  // namespace

bool is_gpu_topology(std::string_view name) { return find(name) != nullptr; }

Result<std::vector<NamedValue>> gpu_topology(std::string_view name) {
  const Gpu* const gpu = find(name);
  const std::size_t colon = name.find(':');
  const std::string_view sizes = colon == std::string_view::npos ? "1" : name.substr(colon + 1);
  const std::size_t times = sizes.find('x');
  const int hosts = times == std::string_view::npos ? 1 : count(sizes.substr(0, times));
  const int gpus = count(times == std::string_view::npos ? sizes : sizes.substr(times + 1));
  if (gpu == nullptr || hosts == 0 || gpus == 0) {
    return Error{Code::kInvalidArgument,
                 fmt::format("topology \"{}\", expected a100, h100 or h200 and how many, such as \"h100:8\", or "
                             "\"h100:2x8\" for those of two hosts",
                             name)};
  }
  return std::vector<NamedValue>{{"topology", fmt::format("1x{}x{}", hosts, gpus)}, {"target_config", target(*gpu)}};
}

}  // namespace troupe::pjrt
