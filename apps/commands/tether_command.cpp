// `troupe tether COMMAND...`: what `troupe up` runs on other hosts; see apps/cluster/tether.hpp. Not for people.
#include <CLI/CLI.hpp>

#include <memory>
#include <string>
#include <vector>

#include <troupe/apps/cluster/tether.hpp>
#include <troupe/apps/commands/commands.hpp>

namespace troupe::apps {

void add_tether_command(CLI::App& app, Command* chosen) {
  CLI::App* command = app.add_subcommand("tether", "Run a command until the standard input ends");
  command->group("");  // hidden
  command->prefix_command();
  command->callback([command, chosen] {
    *chosen = [words = command->remaining()] {
      const Result<int> ended = run_tethered(words, {});
      return ended.ok() ? *ended : fail(ended.error());
    };
  });
}

}  // namespace troupe::apps
