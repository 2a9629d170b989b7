#include <troupe/pjrt/client.hpp>

#include <fmt/format.h>

namespace troupe::pjrt {

Result<DeviceInfo> describe(const Plugin& plugin, c::DeviceDescription* description) {
  c::DeviceDescriptionKind kind{.description = description};
  c::DeviceDescriptionAttributes attributes{.description = description};
  TROUPE_TRY(plugin.call(kind));
  TROUPE_TRY(plugin.call(attributes));
  return DeviceInfo{std::string(kind.text, kind.size), from_c(attributes.attributes, attributes.count)};
}

Result<std::shared_ptr<const Client>> Client::make(std::shared_ptr<const Plugin> plugin,
                                                   const std::vector<NamedValue>& options) {
  const std::vector<c::NamedValue> given = to_c(options);
  c::ClientCreate args{.options = given.data(), .count = given.size()};
  TROUPE_TRY(plugin->call(args));
  std::shared_ptr<Client> made(new Client(std::move(plugin), args.client));
  c::ClientPlatformName name{.client = args.client};
  c::ClientPlatformVersion version{.client = args.client};
  c::ClientAddressableDevices devices{.client = args.client};
  TROUPE_TRY(made->plugin_->call(name));
  TROUPE_TRY(made->plugin_->call(version));
  TROUPE_TRY(made->plugin_->call(devices));
  made->platform_.assign(name.text, name.size);
  made->version_.assign(version.text, version.size);
  made->devices_.assign(devices.devices, devices.devices + devices.count);
  return std::shared_ptr<const Client>(std::move(made));
}

Client::~Client() { plugin_->destroy<c::ClientDestroy>(client_); }

Result<c::Device*> Client::at(std::size_t index) const {
  if (index < devices_.size()) return devices_[index];
  return Error{Code::kOutOfRange,
               fmt::format("pjrt: device {} of {} on platform {}", index, devices_.size(), platform_)};
}

Result<DeviceInfo> Client::device(std::size_t index) const {
  TROUPE_ASSIGN(c::Device* const device, at(index));
  c::DeviceGetDescription args{.device = device};
  TROUPE_TRY(plugin_->call(args));
  return describe(*plugin_, args.description);
}

Result<DeviceMemory> Client::device_memory(std::size_t index) const {
  TROUPE_ASSIGN(c::Device* const device, at(index));
  c::DeviceMemoryStats args{.device = device};
  TROUPE_TRY(plugin_->call(args));
  const auto known = [](const c::OptionalInt64& from) {
    return from.is_set ? std::optional(from.value) : std::nullopt;
  };
  return DeviceMemory{args.bytes_in_use, known(args.peak_bytes_in_use), known(args.bytes_limit)};
}

Result<Buffer> Client::copy_from_host(const HostArray& array, std::size_t index) const {
  TROUPE_ASSIGN(c::Device* const device, at(index));
  c::ClientBufferFromHostBuffer args{.client = client_,
                                     .data = array.data,
                                     .type = type_of(array.dtype),
                                     .dims = array.shape.dims().data(),
                                     .rank = array.shape.dims().size(),
                                     .semantics = c::kImmutableOnlyDuringCall,
                                     .device = device};
  TROUPE_TRY(plugin_->call(args));
  plugin_->destroy<c::EventDestroy>(args.done_with_host);
  return Buffer(keeper(), args.buffer);
}

bool Client::can_view(const void* data) const {
  constexpr std::uintptr_t kAlignment = 64;
  return is_host() && reinterpret_cast<std::uintptr_t>(data) % kAlignment == 0;
}

Result<Buffer> Client::view_of_host(const HostArray& array, std::size_t index) const {
  if (!can_view(array.data)) {
    return Error{Code::kInvalidArgument,
                 fmt::format("pjrt: a view wants memory of the host aligned to 64 bytes, got {} on platform {}",
                             fmt::ptr(array.data), platform_)};
  }
  TROUPE_ASSIGN(c::Device* const device, at(index));
  c::ClientCreateViewOfDeviceBuffer args{.client = client_,
                                         .data = const_cast<void*>(array.data),  // written where donated, and it is not
                                         .dims = array.shape.dims().data(),
                                         .rank = array.shape.dims().size(),
                                         .type = type_of(array.dtype),
                                         .device = device,
                                         .on_delete = [](void*, void*) {}};  // null is allowed, and called by XLA's
  TROUPE_TRY(plugin_->call(args));
  return Buffer(keeper(), args.buffer);
}

Result<LoadedExecutable> Client::compile(std::string_view stablehlo, const CompileOptions& options) const {
  const c::Program program = program_of(stablehlo);
  const std::string proto = to_proto(options);
  c::ClientCompile args{.client = client_, .program = &program, .options = proto.data(), .options_size = proto.size()};
  TROUPE_TRY(plugin_->call(args));
  return LoadedExecutable::make(keeper(), args.executable);
}

Result<LoadedExecutable> Client::load(std::string_view serialised) const {
  c::ExecutableDeserializeAndLoad args{.client = client_, .bytes = serialised.data(), .size = serialised.size()};
  TROUPE_TRY(plugin_->call(args));
  return LoadedExecutable::make(keeper(), args.loaded);
}

}  // namespace troupe::pjrt
