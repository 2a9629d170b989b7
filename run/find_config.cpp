#include <troupe/run/find_config.hpp>

#include <fmt/ranges.h>

#include <algorithm>
#include <system_error>
#include <utility>

#include <troupe/core/installation.hpp>
#include <troupe/core/nearest.hpp>
#include <troupe/core/text.hpp>

namespace troupe::apps {
namespace {

namespace fs = std::filesystem;

fs::path configs_folder() { return installation().shared / "configs"; }

/// Sorted.
std::vector<fs::path> configs_in(const fs::path& folder) {
  std::vector<fs::path> files;
  std::error_code error;  // a folder that is not there has none
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, error)) {
    if (entry.path().extension() == ".toml") files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  return files;
}

}  // namespace

std::vector<std::string> shipped_configs() {
  std::vector<std::string> names;
  for (const fs::path& file : configs_in(configs_folder())) names.push_back(file.stem().string());
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

Result<std::vector<fs::path>> find_configs(const std::string& name) {
  std::error_code ignored;
  fs::path folder = name;
  const bool plain = name.find('/') == std::string::npos && !name.ends_with(".toml");
  if (plain && !fs::exists(folder, ignored)) folder = configs_folder() / name;
  if (!fs::is_directory(folder, ignored)) {
    TROUPE_ASSIGN(fs::path file, find_config(name));
    return std::vector<fs::path>{std::move(file)};
  }
  std::vector<fs::path> files = configs_in(folder);
  if (files.empty()) {
    return Error{Code::kNotFound, fmt::format("{}: a folder without a configuration (*.toml)", printable(name))};
  }
  return files;
}

}  // namespace troupe::apps
