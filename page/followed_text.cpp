#include <troupe/page/followed_text.hpp>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string_view>

#include <troupe/core/text.hpp>

namespace troupe::page {

Status FollowedText::poll() {
  const int fd = open(path_.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  if (fd < 0 && errno == ENOENT) return {};
  if (fd < 0) return Error{Code::kIo, fmt::format("open {}: {}", path_.string(), std::strerror(errno))};
  struct stat now = {};
  std::string text;
  bool begins_inside = false;
  if (fstat(fd, &now) == 0 && S_ISREG(now.st_mode)) {
    if (now.st_ino != inode_ || now.st_size < offset_) offset_ = 0;
    inode_ = now.st_ino;
    if (now.st_size - offset_ > kBytesMax) {
      offset_ = now.st_size - kBytesMax;
      begins_inside = true;
    }
    text.resize(static_cast<std::size_t>(now.st_size - offset_));
    const ssize_t got = pread(fd, text.data(), text.size(), offset_);
    text.resize(got < 0 ? 0 : static_cast<std::size_t>(got));
  }
  close(fd);
  std::string_view rest = text;
  if (begins_inside) rest.remove_prefix(std::min(rest.find('\n'), rest.size() - 1) + 1);
  for (std::size_t end = rest.find('\n'); end != std::string_view::npos; end = rest.find('\n')) {
    lines_.push_back(printable(rest.substr(0, end), kLineBytesMax));
    rest.remove_prefix(end + 1);
    if (lines_.size() <= lines_max_) continue;
    lines_.pop_front();
    ++before_;
  }
  offset_ += static_cast<off_t>(text.size() - rest.size());
  return {};
}

}  // namespace troupe::page
