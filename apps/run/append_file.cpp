#include <troupe/apps/run/append_file.hpp>

#include <fmt/core.h>

#include <cerrno>
#include <cstring>
#include <utility>

namespace troupe::apps {

Result<AppendFile> AppendFile::open(std::string path) {
  std::FILE* file = std::fopen(path.c_str(), "ab");
  if (file == nullptr) return Error{Code::kIo, fmt::format("{}: cannot append: {}", path, std::strerror(errno))};
  return AppendFile(std::move(path), file);
}

Status AppendFile::append(std::string_view bytes) {
  if (std::fwrite(bytes.data(), 1, bytes.size(), file_.get()) != bytes.size()) return failed("append");
  return {};
}

Status AppendFile::flush() {
  if (std::fflush(file_.get()) != 0) return failed("flush");
  return {};
}

Error AppendFile::failed(std::string_view what) const {
  return {Code::kIo, fmt::format("{}: {} failed: {}", path_, what, std::strerror(errno))};
}

}  // namespace troupe::apps
