#include <troupe/run/machine.hpp>

#include <sched.h>
#include <unistd.h>

#include <fstream>
#include <sstream>
#include <string_view>

#include <fmt/core.h>

#include <troupe/core/text.hpp>

namespace troupe::apps {

std::string processor_name(std::string_view cpuinfo) {
  constexpr std::string_view kField = "model name";
  for (const std::string_view line : lines(cpuinfo)) {
    if (!line.starts_with(kField)) continue;
    const std::size_t colon = line.find(':');
    if (colon == std::string_view::npos) continue;
    const std::size_t start = line.find_first_not_of(" \t", colon + 1);
    if (start != std::string_view::npos) return printable(line.substr(start));
  }
  return "unknown processor";
}

std::string machine() {
  std::ifstream file("/proc/cpuinfo");
  std::ostringstream text;
  text << file.rdbuf();
  const long all = sysconf(_SC_NPROCESSORS_ONLN);
  cpu_set_t allowed;
  const long own = sched_getaffinity(0, sizeof allowed, &allowed) == 0 ? CPU_COUNT(&allowed) : all;
  const std::string share = own < all ? fmt::format("{} of ", own) : "";
  return fmt::format("{}, {}{} processor{}", processor_name(text.str()), share, all, all == 1 ? "" : "s");
}

}  // namespace troupe::apps
