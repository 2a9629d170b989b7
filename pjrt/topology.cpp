#include <troupe/pjrt/topology.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <span>

#include <troupe/pjrt/gpu_topology.hpp>

namespace troupe::pjrt {

void prepare_libtpu() {
  setenv("TPU_SKIP_MDS_QUERY", "1", 0);
  setenv("TPU_LOG_DIR", "disabled", 0);
  setenv("TPU_MIN_LOG_LEVEL", "3", 0);
}

void prepare_libtpu_to_compile() {
  prepare_libtpu();
  setenv("ALLOW_MULTIPLE_LIBTPU_LOAD", "1", 0);
  setenv("TPU_ACCELERATOR_TYPE", "v5litepod-4", 0);
  setenv("TPU_WORKER_HOSTNAMES", "localhost", 0);
  setenv("TPU_WORKER_ID", "0", 0);
}

Status prepare_cuda_to_compile() {
  constexpr std::string_view kFlag = "--xla_gpu_cuda_data_dir=";
  const auto variable = [](const char* name) {
    const char* const value = std::getenv(name);
    return std::string(value != nullptr ? value : "");
  };
  const std::string flags = variable("XLA_FLAGS"), folders = variable("PATH") + ":/usr/local/cuda/bin";
  if (flags.find(kFlag) != std::string::npos) return {};
  for (std::string_view left = folders; !left.empty();) {
    const std::filesystem::path folder = left.substr(0, left.find(':'));
    left.remove_prefix(std::min(left.size(), folder.native().size() + 1));
    std::error_code ignored;
    if (folder.empty() || !std::filesystem::exists(folder / "ptxas", ignored)) continue;
    setenv("XLA_FLAGS", fmt::format("{} {}{}", flags, kFlag, folder.parent_path().string()).c_str(), 1);
    return {};
  }
  return Error{
      Code::kNotFound,
      "no ptxas on PATH: XLA's compiler for GPUs runs that of the CUDA toolkit, whose folder XLA_FLAGS can name "
      "as --xla_gpu_cuda_data_dir=FOLDER"};
}

Result<Topology> Topology::make(std::shared_ptr<const Plugin> plugin, std::string_view name) {
  std::vector<NamedValue> options;
  if (is_gpu_topology(name)) {
    TROUPE_ASSIGN(options, gpu_topology(name));
    name = {};
  }
  const std::vector<c::NamedValue> given = to_c(options);
  c::TopologyDescriptionCreate args{
      .name = name.data(), .name_size = name.size(), .options = given.data(), .count = given.size()};
  TROUPE_TRY(plugin->call(args));
  Topology made;
  made.handle_ = {std::move(plugin), args.topology};
  return made;
}

Result<std::vector<DeviceInfo>> Topology::devices() const {
  c::TopologyDescriptionGetDeviceDescriptions args{.topology = handle_.get()};
  TROUPE_TRY(handle_.plugin().call(args));
  std::vector<DeviceInfo> made;
  for (c::DeviceDescription* const each : std::span(args.descriptions, args.count)) {
    TROUPE_ASSIGN(DeviceInfo info, describe(handle_.plugin(), each));
    made.push_back(std::move(info));
  }
  return made;
}

Result<Executable> Topology::compile(std::string_view stablehlo, const CompileOptions& options) const {
  const c::Program program = program_of(stablehlo);
  const std::string proto = to_proto(options);
  c::Compile args{
      .topology = handle_.get(), .program = &program, .options = proto.data(), .options_size = proto.size()};
  TROUPE_TRY(handle_.plugin().call(args));
  return Executable(handle_.keeper(), args.executable);
}

}  // namespace troupe::pjrt
