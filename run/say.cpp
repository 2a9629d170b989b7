#include <troupe/run/say.hpp>

#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace troupe::apps {

void say_text(std::string_view text, std::FILE* out) {
  // A short write shows in ferror(), which stays set.
  [[maybe_unused]] const std::size_t written = std::fwrite(text.data(), 1, text.size(), out);
}

bool is_closed_terminal(int fd) { return isatty(fd) == 0 && errno == EIO; }

Status finish_standard_output() {
  errno = 0;
  const bool flushed = std::fflush(stdout) == 0;
  if (flushed && std::ferror(stdout) == 0) return {};
  const int why = errno;
  if (is_closed_terminal(fileno(stdout))) return {};
  return Error{Code::kIo, fmt::format("the standard output cannot be written{}{}", why == 0 ? "" : ": ",
                                      why == 0 ? "" : std::strerror(why))};
}

}  // namespace troupe::apps
