#include <CLI/CLI.hpp>

#include <fmt/core.h>

#include <troupe/apps/commands/commands.hpp>
#include <troupe/apps/version.hpp>
#include <troupe/run/say.hpp>

namespace troupe::apps {

void add_version_command(CLI::App& app, Command* chosen) {
  app.add_subcommand("version", "Print the release and the commit")->callback([chosen] {
    *chosen = [] {
      say("troupe {}\n", version());
      return static_cast<int>(kExitOk);
    };
  });
}

}  // namespace troupe::apps
