#include <troupe/core/log.hpp>

#include <spdlog/sinks/basic_file_sink.h>
#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>

#include <troupe/core/text.hpp>

namespace troupe::log {
namespace {

/// Names in a message may hold anything, and a line must stay one.
constexpr std::size_t kLogLineBytesMax = 16 << 10;

spdlog::logger& logger() {
  // The one object with static lifetime: log lines come from every thread until the very end of the process.
  static spdlog::logger instance = [] {
    spdlog::logger made("troupe", std::make_shared<spdlog::sinks::stderr_color_sink_mt>());
    made.set_pattern("%H:%M:%S.%e %^%L%$ %v");
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

void set_level(Level level) { logger().set_level(to_spdlog(level)); }

void also_to_file(std::string_view path) {
  try {
    auto sink = std::make_shared<spdlog::sinks::basic_file_sink_mt>(std::string(path));
    sink->set_pattern("%Y-%m-%d %H:%M:%S.%e %L %v");
    logger().sinks().push_back(std::move(sink));
    logger().flush_on(spdlog::level::warn);
  } catch (const spdlog::spdlog_ex& failure) {
    warn("log file {}: {}", path, failure.what());
  }
}

void write(Level level, std::string_view message) {
  logger().log(to_spdlog(level), printable(message, kLogLineBytesMax));
}

}  // namespace troupe::log
