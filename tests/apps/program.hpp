#pragma once
// Runs the built program `troupe` as a user does.
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

namespace troupe::apps {

struct ProgramResult {
  int exit_code = -1;  ///< negative: ended by that signal
  std::string out;
  std::string err;
};

inline std::string file_text(const std::filesystem::path& path) {
  std::ifstream stream(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), {}};
}

/// Runs `troupe <arguments>` (as a shell takes them) in `directory`; it is killed after 100 s.
inline ProgramResult run_program(const std::filesystem::path& directory, const std::string& arguments) {
  const std::string program = TROUPE_BINARY_DIR "/bin/troupe";
  const auto out = directory / ".stdout", err = directory / ".stderr";
  const std::string command = "cd '" + directory.string() + "' && exec timeout -s KILL 100 '" + program + "' " +
                              arguments + " >'" + out.string() + "' 2>'" + err.string() + "'";
  const int status = std::system(command.c_str());
  return {WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status), file_text(out), file_text(err)};
}

}  // namespace troupe::apps
