#pragma once
// TROUPE_CHECK(condition, "what is broken: {}", detail): aborts on a broken invariant, which is a bug in Troupe or in
// the code that calls it. Never used on input, network or file trouble: those return core/error.hpp's Result.
#include <fmt/core.h>

#include <string>

namespace troupe {
/// Prints file, line, the condition and the message, then aborts.
[[noreturn]] void check_failed(const char* file, int line, const char* condition, const std::string& message);
}  // namespace troupe

#define TROUPE_CHECK(condition, ...)                                                      \
  do {                                                                                    \
    if (!(condition)) [[unlikely]] {                                                      \
      ::troupe::check_failed(__FILE__, __LINE__, #condition, ::fmt::format(__VA_ARGS__)); \
    }                                                                                     \
  } while (false)
