// How this machine computes, what of a GPU's software it has, what is missing and what to do about it.
#include <CLI/CLI.hpp>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <thread>
#include <utility>
#include <vector>

#include <troupe/apps/commands/commands.hpp>
#include <troupe/collectives/nccl.hpp>
#include <troupe/core/installation.hpp>
#include <troupe/gpu/cuda_plugin.hpp>
#include <troupe/learner/engine/cpu/fastest.hpp>
#include <troupe/learner/engine/cpu/gemm.hpp>
#include <troupe/learner/engine/cpu/instruction_set.hpp>
#include <troupe/learner/engine/cpu/kernels/kernel_table.hpp>
#include <troupe/learner/engine/device.hpp>
#include <troupe/learner/engine/pjrt/pjrt_clients.hpp>
#include <troupe/pjrt/find_plugin.hpp>
#include <troupe/pjrt/plugin.hpp>
#include <troupe/run/say.hpp>

namespace troupe::apps {

namespace {

using gpu::CudaDevice;
using gpu::CudaPlugin;
using gpu::CudnnPlugin;

constexpr std::size_t kColumns = 100, kIndent = 11;

/// Broken between words, the further lines below the first.
void line(std::string_view name, std::string_view what) {
  std::string text = fmt::format("{:<{}}", name, kIndent);
  std::size_t column = kIndent;
  while (!what.empty()) {
    const std::size_t length = std::min(what.find(' '), what.size());
    if (column > kIndent && column + 1 + length > kColumns) {
      text += fmt::format("\n{:{}}", "", kIndent);
      column = kIndent;
    } else if (column > kIndent) {
      text += ' ';
      ++column;
    }
    text += what.substr(0, length);
    column += length;
    what.remove_prefix(std::min(length + 1, what.size()));
  }
  say("{}\n", text);
}

void show_device(const CudaPlugin& plugin, const CudaDevice& device) {
  const Status usable = plugin.check_code_for(device);
  line(fmt::format("cuda:{}", device.index),
       fmt::format("{}, sm_{}{}, {:.0f} GiB{}", device.name, device.major, device.minor,
                   static_cast<double>(device.total_bytes) / (1U << 30),
                   usable.ok() ? "" : fmt::format("; {}", usable.error().message)));
}

void show_plugin(const CudaPlugin& plugin, const std::filesystem::path& path) {
  int built = 0, count = 0;
  const std::int32_t* list = nullptr;
  std::string about = path.string();
  if (plugin.api().runtime_version(&built) == 0) about += fmt::format(", CUDA {}", gpu::cuda_version_text(built));
  if (plugin.api().architectures(&list, &count) == 0) {
    about += ", code for";
    for (int i = 0; i < count; ++i) about += fmt::format("{} sm_{}", i == 0 ? "" : ",", list[i]);
  }
  line("plug-in", about);
}

void show_driver(const CudaPlugin& plugin) {
  int driver = 0;
  if (plugin.api().driver_version(&driver) != 0 || driver == 0) {
    return line("driver", "none: install NVIDIA's driver, 580 or newer (nvidia-smi shows it); programs run on the cpu");
  }
  line("driver", "for CUDA " + gpu::cuda_version_text(driver));  // whether that is enough, devices() says
}

void show_processor() {
  const bool bf16 = learner::multiplies_bf16();
  line("processor",
       fmt::format("{} threads, {} kernels{}, products by {}, {}", std::thread::hardware_concurrency(),
                   learner::kernels_f32().instruction_set,
                   learner::may_use(learner::InstructionSet::kAll) ? "" : " (TROUPE_MAX_ISA holds them down)",
                   learner::to_string(learner::resolve(learner::GemmBackend::kAuto)),
                   bf16 ? "bf16 by its own instructions" : "bf16 by way of fp32"));
}

/// What was measured to be fastest, the longest shapes first.
void show_plans() {
  constexpr std::size_t kLines = 60;
  const learner::PlanCache measured = learner::measurer().measured();
  std::vector<std::pair<std::string, learner::MeasuredWays>> shapes(measured.all().begin(), measured.all().end());
  std::ranges::sort(shapes,
                    [](const auto& a, const auto& b) { return a.second.ways[0].micros > b.second.ways[0].micros; });
  line("plans", measured.path().empty() ? "no cache folder of this user's own: each start measures what is fastest anew"
                : shapes.empty()        ? "nothing measured yet; training measures what is fastest here"
                                        : fmt::format("{} shapes measured, the first way is taken; to measure again, "
                                                             "remove {}",
                                                      shapes.size(), measured.path()));
  for (std::size_t i = 0; i < std::min(shapes.size(), kLines); ++i) {
    std::vector<std::string> ways;
    for (const auto& way : shapes[i].second.ways) ways.push_back(fmt::format("{} {:.0f} us", way.name, way.micros));
    line("", fmt::format("{}: {}", shapes[i].first, fmt::join(ways, ", ")));
  }
  if (shapes.size() > kLines) line("", fmt::format("and {} more", shapes.size() - kLines));
}

/// The plug-ins that are found under the names that devices have, and what they have for devices here.
void show_pjrt() {
  const auto is_there = [](std::initializer_list<const char*> files) {
    return std::ranges::any_of(files, [](const char* file) { return std::filesystem::exists(file); });
  };
  for (const std::string& name : pjrt::plugin_names()) {
    const std::string engine = name == "tpu" ? name : "pjrt:" + name;
    const auto path = learner::find_pjrt_plugin(engine);
    if (!path.ok()) {
      line("PJRT", path.error().message);
      continue;
    }
    // Without a device their libraries say so in a page of warnings.
    const bool here = engine == "tpu" ? is_there({"/dev/accel0", "/dev/vfio/0"})
                                      : engine != "pjrt:cuda" || is_there({"/dev/nvidiactl", "/dev/dxg"});
    if (!here) {
      const Status whole = pjrt::Plugin::check_file(*path);
      line("PJRT", whole.ok() ? fmt::format("{}: no such device here; {} compiles for them", engine, path->string())
                              : fmt::format("{}: {}", engine, whole.error().message));
      continue;
    }
    const auto client = learner::pjrt_client(engine, learner::kPjrtCpuDevices);
    line("PJRT", client.ok() ? fmt::format("{}: {} devices, {}, {}", engine, (*client)->devices(),
                                           (*client)->plugin().name(), path->string())
                             : fmt::format("{}: {}", engine, client.error().message));
  }
}

int doctor() {
  show_processor();
  show_plans();
  const std::filesystem::path path = gpu::find_plugin("libtroupe_cuda.so");
  const auto plugin = CudaPlugin::load(path);
  if (!plugin.ok()) {
    line("plug-in", fmt::format("{}; it is built where CMake finds nvcc, and looked for in $TROUPE_PLUGIN_PATH, beside "
                                "the program and in {}",
                                plugin.error().message, installation().libraries.string()));
  } else {
    show_plugin(*plugin, path);
    show_driver(*plugin);
    if (const auto devices = plugin->devices(); devices.ok()) {
      for (const CudaDevice& device : *devices) show_device(*plugin, device);
    } else {
      line("devices", devices.error().message);
    }
  }
  const std::filesystem::path cudnn_path = gpu::find_plugin("libtroupe_cudnn.so");
  const auto cudnn = CudnnPlugin::load(cudnn_path);
  int version = 0;
  line("cuDNN",
       !cudnn.ok() ? fmt::format("{}; only programs that convolve need it", cudnn.error().message)
       : cudnn->api().version(&version) == 0
           ? fmt::format("{}.{}.{}, {}", version / 10000, version / 100 % 100, version % 100, cudnn_path.string())
           : std::string(cudnn->api().library_error()));
  const auto nccl = collectives::nccl_version();
  line("NCCL", nccl.ok() ? *nccl : fmt::format("{}; only groups of several GPUs need it", nccl.error().message));
  show_pjrt();
  line("auto", learner::to_string(learner::resolve({"auto"})));
  return kExitOk;
}

}  // namespace

void add_doctor_command(CLI::App& app, Command* chosen) {
  app.add_subcommand("doctor",
                     "Show how this machine computes, what it has for GPUs and other devices, and what is missing")
      ->callback([chosen] { *chosen = doctor; });
}

}  // namespace troupe::apps
