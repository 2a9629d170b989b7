// `troupe`: trains agents, shows what they do, and explains what can be configured.
#include <CLI/CLI.hpp>

#include <algorithm>
#include <string>
#include <vector>

#include <fmt/core.h>

#include <troupe/apps/commands/commands.hpp>
#include <troupe/core/nearest.hpp>
#include <troupe/core/text.hpp>
#include <troupe/learner/instruction_set.hpp>

namespace troupe::apps {
namespace {

/// CLI11 says of a mistyped command only that it did not expect it.
Status check_command(const CLI::App& app, const std::string& given) {
  std::vector<std::string> names;
  for (const CLI::App* command : app.get_subcommands({})) names.push_back(command->get_name());
  if (given.starts_with('-') || std::find(names.begin(), names.end(), given) != names.end()) return {};
  const std::vector<std::string> near = nearest(given, names, 1);
  return Error{Code::kNotFound, fmt::format("unknown command {}{}; see troupe --help", printable(given),
                                            near.empty() ? "" : fmt::format(" (did you mean {}?)", near[0]))};
}

int run(int argc, char** argv) {
  CLI::App app("Troupe: reinforcement learning on actors.", "troupe");
  app.require_subcommand(1);
  Command chosen;
  add_train_command(app, &chosen);
  add_status_command(app, &chosen);
  add_stop_command(app, &chosen);
  add_token_command(app, &chosen);
  add_up_command(app, &chosen);
  add_node_command(app, &chosen);
  add_tether_command(app, &chosen);
  add_render_command(app, &chosen);
  add_export_command(app, &chosen);
  add_sample_command(app, &chosen);
  add_eval_command(app, &chosen);
  add_graph_command(app, &chosen);
  add_verify_command(app, &chosen);
  add_envs_command(app, &chosen);
  add_config_command(app, &chosen);
  add_doctor_command(app, &chosen);
  add_version_command(app, &chosen);
  if (argc > 1) {
    const Status known = check_command(app, argv[1]);
    if (!known.ok()) return fail(known.error(), kExitUsage);
  }
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? kExitOk : kExitUsage;  // --help comes this way too
  }
  const auto& held_down = learner::max_instruction_set();
  return held_down.ok() ? chosen() : fail(held_down.error(), kExitUsage);
}

}  // namespace
}  // namespace troupe::apps

int main(int argc, char** argv) { return troupe::apps::run(argc, argv); }
