#include <troupe/run/say.hpp>

#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <csignal>
#include <cstring>

#include <troupe/core/text.hpp>

namespace troupe::apps {

void say_text(std::string_view text, std::FILE* out) {
  // A short write shows in ferror(), which stays set.
  [[maybe_unused]] const std::size_t written = std::fwrite(text.data(), 1, text.size(), out);
}

std::string shell_word(std::string_view text) {
  constexpr std::string_view kPlain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./:,+@%=";
  if (!text.empty() && text.find_first_not_of(kPlain) == std::string_view::npos) return std::string(text);
  const bool plain = printable(text, PATH_MAX) == text;
  std::string inside;
  for (const char c : text) {
    if (c == '\'') inside += plain ? "'\\'" : "\\";
    if (c == '\\' && !plain) inside += '\\';
    inside += c;
  }
  return plain ? fmt::format("'{}'", inside) : fmt::format("$'{}'", printable(inside, PATH_MAX));
}

bool nobody_reads(int fd) {
  if (isatty(fd) == 0 && errno == EIO) return true;
  pollfd stream{fd, POLLOUT, 0};
  return poll(&stream, 1, 0) == 1 && (stream.revents & POLLERR) != 0;
}

Status finish_standard_output() {
  std::signal(SIGPIPE, SIG_IGN);
  errno = 0;
  const bool flushed = std::fflush(stdout) == 0;
  if (flushed && std::ferror(stdout) == 0) return {};
  const int why = errno;
  if (nobody_reads(fileno(stdout))) return {};
  return Error{Code::kIo, fmt::format("the standard output cannot be written{}{}", why == 0 ? "" : ": ",
                                      why == 0 ? "" : std::strerror(why))};
}

}  // namespace troupe::apps
