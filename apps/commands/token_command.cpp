// `troupe token RUN --role actor`: a file with which one more host may join a run, once, for some minutes.
#include <CLI/CLI.hpp>

#include <fmt/core.h>
#include <fmt/format.h>

#include <chrono>
#include <filesystem>
#include <memory>
#include <string>

#include <troupe/actors/d4pg_topology.hpp>
#include <troupe/actors/node.hpp>
#include <troupe/apps/cluster/cluster_spec.hpp>
#include <troupe/apps/cluster/node_place.hpp>
#include <troupe/apps/commands/commands.hpp>
#include <troupe/apps/run/run_directory.hpp>
#include <troupe/core/clock.hpp>
#include <troupe/transport/join_token.hpp>

namespace troupe::apps {
namespace {

struct TokenArguments {
  std::string run;
  std::string role = actors::kActorRole;
  std::string name;
  std::string output;
  int minutes = 10;
};

struct MadeToken {
  std::string file;
  transport::Address chief;
};

Result<MadeToken> make_token(const TokenArguments& arguments) {
  if (arguments.role != actors::kActorRole) {
    return Error{Code::kInvalidArgument, fmt::format("--role: got {}, expected {}: only env actors may join a run that "
                                                     "goes on",
                                                     arguments.role, actors::kActorRole)};
  }
  if (arguments.name == kChiefName) return Error{Code::kInvalidArgument, "--name: chief is the name of the run's head"};
  const std::filesystem::path run = arguments.run;
  const std::string security = (run / "security").string();
  const auto now = std::chrono::system_clock::now();
  const auto chief = actors::wait_for_chief(run, Duration::zero());
  if (!chief.ok()) {
    return Error{Code::kNotFound,
                 fmt::format("{} is not the directory of a run over nodes: {}", arguments.run, chief.error().message)};
  }
  if (std::error_code error; !std::filesystem::exists(run / "chief.json", error)) {
    return Error{Code::kNotFound, fmt::format("{} is not the chief's: make the token on its host, {}, where the run "
                                              "is recorded",
                                              arguments.run, chief->host)};
  }
  if (!arguments.name.empty()) TROUPE_TRY(check_joining_name(run, arguments.name));
  TROUPE_ASSIGN(const auto authority, transport::Authority::load(security, now));
  const SteadyClock clock;
  transport::TokenLedger ledger(security, clock);
  TROUPE_ASSIGN(const auto token, ledger.issue(authority, {authority.run(), {arguments.role}, arguments.name}, *chief,
                                               now, std::chrono::minutes(arguments.minutes)));
  const std::string file = arguments.output.empty() ? token.node.node + ".token" : arguments.output;
  TROUPE_TRY(transport::save_join_token(token, file));
  return MadeToken{file, token.chief};
}

int run(const TokenArguments& arguments) {
  const auto made = make_token(arguments);
  if (!made.ok()) return fail(made.error());
  fmt::print("{}: good for one node, once, for {} minutes; there: troupe node config.toml --token {}, with {}\n",
             made->file, arguments.minutes, made->file, RunDirectory{arguments.run}.config().string());
  if (made->chief.host.starts_with("127.")) {
    fmt::print("the chief listens on {}: this token is for a node of this host\n", transport::to_string(made->chief));
  }
  return kExitOk;
}

}  // namespace

void add_token_command(CLI::App& app, Command* chosen) {
  CLI::App* command = app.add_subcommand("token", "Let one more host join a run over nodes");
  const auto arguments = std::make_shared<TokenArguments>();
  TokenArguments& a = *arguments;
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
