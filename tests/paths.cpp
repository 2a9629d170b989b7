#include <troupe/tests/paths.hpp>

namespace troupe {

std::string source_dir() { return TROUPE_SOURCE_DIR; }
std::string binary_dir() { return TROUPE_BINARY_DIR; }

}  // namespace troupe
