#include <troupe/apps/cluster/detail/prefixed_output.hpp>

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <utility>

#include <fmt/core.h>

#include <troupe/core/text.hpp>
#include <troupe/run/say.hpp>

namespace troupe::apps::detail {
namespace {

constexpr std::size_t kWaitingBytesMax = 1 << 20;

}  // namespace

void LineCutter::append(std::string_view bytes, const Emit& emit) {
  while (!bytes.empty()) {
    const std::size_t end = bytes.find('\n');
    const std::string_view part = bytes.substr(0, end);
    // One byte more than is shown, so that what cuts the line short says so.
    line_.append(part.substr(0, kLogLineBytesMax + 1 - std::min(line_.size(), kLogLineBytesMax + 1)));
    if (end == std::string_view::npos) return;
    end_line(emit);
    bytes.remove_prefix(end + 1);
  }
}

void LineCutter::finish(const Emit& emit) {
  if (!line_.empty()) end_line(emit);
}

void LineCutter::end_line(const Emit& emit) {
  if (!line_.empty() && line_.back() == '\r') line_.pop_back();
  emit(line_);
  line_.clear();
}

void PrefixedOutput::line(std::string_view name, std::string_view line) {
  if (closed_) return;
  if (waiting_.size() > kWaitingBytesMax) {
    ++dropped_;
    return;
  }
  waiting_ += fmt::format("{} | {}\n", name, printable(line, kLogLineBytesMax));
}

void PrefixedOutput::write(Duration patience) {
  const SteadyClock clock;
  const Duration end = clock.now() + patience;
  while (pending()) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(end - clock.now());
    pollfd file{fd_, POLLOUT, 0};
    if (poll(&file, 1, static_cast<int>(std::max<std::int64_t>(left.count(), 0))) <= 0) return;
    // A writable pipe takes PIPE_BUF bytes without blocking.
    const ssize_t written = ::write(fd_, waiting_.data(), std::min<std::size_t>(waiting_.size(), PIPE_BUF));
    if (written >= 0) {
      waiting_.erase(0, static_cast<std::size_t>(written));
      if (dropped_ > 0 && waiting_.empty()) {
        waiting_ = fmt::format("launcher | {} lines were dropped: nobody read them\n", std::exchange(dropped_, 0));
      }
    } else if (errno != EINTR && errno != EAGAIN) {
      closed_ = true;
      const int why = errno;
      if (why != EPIPE && !nobody_reads(fd_)) failed_ = why;
      waiting_.clear();
    }
  }
}

}  // namespace troupe::apps::detail
