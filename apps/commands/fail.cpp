#include <fmt/core.h>

#include <cstdio>

#include <troupe/apps/commands/commands.hpp>

namespace troupe::apps {

int fail(const Error& error, int code) {
  fmt::print(stderr, "troupe: {}\n", error.message);
  return code;
}

int exit_code(const Status& done) { return done.ok() ? static_cast<int>(kExitOk) : fail(done.error()); }

int fail_config(const Error& error) {
  fmt::print(stderr, "{}\n", error.message);
  return kExitConfig;
}

int fail_run(const Error& error) { return error.code == Code::kInvalidArgument ? fail_config(error) : fail(error); }

}  // namespace troupe::apps
