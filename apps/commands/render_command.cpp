// `troupe render RUN`: the trained policy in a picture strip and an animation.
#include <CLI/CLI.hpp>

#include <fmt/core.h>

#include <filesystem>
#include <memory>
#include <string>

#include <troupe/actors/d4pg_topology.hpp>
#include <troupe/actors/run_checkpoint.hpp>
#include <troupe/apps/commands/commands.hpp>
#include <troupe/apps/pictures/film.hpp>
#include <troupe/apps/pictures/gif_writer.hpp>
#include <troupe/apps/pictures/png_writer.hpp>
#include <troupe/apps/run/run_directory.hpp>
#include <troupe/apps/run/train_schema.hpp>
#include <troupe/core/config.hpp>
#include <troupe/envs/environment.hpp>
#include <troupe/learner/d4pg/learner.hpp>
#include <troupe/messages/checkpoint.hpp>

namespace troupe::apps {
namespace {

constexpr std::size_t kStripFrames = 8;

struct Arguments {
  std::string run;
  std::uint64_t seed = 0;
  int width = 320;
  int height = 240;
};

Result<std::unique_ptr<learner::Policy>> load_policy(const actors::TrainOptions& options, const envs::EnvSpec& spec,
                                                     std::span<const messages::TensorBytes> tensors) {
  TROUPE_ASSIGN(std::unique_ptr<learner::Policy> policy,
                learner::d4pg::make_policy(actors::d4pg_options(options, spec), {.rows = 1}));
  TROUPE_ASSIGN(const std::vector<float> values,
                actors::group_values(tensors, actors::kLearnerRole, policy->parameters().layout()));
  TROUPE_TRY(policy->load(values, policy->parameters().fingerprint()));
  return policy;
}

Status render(const Arguments& arguments) {
  TROUPE_ASSIGN(const RunDirectory run, open_run_directory(arguments.run));
  TROUPE_ASSIGN(const Config config, load_config(run.config(), {}, train_schema(envs::environment_names())));
  TROUPE_ASSIGN(const actors::TrainOptions options, to_train_options(config));
  TROUPE_ASSIGN(const auto environment, envs::make_environment(options.env, arguments.seed));
  // Of a run over nodes the checkpoint is in parts, and one of them is the learner's.
  TROUPE_ASSIGN(const auto parts, actors::open_run_checkpoint(run.checkpoints()));
  std::vector<messages::TensorBytes> tensors;
  std::int64_t learner_steps = 0;
  for (const messages::OpenCheckpoint& part : parts) {
    tensors.insert(tensors.end(), part.tensors.begin(), part.tensors.end());
    if (const auto steps = part.counter(std::string(actors::kLearnerRole) + "/steps"); steps.ok())
      learner_steps = *steps;
  }
  TROUPE_ASSIGN(const auto policy, load_policy(options, environment->spec(), tensors));
  const auto act = [&](std::span<const float> observation, std::span<float> action) {
    return policy->act(observation, action);
  };
  const FilmOptions film_options = {.seed = arguments.seed,
                                    .render = {.height = arguments.height, .width = arguments.width}};
  TROUPE_ASSIGN(const Film film, film_episode(*environment, act, film_options));

  std::error_code error;
  std::filesystem::create_directories(run.render(), error);
  if (error) return Error{Code::kIo, fmt::format("{}: {}", run.render().string(), error.message())};
  const std::filesystem::path strip_path = run.render() / "strip.png";
  const std::filesystem::path film_path = run.render() / "episode.gif";
  TROUPE_TRY(write_png(strip_path, strip(film.frames, kStripFrames)));
  TROUPE_TRY(write_gif(film_path, film.frames, film.frame_s));
  fmt::print("return {:.1f} in {} steps of {} with the policy of learner step {}\n{}\n{}\n", film.total_return,
             film.steps, options.env, learner_steps, strip_path.string(), film_path.string());
  return {};
}

}  // namespace

void add_render_command(CLI::App& app, Command* chosen) {
  CLI::App* command = app.add_subcommand("render", "Film an episode of a run's newest checkpoint");
  const auto arguments = std::make_shared<Arguments>();
  command->add_option("run", arguments->run, "Directory of the run")->required()->type_name("RUN");
  command->add_option("--seed", arguments->seed, "Start state")->capture_default_str();
  command->add_option("--width", arguments->width, "Pixels")->check(CLI::Range(16, 1920))->capture_default_str();
  command->add_option("--height", arguments->height, "Pixels")->check(CLI::Range(16, 1080))->capture_default_str();
  command->callback([arguments, chosen] {
    *chosen = [arguments] {
      const Status done = render(*arguments);
      return done.ok() ? static_cast<int>(kExitOk) : fail(done.error());
    };
  });
}

}  // namespace troupe::apps
