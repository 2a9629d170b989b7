#include <troupe/run/mistake_place.hpp>

#include <fmt/format.h>

namespace troupe::apps {

std::string place_of(const Config& config, std::string_view mistake) {
  const std::string_view key = mistake.substr(0, mistake.find_first_of(": "));
  if (config.has(key) && config.where(key) != "default") return config.where(key);
  for (const std::string_view section : {key, key.substr(0, key.rfind('.'))}) {
    if (const std::string model = fmt::format("{}.model", section); config.has(model)) return config.where(model);
  }
  return config.file();
}

}  // namespace troupe::apps
