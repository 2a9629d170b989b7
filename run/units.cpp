#include <troupe/run/units.hpp>

#include <fmt/core.h>

#include <cmath>

namespace troupe::apps {

std::string format_duration(double seconds) {
  if (!(seconds >= 0) || !std::isfinite(seconds)) return "?";
  if (seconds < 59.95) return fmt::format("{:.1f}s", seconds);
  const auto whole = static_cast<long long>(std::llround(seconds));
  if (whole < 3600) return fmt::format("{}m{:02}s", whole / 60, whole % 60);
  const long long minutes = std::llround(seconds / 60);
  return fmt::format("{}h{:02}m", minutes / 60, minutes % 60);
}

std::string format_count(double count) {
  if (!std::isfinite(count)) return "?";
  const double size = std::fabs(count);
  const auto scaled = [](double value, const char* suffix) {
    const double digits = std::fabs(value);
    return fmt::format("{:.{}f}{}", value, digits < 9.995 ? 2 : digits < 99.95 ? 1 : 0, suffix);
  };
  if (size < 999.5) return fmt::format("{:.0f}", count);
  if (size < 999.5e3) return scaled(count / 1e3, "k");
  if (size < 999.5e6) return scaled(count / 1e6, "M");
  return scaled(count / 1e9, "G");
}

std::string format_tick(double value) {
  const double size = std::fabs(value);
  if (size < 1e4) return fmt::format("{:g}", value);
  if (size < 1e6) return fmt::format("{:g}k", value / 1e3);
  return fmt::format("{:g}M", value / 1e6);
}

}  // namespace troupe::apps
