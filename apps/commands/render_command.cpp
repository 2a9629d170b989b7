// `troupe render RUN`: the trained policy in a picture strip and an animation.
#include <CLI/CLI.hpp>

#include <fmt/core.h>

#include <climits>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <troupe/actors/roles/player.hpp>
#include <troupe/apps/commands/commands.hpp>
#include <troupe/apps/commands/run_arguments.hpp>
#include <troupe/core/text.hpp>
#include <troupe/envs/environment.hpp>
#include <troupe/run/agent_topology.hpp>
#include <troupe/run/pictures/film.hpp>
#include <troupe/run/pictures/gif_writer.hpp>
#include <troupe/run/pictures/png_writer.hpp>
#include <troupe/run/say.hpp>
#include <troupe/run/trained_part.hpp>
#include <troupe/run/trained_run.hpp>

namespace troupe::apps {
namespace {

constexpr std::size_t kStripFrames = 8;

struct RenderArguments {
  std::string run, what;
  std::string camera = envs::RenderOptions().camera;
  std::uint64_t seed = 0;
  int width = 320;
  int height = 240;
};

Result<std::unique_ptr<actors::Player>> load_player(const TrainedRun& run, const actors::Agent& agent) {
  TROUPE_ASSIGN(std::unique_ptr<learner::Policy> policy, agent.make_policy(1, learner::Device{}));
  TROUPE_ASSIGN(const std::vector<float> values, actors::group_values(run.part, policy->layout()));
  TROUPE_TRY(policy->load(values, policy->fingerprint()));
  return actors::Player::make(std::move(policy), agent.evaluation, agent.algorithm.greedy);
}

Status render(const RenderArguments& arguments, const Registry& registry) {
  TROUPE_ASSIGN(const TrainedRun run,
                open_trained_run(registry, arguments.run, {.name = arguments.what, .kind = PartKind::kAgent}));
  const actors::AgentOptions& options = *actors::find_agent(run.options, run.part.name);
  TROUPE_ASSIGN(const actors::Agent agent, actors::make_agent(options));
  TROUPE_ASSIGN(const auto environment, agent.make_evaluation(arguments.seed));
  TROUPE_ASSIGN(const auto player, load_player(run, agent));
  const auto act = [&](std::span<const std::byte> observation, bool first) {
    first ? player->first(0, observation) : player->next(0, observation);
    return player->act();
  };
  const FilmOptions film_options = {
      .seed = arguments.seed,
      .render = {.height = arguments.height, .width = arguments.width, .camera = arguments.camera}};
  TROUPE_ASSIGN(const Film film, film_episode(*environment, act, film_options));

  std::error_code error;
  std::filesystem::create_directories(run.directory.render(), error);
  if (error) return Error{Code::kIo, fmt::format("{}: {}", run.directory.render().string(), error.message())};
  const std::filesystem::path strip_path = run.directory.render() / "strip.png";
  const std::filesystem::path film_path = run.directory.render() / "episode.gif";
  TROUPE_TRY(write_png(strip_path, strip(film.frames, kStripFrames)));
  TROUPE_TRY(write_gif(film_path, film.frames, film.frame_s));
  say("return {:.1f} in {} steps of {} with the policy of learner step {}\n{}\n{}\n", film.total_return, film.steps,
      options.evaluator.env.empty() ? options.env : options.evaluator.env, run.part.step,
      printable(strip_path.string(), PATH_MAX), printable(film_path.string(), PATH_MAX));
  return {};
}

}  // namespace

void add_render_command(CLI::App& app, const Registry& registry, Command* chosen) {
  CLI::App* command = app.add_subcommand("render", "Film an episode of a run's newest checkpoint");
  const auto arguments = std::make_shared<RenderArguments>();
  command->add_option("run", arguments->run, "Directory of the run")->required()->type_name("RUN");
  command->add_option("--what", arguments->what, "Agent, where the run has several: NAME-learner")->type_name("NAME");
  command->add_option("--seed", arguments->seed, "Start state")->check(check_seed)->capture_default_str();
  command->add_option("--width", arguments->width, "Pixels")->check(CLI::Range(16, 1920))->capture_default_str();
  command->add_option("--height", arguments->height, "Pixels")->check(CLI::Range(16, 1080))->capture_default_str();
  command->add_option("--camera", arguments->camera, "Name or index, as `troupe envs` lists them")
      ->type_name("CAMERA")
      ->capture_default_str();
  command->callback([arguments, &registry, chosen] {
    *chosen = [arguments, &registry] { return exit_code(render(*arguments, registry)); };
  });
}

}  // namespace troupe::apps
