// `troupe eval RUN`: what a run has learnt, in the numbers that its own evaluators report.
#include <CLI/CLI.hpp>

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <troupe/apps/commands/commands.hpp>
#include <troupe/apps/commands/run_arguments.hpp>
#include <troupe/run/evaluate_part.hpp>
#include <troupe/run/say.hpp>
#include <troupe/run/trained_run.hpp>

namespace troupe::apps {
namespace {

constexpr std::int64_t kEpisodesMax = 1000;

struct EvalArguments {
  std::string run, what;
  std::optional<std::int64_t> episodes;
  std::optional<std::uint64_t> seed;
  bool json = false;
};

void print(const actors::TrainedPart& part, const std::vector<Scalar>& scalars, bool json) {
  if (json) {
    nlohmann::ordered_json object = {{"part", part.name}, {"model", part.model}, {"step", part.step}};
    for (const Scalar& scalar : scalars) object["evaluation"][scalar.name] = scalar.value;
    say("{}\n", object.dump());
    return;
  }
  say("{} ({}) at step {}\n", part.name, part.model, part.step);
  for (const Scalar& scalar : scalars) say("  {:<22} {:.6g}\n", scalar.name, scalar.value);
}

Status evaluate(const EvalArguments& arguments, const Registry& registry) {
  TROUPE_ASSIGN(TrainedRun run, open_trained_run(registry, arguments.run, {.name = arguments.what}));
  const bool is_agent = actors::find_agent(run.options, run.part.name) != nullptr;
  if (!is_agent && (arguments.episodes || arguments.seed)) {
    return Error{Code::kInvalidArgument,
                 fmt::format("{}: --{} is for an agent's episodes, but {} ({}) is evaluated on its "
                             "own data",
                             arguments.run, arguments.episodes ? "episodes" : "seed", run.part.name, run.part.model)};
  }
  for (actors::AgentOptions& agent : run.options.agents) {
    agent.evaluator.episodes = arguments.episodes.value_or(agent.evaluator.episodes);
  }
  run.options.seed = arguments.seed.value_or(run.options.seed);
  TROUPE_ASSIGN(const std::vector<Scalar> scalars, actors::evaluate_part(run.options, run.part));
  print(run.part, scalars, arguments.json);
  return {};
}

}  // namespace

void add_eval_command(CLI::App& app, const Registry& registry, Command* chosen) {
  CLI::App* command = app.add_subcommand("eval", "Evaluate what a run has learnt, as its own evaluators do");
  const auto arguments = std::make_shared<EvalArguments>();
  EvalArguments& a = *arguments;
  command->add_option("run", a.run, "Directory of the run; its newest good checkpoint is taken")
      ->required()
      ->type_name("RUN");
  command->add_option("--what", a.what, "Part of the run: the agent's learner, or the name of a replica group")
      ->type_name("NAME");
  command->add_option("--episodes", a.episodes, "Of an agent; by default the run's evaluator.episodes")
      ->check(CLI::Range(std::int64_t{1}, kEpisodesMax));
  command->add_option("--seed", a.seed, "Of an agent's start states; by default the run's")->check(check_seed);
  command->add_flag("--json", a.json, "For programs");
  command->callback([arguments, &registry, chosen] {
    *chosen = [arguments, &registry] { return exit_code(evaluate(*arguments, registry)); };
  });
}

}  // namespace troupe::apps
