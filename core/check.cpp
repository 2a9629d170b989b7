#include <troupe/core/check.hpp>

#include <cstdio>
#include <cstdlib>

namespace troupe {

void check_failed(const char* file, int line, const char* condition, const std::string& message) {
  std::fprintf(stderr, "%s:%d: check failed: %s: %s\n", file, line, condition, message.c_str());
  std::abort();
}

}  // namespace troupe
