#include <troupe/run/find_config.hpp>

#include <fmt/ranges.h>

#include <algorithm>
#include <system_error>

#include <troupe/core/installation.hpp>
#include <troupe/core/nearest.hpp>
#include <troupe/core/text.hpp>

namespace troupe::apps {
namespace {

namespace fs = std::filesystem;

fs::path configs_folder() { return installation().shared / "configs"; }

}  // namespace

std::vector<std::string> shipped_configs() {
  std::vector<std::string> names;
  std::error_code error;  // a folder that is not there has none
  for (const fs::directory_entry& entry : fs::directory_iterator(configs_folder(), error)) {
    if (entry.path().extension() == ".toml") names.push_back(entry.path().stem().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

Result<fs::path> find_config(const std::string& name) {
  std::error_code ignored;  // what cannot be looked at is not there
  if (name.find('/') != std::string::npos || name.ends_with(".toml") || fs::exists(name, ignored))
    return fs::path(name);
  const std::vector<std::string> shipped = shipped_configs();
  if (std::find(shipped.begin(), shipped.end(), name) != shipped.end()) return configs_folder() / (name + ".toml");
  const std::vector<std::string> near = nearest(name, shipped);
  return Error{Code::kNotFound, fmt::format("{}: no such file, and no configuration of that name in {} ({})",
                                            printable(name), configs_folder().string(),
                                            near.empty() ? fmt::format("there are {}", fmt::join(shipped, ", "))
                                                         : fmt::format("did you mean {}?", fmt::join(near, " or ")))};
}

}  // namespace troupe::apps
