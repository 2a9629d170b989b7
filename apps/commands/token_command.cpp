// `troupe token RUN --role actor`: a file with which one more host may join a run, once, for some minutes.
#include <CLI/CLI.hpp>

#include <fmt/core.h>
#include <fmt/format.h>

#include <chrono>
#include <memory>
#include <string>

#include <troupe/actors/d4pg_topology.hpp>
#include <troupe/actors/node.hpp>
#include <troupe/apps/commands/commands.hpp>
#include <troupe/core/clock.hpp>
#include <troupe/transport/join_token.hpp>

namespace troupe::apps {
namespace {

struct Arguments {
  std::string run;
  std::string role = actors::kActorRole;
  std::string name;
  std::string output;
  int minutes = 10;
};

Result<std::string> make_token(const Arguments& arguments) {
  if (arguments.role != actors::kActorRole) {
    return Error{Code::kInvalidArgument, fmt::format("--role: got {}, expected {}: only env actors may join a run that "
                                                     "goes on",
                                                     arguments.role, actors::kActorRole)};
  }
  const std::filesystem::path run = arguments.run;
  const std::string security = (run / "security").string();
  const auto now = std::chrono::system_clock::now();
  TROUPE_ASSIGN(const auto chief, actors::wait_for_chief(run, Duration::zero()));
  TROUPE_ASSIGN(const auto authority, transport::Authority::load(security, now));
  const SteadyClock clock;
  transport::TokenLedger ledger(security, clock);
  TROUPE_ASSIGN(const auto token, ledger.issue(authority, {authority.run(), {arguments.role}, arguments.name}, chief,
                                               now, std::chrono::minutes(arguments.minutes)));
  const std::string file = arguments.output.empty() ? token.node.node + ".token" : arguments.output;
  TROUPE_TRY(transport::save_join_token(token, file));
  return file;
}

int run(const Arguments& arguments) {
  const auto file = make_token(arguments);
  if (!file.ok()) return fail(file.error());
  fmt::print("{}: good for one node, once, for {} minutes; there: troupe node --token {} CONFIG\n", *file,
             arguments.minutes, *file);
  return kExitOk;
}

}  // namespace

void add_token_command(CLI::App& app, Command* chosen) {
  CLI::App* command = app.add_subcommand("token", "Let one more host join a run over nodes");
  const auto arguments = std::make_shared<Arguments>();
  Arguments& a = *arguments;
  command->add_option("run", a.run, "Directory of the run, on the chief's host")->required()->type_name("RUN");
  command->add_option("--role", a.role, "What the node will host: actor")->capture_default_str();
  command->add_option("--name", a.name, "Name of the node; by default the role and random digits");
  command->add_option("--output", a.output, "The file; by default NAME.token")->type_name("FILE");
  command->add_option("--minutes", a.minutes, "How long it is good")
      ->check(CLI::Range(1, 24 * 60))
      ->capture_default_str();
  command->callback([arguments, chosen] { *chosen = [arguments] { return run(*arguments); }; });
}

}  // namespace troupe::apps
