// `troupe token RUN`: a file with which one more host may join a run, once, for some minutes.
#include <CLI/CLI.hpp>

#include <fmt/core.h>
#include <fmt/format.h>

#include <chrono>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>

#include <troupe/apps/cluster/cluster_spec.hpp>
#include <troupe/apps/cluster/node_place.hpp>
#include <troupe/apps/cluster/operator.hpp>
#include <troupe/apps/commands/commands.hpp>
#include <troupe/core/clock.hpp>
#include <troupe/core/text.hpp>
#include <troupe/run/output.hpp>
#include <troupe/run/run_directory.hpp>
#include <troupe/run/run_topology.hpp>
#include <troupe/run/say.hpp>
#include <troupe/run/train_schema.hpp>
#include <troupe/transport/join_token.hpp>

namespace troupe::apps {
namespace {

struct TokenArguments {
  std::string run;
  std::string role;
  std::string name;
  std::string output;
  int minutes = 10;
};

struct MadeToken {
  Output file;
  transport::Address chief;
};

Result<Output> token_file(const TokenArguments& arguments, const std::string& name) {
  return Output::at(arguments.output.empty() ? name + ".token" : arguments.output,
                    {.option = "--output", .run = arguments.run, .secret = true});
}

/// One of those of which nodes that join may host instances, by the run's own configuration.
Result<std::string> role_of(const TokenArguments& arguments, const Registry& registry) {
  TROUPE_ASSIGN(const RunDirectory run, open_run_directory(arguments.run));
  TROUPE_ASSIGN(const Config config, load_config(run.config(), {}, train_schema(registry)));
  TROUPE_ASSIGN(const actors::TrainOptions options, to_train_options(config, registry));
  TROUPE_ASSIGN(const auto roles, actors::elastic_roles(options));
  return elastic_role(roles, arguments.role);
}

Result<MadeToken> make_token(const TokenArguments& arguments, const Registry& registry) {
  if (arguments.name == kChiefName) return Error{Code::kInvalidArgument, "--name: chief is the name of the run's head"};
  const std::filesystem::path run = arguments.run;
  const std::string security = (run / "security").string();
  const auto now = std::chrono::system_clock::now();
  TROUPE_ASSIGN(const transport::Address chief, chief_of({run}));
  if (std::error_code error; !std::filesystem::exists(RunDirectory{run}.journal(), error)) {
    return Error{Code::kNotFound, fmt::format("{} is not the chief's: make the token on its host, {}, where the run "
                                              "is recorded",
                                              RunDirectory{run}.shown(), chief.host)};
  }
  if (const auto progress = progress_of({run}); progress.ok() && progress->ended) {
    return Error{Code::kUnavailable,
                 fmt::format("{}: the run has ended, and no node can join it", RunDirectory{run}.shown())};
  }
  TROUPE_ASSIGN(const std::string role, role_of(arguments, registry));
  if (!arguments.name.empty()) TROUPE_TRY(check_joining_name(run, arguments.name));
  if (!arguments.output.empty()) TROUPE_TRY(token_file(arguments, ""));  // before there is a token to lose
  TROUPE_ASSIGN(const auto authority, transport::Authority::load(security, now));
  const SteadyClock clock;
  transport::TokenLedger ledger(security, clock);
  TROUPE_ASSIGN(const auto token, ledger.issue(authority, {authority.run(), {role}, arguments.name}, chief, now,
                                               std::chrono::minutes(arguments.minutes)));
  TROUPE_ASSIGN(Output file, token_file(arguments, token.node.node));
  TROUPE_ASSIGN(const std::string text, transport::to_text(token));
  TROUPE_TRY(file.write(text));
  return MadeToken{std::move(file), token.chief};
}

int run(const TokenArguments& arguments, const Registry& registry) {
  const auto made = make_token(arguments, registry);
  if (!made.ok()) return fail(made.error());
  std::string about = fmt::format(
      "{0}: good for one node, once, for {1} minutes; there: troupe node config.toml --token {2}, with {3}\n",
      made->file.is_stream() ? "the token" : made->file.shown(), arguments.minutes,
      made->file.is_stream() ? "FILE" : made->file.shown(), printable(RunDirectory{arguments.run}.config().string()));
  if (made->chief.host.starts_with("127.")) {
    about += fmt::format("the chief listens on {}: this token is for a node of this host\n",
                         transport::to_string(made->chief));
  }
  say_text(about, made->file.messages());
  return kExitOk;
}

}  // namespace

void add_token_command(CLI::App& app, const Registry& registry, Command* chosen) {
  CLI::App* command = app.add_subcommand("token", "Let one more host join a run over nodes");
  const auto arguments = std::make_shared<TokenArguments>();
  TokenArguments& a = *arguments;
  command->add_option("run", a.run, "Directory of the run, on the chief's host")->required()->type_name("RUN");
  command->add_option("--role", a.role, "What the node will host; by default the only role that may be")
      ->type_name("ROLE");
  command->add_option("--name", a.name, "Name of the node; by default the role and random digits");
  command->add_option("-o,--output", a.output, "The file, or - for the standard output; by default NAME.token")
      ->type_name("FILE");
  command->add_option("--minutes", a.minutes, "How long it is good")
      ->check(CLI::Range(1, 24 * 60))
      ->capture_default_str();
  command->callback(
      [arguments, &registry, chosen] { *chosen = [arguments, &registry] { return run(*arguments, registry); }; });
}

}  // namespace troupe::apps
