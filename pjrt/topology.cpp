#include <troupe/pjrt/topology.hpp>

#include <span>

namespace troupe::pjrt {

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
