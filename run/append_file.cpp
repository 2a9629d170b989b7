#include <troupe/run/append_file.hpp>

#include <fmt/core.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

namespace troupe::apps {
namespace {

constexpr std::size_t kPendingMax = 1 << 20;

}  // namespace

Result<AppendFile> AppendFile::open(std::string path) {
  std::FILE* file = std::fopen(path.c_str(), "ab");
  if (file == nullptr) return Error{Code::kIo, fmt::format("{}: cannot append: {}", path, std::strerror(errno))};
  std::setvbuf(file, nullptr, _IONBF, 0);  // the buffer is ours: it ends between two records
  std::fseek(file, 0, SEEK_END);
  const off_t bytes = ftello(file);
  return AppendFile(std::move(path), file, bytes);
}

Status AppendFile::append(std::string_view record) {
  pending_ += record;
  return pending_.size() > kPendingMax ? flush() : Status();
}

Status AppendFile::flush() {
  const std::string records = std::exchange(pending_, {});
  if (std::fwrite(records.data(), 1, records.size(), file_.get()) == records.size()) {
    bytes_ += static_cast<off_t>(records.size());
    return {};
  }
  const Error error{Code::kIo, fmt::format("{}: append failed: {}", path_, std::strerror(errno))};
  std::clearerr(file_.get());
  if (ftruncate(fileno(file_.get()), bytes_) != 0) {
    return Error{Code::kIo,
                 fmt::format("{}, nor can what came of it be taken back: {}", error.message, std::strerror(errno))};
  }
  return error;
}

}  // namespace troupe::apps
