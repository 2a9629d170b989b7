// What a process knows of NCCL before it is in any group: the library's version, and which GPU is its own.
#include <fmt/format.h>
#include <sys/stat.h>

#include <array>

#include <troupe/collectives/detail/nccl_library.hpp>
#include <troupe/collectives/nccl.hpp>

namespace troupe::collectives {
namespace {

using detail::NcclLibrary;

Result<int> version_of(const NcclLibrary& library) {
  int version = 0;
  if (const ncclResult_t result = library.version(&version); result != ncclSuccess) {
    return Error{Code::kUnavailable, fmt::format("nccl: ncclGetVersion: {}", library.error_string(result))};
  }
  return version;
}

}  // namespace

Result<std::string> nccl_version() {
  TROUPE_ASSIGN(const std::shared_ptr<const NcclLibrary> library, NcclLibrary::open({}));
  TROUPE_ASSIGN(const int version, version_of(*library));
  return nccl_version_text(version);
}

Result<NcclMember> nccl_member(const NcclOptions& options) {
  TROUPE_ASSIGN(const std::shared_ptr<const NcclLibrary> library, NcclLibrary::open(options.library));
  TROUPE_ASSIGN(const int version, version_of(*library));
  std::array<char, 64> bus{};  // "0000:1b:00.0": unlike its index, the same for all processes of a host
  if (const cudaError_t error = library->pci_bus_id(bus.data(), static_cast<int>(bus.size()), options.device);
      error != cudaSuccess) {
    return Error{Code::kUnavailable, fmt::format("nccl: device {}: its place on the bus: {}", options.device,
                                                 library->cuda_error_string(error))};
  }
  NcclMember member{.device = options.device, .version = version, .interface = !options.interface.empty()};
  for (const char* c = bus.data(); *c != '\0'; ++c) {
    member.gpu = (member.gpu ^ static_cast<unsigned char>(*c)) * 1099511628211ULL;  // as FNV-1a
  }
  struct stat network {};
  if (stat("/proc/self/ns/net", &network) == 0) member.loopback = network.st_ino;
  return member;
}

}  // namespace troupe::collectives
