#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include <troupe/collectives/detail/sealed_file.hpp>

namespace troupe::collectives::detail {
namespace {

constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;

Error system_error(std::string_view what, Code code) {
  return {code, fmt::format("shared memory: {}: {}", what, std::strerror(errno))};
}

Result<std::byte*> map(int file, std::size_t bytes, void* at, Code code) {
  void* const memory = mmap(at, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | (at == nullptr ? 0 : MAP_FIXED), file, 0);
  if (memory == MAP_FAILED) return system_error(fmt::format("mapping {} bytes", bytes), code);
  return static_cast<std::byte*>(memory);
}

}  // namespace

Result<SealedFile> make_sealed_file(const char* name, std::size_t bytes) {
  const int file = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (file < 0) return system_error("memfd_create", Code::kIo);
  struct stat status {};
  if (ftruncate(file, static_cast<off_t>(bytes)) != 0 || fcntl(file, F_ADD_SEALS, kSeals) != 0 ||
      fstat(file, &status) != 0) {
    const Error error = system_error(fmt::format("{} bytes", bytes), Code::kIo);
    close(file);
    return error;
  }
  return SealedFile{.file = file, .id = status.st_ino, .bytes = bytes};
}

Result<std::byte*> map_sealed_file(const SealedFile& file, void* at) {
  return map(file.file, file.bytes, at, Code::kIo);
}

Result<std::byte*> map_peer_file(std::int64_t process, const SealedFile& file) {
  const std::string path = fmt::format("/proc/{}/fd/{}", process, file.file);
  const int opened = ::open(path.c_str(), O_RDWR | O_CLOEXEC);
  if (opened < 0) return system_error(path, Code::kUnavailable);
  struct stat status {};
  const bool is_file = fstat(opened, &status) == 0 && static_cast<std::uint64_t>(status.st_size) == file.bytes &&
                       (file.id == 0 || status.st_ino == file.id) && (fcntl(opened, F_GET_SEALS) & kSeals) == kSeals;
  Result<std::byte*> memory = Error{Code::kCorrupt, fmt::format("shared memory: {} is no group's memory", path)};
  if (is_file) memory = map(opened, file.bytes, nullptr, Code::kUnavailable);
  close(opened);  // the mapping stays
  return memory;
}

}  // namespace troupe::collectives::detail
