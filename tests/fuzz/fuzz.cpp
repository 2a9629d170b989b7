// libFuzzer's entry points. `NAME_fuzz --seeds DIRECTORY` writes the target's seeds there instead.
#include <troupe/tests/fuzz/fuzz.hpp>

#include <fcntl.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>

#include <troupe/core/log.hpp>

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

}  // namespace

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

extern "C" int LLVMFuzzerInitialize(int* count, char*** arguments) {
  using namespace troupe;
  log::set_level(log::Level::kOff);
  if (*count != 3 || std::string_view((*arguments)[1]) != "--seeds") return 0;
  int number = 0;
  for (const std::string& seed : fuzz::seeds()) {
    fuzz::one_input(fuzz::bytes_of(seed));
    fuzz::write_file(fmt::format("{}/{:02}", (*arguments)[2], ++number), fuzz::bytes_of(seed));
  }
  std::exit(0);
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  troupe::fuzz::one_input(std::as_bytes(std::span(data, size)));
  return 0;
}
