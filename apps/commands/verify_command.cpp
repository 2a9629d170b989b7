// `troupe verify CONFIG --replicas 1,2,4`: whether N replicas compute what one does on the same global batch.
#include <CLI/CLI.hpp>

#include <fmt/core.h>

#include <charconv>
#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include <troupe/actors/roles/replicator_options.hpp>
#include <troupe/apps/commands/commands.hpp>
#include <troupe/apps/commands/run_arguments.hpp>
#include <troupe/apps/commands/steps_of_run.hpp>
#include <troupe/core/text.hpp>
#include <troupe/learner/replicate/verify.hpp>
#include <troupe/run/say.hpp>

namespace troupe::apps {
namespace {

struct VerifyArguments {
  RunArguments run;
  std::vector<int> replicas = {1, 2, 4};
  int steps = 3;
  double tolerance = 1e-3;
};

/// What is verified: the learners of an agent, or a replica group, each as the configuration runs it.
struct Subject {
  std::string name;
  learner::ReplicaFactory make;
  learner::VerifyOptions options;
};

Result<std::vector<Subject>> subjects(const actors::TrainOptions& options, const VerifyArguments& arguments) {
  TROUPE_ASSIGN(std::vector<PartStep> steps, steps_of_run(options, actors::ModelContext::Data::kRead));
  std::vector<Subject> all;
  for (PartStep& step : steps) {
    TROUPE_ASSIGN(const learner::ReplicatorOptions how, actors::replicator_options(step.group));
    all.push_back({step.group.name, std::move(step.make), {arguments.replicas, arguments.steps, how}});
  }
  return all;
}

/// Whether all differences are within the tolerance. NaN never is.
bool print(const std::string& name, const std::vector<learner::Equivalence>& all, double tolerance) {
  bool good = true;
  for (const learner::Equivalence& equivalence : all) {
    const bool within = equivalence.largest() <= tolerance;
    good = good && within;
    say("{}, {} replica{} against one: {} (largest difference {:.2g}, tolerance {:.2g})\n", name, equivalence.replicas,
        equivalence.replicas == 1 ? "" : "s", within ? "equal" : "DIFFERENT", equivalence.largest(), tolerance);
    for (const learner::VariableDifference& variable : equivalence.variables) {
      say("  {:<40} gradient {:<9.2g} parameter {:<9.2g}\n", variable.name, variable.gradient, variable.parameter);
    }
  }
  return good;
}

int run(const VerifyArguments& arguments, const Registry& registry) {
  const Result<LoadedRun> loaded = load_run(arguments.run, registry);
  if (!loaded.ok()) return fail_config(loaded.error());
  const auto all = subjects(loaded->options, arguments);
  if (!all.ok()) return fail_run(all.error());
  bool good = true;
  for (const Subject& subject : *all) {
    const auto verified = learner::verify_equivalence(subject.make, subject.options);
    if (!verified.ok()) return fail(Error{verified.error().code, subject.name + ": " + verified.error().message});
    good = print(subject.name, *verified, arguments.tolerance) && good;
  }
  return good ? kExitOk : kExitFailure;
}

/// For CLI::Option::check(). Not a number is no bound at all.
std::string check_tolerance(const std::string& text) {
  double value = -1;
  const char* const end = text.data() + text.size();
  const auto parsed = std::from_chars(text.data(), end, value);
  if (parsed.ec == std::errc() && parsed.ptr == end && std::isfinite(value) && value >= 0) return "";
  return fmt::format("got {}, expected a number, 0 or more", printable(text));
}

}  // namespace

void add_verify_command(CLI::App& app, const Registry& registry, Command* chosen) {
  CLI::App* command = app.add_subcommand("verify", "Compare N replicas with one on the same global batches");
  const auto arguments = std::make_shared<VerifyArguments>();
  VerifyArguments& a = *arguments;
  add_config_argument(*command, a.run.config);
  command->add_option("--replicas", a.replicas, "Numbers of replicas")
      ->delimiter(',')
      ->check(CLI::Range(1, 64))
      ->capture_default_str();
  command->add_option("--steps", a.steps, "Updates before parameters are compared")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  command->add_option("--tolerance", a.tolerance, "Largest relative difference; beyond it the exit status is 1")
      ->check(check_tolerance)
      ->capture_default_str();
  command->add_option("--set", a.run.overrides, "Override a key of the configuration; may be repeated")
      ->type_name("KEY=VALUE")
      ->allow_extra_args(false);
  command->callback(
      [arguments, &registry, chosen] { *chosen = [arguments, &registry] { return run(*arguments, registry); }; });
}

}  // namespace troupe::apps
