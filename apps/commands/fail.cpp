#include <cstdio>

#include <fmt/core.h>

#include <troupe/apps/commands/commands.hpp>
#include <troupe/core/text.hpp>
#include <troupe/run/say.hpp>

namespace troupe::apps {
namespace {

constexpr std::size_t kComplaintBytesMax = 64 << 10;

/// Names in a message may hold anything; what is printed must not move the cursor.
void complain(std::string_view message, std::string_view who) {
  std::string text;
  for (const std::string_view line : lines(message)) {
    text += fmt::format("{}{}\n", text.empty() ? who : "", printable(line, kComplaintBytesMax));
  }
  say_text(text, stderr);
}

}  // namespace

int fail(const Error& error, int code) {
  complain(error.message, "troupe: ");
  return code;
}

int exit_code(const Status& done) { return done.ok() ? static_cast<int>(kExitOk) : fail(done.error()); }

int fail_config(const Error& error) {
  complain(error.message, "");
  return kExitConfig;
}

int fail_run(const Error& error) { return error.code == Code::kInvalidArgument ? fail_config(error) : fail(error); }

}  // namespace troupe::apps
