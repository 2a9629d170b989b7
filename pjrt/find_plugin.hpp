#pragma once
// Where plug-ins are found by the names that configurations and commands have for them.
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include <troupe/core/error.hpp>

namespace troupe::pjrt {

/// A name with a slash is a file. Others are what the environment says, in PJRT_NAMES_AND_LIBRARY_PATHS
/// ("name:path,name:path", as JAX has it) or for "tpu" in TPU_LIBRARY_PATH, or else what `tools/bootstrap.sh pjrt NAME`
/// has fetched: "cpu", "cuda", "tpu". Errors: kNotFound, which says where was looked and what to do.
Result<std::filesystem::path> find_plugin(std::string_view name);

/// Names that plug-ins may be found by: those three, and what PJRT_NAMES_AND_LIBRARY_PATHS has besides.
std::vector<std::string> plugin_names();

}  // namespace troupe::pjrt
