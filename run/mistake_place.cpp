#include <troupe/run/mistake_place.hpp>

#include <fmt/format.h>

#include <troupe/core/text.hpp>

namespace troupe::apps {

std::string place_of(const Config& config, std::string_view mistake) {
  const std::string_view key = mistake.substr(0, mistake.find_first_of(": "));
  if (config.has(key) && config.where(key) != "default") return config.where(key);
  for (const std::string_view section : {key, key.substr(0, key.rfind('.'))}) {
    for (const char* const first : {"model", "kind", "from"}) {
      if (const std::string path = fmt::format("{}.{}", section, first); config.has(path)) return config.where(path);
    }
  }
  return config.file();
}

Error in_section(std::string_view section, const Error& error) {
  std::string message;
  for (const std::string_view mistake : lines(error.message)) {
    message += fmt::format("{}{}.{}", message.empty() ? "" : "\n", section, mistake);
  }
  return Error{error.code, std::move(message)};
}

Error placed(const Config& config, const Error& error) {
  std::string message;
  for (const std::string_view mistake : lines(error.message)) {
    message += fmt::format("{}{}: {}", message.empty() ? "" : "\n", place_of(config, mistake), mistake);
  }
  return Error{error.code, std::move(message)};
}

}  // namespace troupe::apps
