#pragma once
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>

#include <troupe/tests/pjrt/plugins.hpp>

namespace troupe::learner {

/// Makes "pjrt:cpu" the processor's plug-in that was fetched; skips the present test where there is none.
inline void need_cpu_plugin() {
  const std::filesystem::path plugin = pjrt::fetched_plugin("cpu");
  if (plugin.empty()) GTEST_SKIP() << pjrt::no_plugin("cpu");
  setenv("PJRT_NAMES_AND_LIBRARY_PATHS", ("cpu:" + plugin.string()).c_str(), 1);
}

}  // namespace troupe::learner
