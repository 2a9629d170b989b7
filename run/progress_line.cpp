#include <troupe/run/progress_line.hpp>

#include <fmt/core.h>

#include <algorithm>
#include <limits>

#include <troupe/core/log.hpp>
#include <troupe/run/terminal.hpp>

namespace troupe::apps {
namespace {

using std::chrono::milliseconds;
constexpr Duration kLivePeriod = milliseconds(250);
constexpr Duration kPlainPeriod = milliseconds(15000);

}  // namespace

ProgressLine ProgressLine::on(std::FILE* out, const Clock& clock) {
  const int fd = fileno(out);
  if (!can_redraw(fd)) return {out, nullptr, clock};
  return {out, [fd] { return terminal_size(fd).value_or(TerminalSize()).columns; }, clock};
}

bool ProgressLine::is_due() const { return clock_.now() - drawn_at_ >= (is_live() ? kLivePeriod : kPlainPeriod); }

void ProgressLine::draw(const Text& text) {
  drawn_at_ = clock_.now();
  // One column stays free: writing into the last one would wrap on some terminals. What was there is erased.
  const std::string line = is_live() ? fmt::format("\r{}\x1b[K", text(std::max<std::size_t>(columns_(), 1) - 1))
                                     : text(std::numeric_limits<std::size_t>::max()) + '\n';
  if (is_live()) stand(true);
  std::fputs(line.c_str(), out_);
  std::fflush(out_);
}

void ProgressLine::stand(bool open) {
  if (open_ != open) log::over_progress_line(open);
  open_ = open;
}

void ProgressLine::clear() {
  if (open_) std::fputs("\r\x1b[K", out_);
  stand(false);
}

void ProgressLine::finish() {
  if (open_) std::fputs("\n", out_);
  stand(false);
  std::fflush(out_);
}

}  // namespace troupe::apps
