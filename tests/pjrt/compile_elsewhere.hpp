#pragma once
// Compiles a program for devices that need not be there, in a process of its own (pjrt_compile.cpp), because libtpu
// ends its process on some programs.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <cstdio>
#include <fstream>
#include <string>

#include <troupe/tests/paths.hpp>
#include <troupe/tests/pjrt/plugins.hpp>

namespace troupe::pjrt {

struct Outcome {
  bool ok = false, aborted = false;
  std::string text;  ///< what the process said
};

/// kind: of the plug-in, "tpu" or "cuda".
inline Outcome compile_elsewhere(const std::string& kind, const std::string& topology, const std::string& text,
                                 int replicas = 1) {
  const std::string file = testing::TempDir() + "program.mlir";
  std::ofstream(file) << text;
  FILE* const child = popen(fmt::format("{}/bin/pjrt_compile {} {} {} < {} 2>/dev/null", binary_dir(),
                                        fetched_plugin(kind).string(), topology, replicas, file)
                                .c_str(),
                            "r");
  Outcome outcome;
  char block[4096];
  for (std::size_t read = 0; (read = std::fread(block, 1, sizeof block, child)) > 0;) outcome.text.append(block, read);
  const int status = pclose(child);
  outcome.ok = WIFEXITED(status) && WEXITSTATUS(status) == 0;
  outcome.aborted = !WIFEXITED(status) || WEXITSTATUS(status) > 1;
  return outcome;
}

}  // namespace troupe::pjrt
