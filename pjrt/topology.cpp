#include <troupe/pjrt/topology.hpp>

#include <cstdlib>
#include <span>

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

Result<Topology> Topology::make(std::shared_ptr<const Plugin> plugin, std::string_view name,
                                const std::vector<NamedValue>& options) {
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
