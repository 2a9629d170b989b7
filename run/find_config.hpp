#pragma once
// Which file a user means by the name of a configuration: `troupe train cartpole_swingup` works in every folder, with
// the configurations that ship with the program. Used by the commands.
#include <filesystem>
#include <string>
#include <vector>

#include <troupe/core/error.hpp>

namespace troupe::apps {

/// Names of the shipped configurations (share/troupe/configs, core/installation.hpp), sorted.
std::vector<std::string> shipped_configs();

/// The file of the shipped configuration `name`, if name has neither a slash nor the ending .toml and is no file
/// itself; everything else is the path of a file, which is not looked at here. Errors: kNotFound, naming the nearest
/// shipped ones.
Result<std::filesystem::path> find_config(const std::string& name);

/// The same where a folder of configurations will do, too: its files *.toml, sorted by name, or those of the shipped
/// folder `name` (share/troupe/configs/NAME). Errors: those of find_config(); kNotFound: a folder without any.
Result<std::vector<std::filesystem::path>> find_configs(const std::string& name);

}  // namespace troupe::apps
