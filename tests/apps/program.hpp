#pragma once
// Runs the built program `troupe` as a user does.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <troupe/tests/paths.hpp>

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

/// Runs a command (as a shell takes it) in `directory`; it is killed after 100 s.
inline ProgramResult run_command(const std::filesystem::path& directory, const std::string& command) {
  const auto out = directory / ".stdout", err = directory / ".stderr";
  const std::string line = "cd '" + directory.string() + "' && exec timeout -s KILL 100 " + command + " >'" +
                           out.string() + "' 2>'" + err.string() + "'";
  const int status = std::system(line.c_str());
  return {WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status), file_text(out), file_text(err)};
}

inline ProgramResult run_program(const std::filesystem::path& directory, const std::string& arguments) {
  return run_command(directory, "'" + binary_dir() + "/bin/troupe' " + arguments);
}

/// The same of a bash script, in which "troupe" is the program, and is killed with it.
inline ProgramResult run_script(const std::filesystem::path& directory, const std::string& script) {
  std::ofstream(directory / "script.sh") << "troupe() { exec " + binary_dir() + "/bin/troupe \"$@\"; }\n" << script;
  return run_command(directory, "bash script.sh");
}

}  // namespace troupe::apps
