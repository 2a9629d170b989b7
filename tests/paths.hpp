// Where the tests find what they read and run: the checkout, and what was built from it.
#pragma once
#include <filesystem>
#include <string>
#include <vector>

namespace troupe {

// Functions of one small library and not macros of every test: what is compiled does not depend on where it lies, so
// that checkouts share it (ccache).
std::string source_dir();  // the checkout: source_dir() + "/apps/configs"
std::string binary_dir();  // the build: binary_dir() + "/bin/troupe"

std::vector<std::filesystem::path> shipped_config_files();  // in apps/configs and its folders

}  // namespace troupe
