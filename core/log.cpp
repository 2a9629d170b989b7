#include <troupe/core/log.hpp>

#include <spdlog/sinks/basic_file_sink.h>
#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>

#include <troupe/core/text.hpp>

namespace troupe::log {
namespace {

/// Names in a message may hold anything, and a line must stay one.
constexpr std::size_t kLogLineBytesMax = 16 << 10;
constexpr const char* kPattern = "%H:%M:%S.%e %^%L%$ %v";

spdlog::logger& logger() {
  // The one object with static lifetime: log lines come from every thread until the very end of the process.
  static spdlog::logger instance = [] {
    spdlog::logger made("troupe", std::make_shared<spdlog::sinks::stderr_color_sink_mt>(
                                      colors_wanted() ? spdlog::color_mode::automatic : spdlog::color_mode::never));
    made.set_pattern(kPattern);
    return made;
  }();
  return instance;
}

spdlog::level::level_enum to_spdlog(Level level) {
  switch (level) {
    case Level::kDebug:
      return spdlog::level::debug;
    case Level::kInfo:
      return spdlog::level::info;
    case Level::kWarn:
      return spdlog::level::warn;
    case Level::kError:
      return spdlog::level::err;
    case Level::kOff:
      return spdlog::level::off;
  }
  return spdlog::level::info;
}

}  // namespace

bool colors_wanted() {
  const char* const set = std::getenv("NO_COLOR");
  return set == nullptr || *set == '\0';
}

void set_level(Level level) { logger().set_level(to_spdlog(level)); }

void also_to_file(std::string_view path) {
  std::error_code error;
  const auto type = std::filesystem::status(path, error).type();
  if (type != std::filesystem::file_type::not_found && type != std::filesystem::file_type::regular) {
    return warn("log file {}: no regular file", path);  // a pipe would wait for somebody who reads
  }
  try {
    auto sink = std::make_shared<spdlog::sinks::basic_file_sink_mt>(std::string(path));
    sink->set_pattern("%Y-%m-%d %H:%M:%S.%e %L %v");
    logger().sinks().push_back(std::move(sink));
    logger().flush_on(spdlog::level::warn);
  } catch (const spdlog::spdlog_ex& failure) {
    warn("log file {}: {}", path, failure.what());
  }
}

void over_progress_line(bool stands) {
  const bool same_terminal = stands && isatty(STDERR_FILENO) != 0;
  logger().sinks().front()->set_pattern(same_terminal ? std::string("\r\x1b[K") + kPattern : kPattern);
}

void write(Level level, std::string_view message) {
  logger().log(to_spdlog(level), printable(message, kLogLineBytesMax));
}

}  // namespace troupe::log
