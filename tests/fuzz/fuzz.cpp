#include <troupe/tests/fuzz/fuzz.hpp>

#include <fcntl.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>

namespace troupe::fuzz {
namespace {

void write_file(const std::string& path, Bytes bytes) {
  const int fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  TROUPE_CHECK(fd >= 0, "cannot write {}", path);
  const ssize_t written = ::write(fd, bytes.data(), bytes.size());
  TROUPE_CHECK(::close(fd) == 0 && written == static_cast<ssize_t>(bytes.size()), "cannot write {}", path);
}

std::string make_scratch_folder() {
  std::string path = (std::filesystem::temp_directory_path() / "troupe-fuzz-XXXXXX").string();
  TROUPE_CHECK(::mkdtemp(path.data()) != nullptr, "cannot make {}", path);
  static std::string made;
  made = path;
  std::atexit([] {
    std::error_code ignored;
    std::filesystem::remove_all(made, ignored);
  });
  return path;
}

std::vector<Target>& registered() {
  static std::vector<Target> targets;
  return targets;
}

}  // namespace

const std::vector<Target>& targets() { return registered(); }
Registered::Registered(const Target& target) { registered().push_back(target); }

std::string part(std::string_view bytes) {
  const auto size = static_cast<std::uint16_t>(bytes.size());
  TROUPE_CHECK(size == bytes.size(), "a part of {} bytes", bytes.size());
  std::string out(sizeof(size), '\0');
  std::memcpy(out.data(), &size, sizeof(size));
  return out.append(bytes);
}

const std::string& scratch_folder() {
  static const std::string folder = make_scratch_folder();
  return folder;
}

std::string scratch_file(const std::string& name, Bytes bytes) {
  std::string path = scratch_folder() + "/" + name;
  write_file(path, bytes);
  return path;
}

}  // namespace troupe::fuzz
