#pragma once
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <string>

#include <troupe/tests/pjrt/plugins.hpp>

namespace troupe::learner {

/// Makes "pjrt:cpu" the processor's plug-in that was fetched, and keeps what is compiled in the tests' own folder;
/// skips the present test where there is no such plug-in.
inline void need_cpu_plugin() {
  static const bool has_plugin = [] {
    std::string names;
    for (const char* kind : {"cpu", "cuda", "tpu"}) {
      const std::filesystem::path plugin = pjrt::fetched_plugin(kind);
      if (!plugin.empty()) names += fmt::format("{}{}:{}", names.empty() ? "" : ",", kind, plugin.string());
    }
    const bool found = !pjrt::fetched_plugin("cpu").empty();
    setenv("PJRT_NAMES_AND_LIBRARY_PATHS", names.c_str(), 1);
    setenv("XDG_CACHE_HOME", testing::TempDir().c_str(), 1);  // where they were found
    return found;
  }();
  if (!has_plugin) GTEST_SKIP() << pjrt::no_plugin("cpu");
}

}  // namespace troupe::learner
