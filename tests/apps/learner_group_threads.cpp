// One run of the bench learner_group (bench/apps/learner_group.py) in one process, with a fault:
//   learner_group_threads CONFIG [KEY=VALUE...]
// Of several learners the first, which publishes the parameters, fails a quarter through the run and comes back. Prints
// one line of JSON: the returns of all evaluations by learner step, the wall time, and how often a learner came back.
#include <fmt/format.h>

#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include <troupe/actors/runtime/topology.hpp>
#include <troupe/core/config.hpp>
#include <troupe/core/log.hpp>
#include <troupe/envs/environment.hpp>
#include <troupe/run/agent_topology.hpp>
#include <troupe/run/evaluations.hpp>
#include <troupe/run/train.hpp>
#include <troupe/run/train_schema.hpp>
#include <troupe/tests/actors/breaking_role.hpp>

namespace {

using namespace troupe;

/// Keeps the evaluations.
class Evaluations final : public MetricSink {
 public:
  Status write(const MetricRow&) override { return {}; }
  Status record(const Evaluation& evaluation) override {
    all.push_back(evaluation);
    return {};
  }
  Status flush() override { return {}; }

  std::vector<Evaluation> all;
};

Result<std::string> run(const char* config_file, const std::vector<std::string>& overrides,
                        const std::filesystem::path& folder) {
  TROUPE_ASSIGN(const Config config, load_config(config_file, overrides, apps::train_schema(shipped())));
  TROUPE_ASSIGN(actors::TrainOptions options, apps::to_train_options(config, shipped()));
  Evaluations evaluations;
  std::atomic<int> came_back = 0;
  actors::TrainHooks hooks{.metrics = &evaluations, .checkpoint_dir = folder / "checkpoints"};
  hooks.change_topology = [&](actors::Topology& topology) {
    for (actors::RoleSpec& role : topology.roles) {
      if (role.name != actors::kLearnerRole || role.count == 1) continue;
      // Calls of step() that find no batch count too: a little before a quarter of the learner's steps.
      actors::testing::break_once(role, {{0, options.agents[0].max_learner_steps / 4}},
                                  [&](std::int64_t) { ++came_back; });
    }
  };
  TROUPE_ASSIGN(const actors::TrainSummary summary, actors::train(options, hooks));
  std::string returns;
  for (const Evaluation& one : evaluations.all) {
    returns += fmt::format("{}[{}, {:.2f}]", returns.empty() ? "" : ", ", one.step,
                           find_scalar(one.values, apps::kReturn).value_or(0));
  }
  return fmt::format("{{\"returns\": [{}], \"wall_s\": {:.1f}, \"came_back\": {}}}", returns, summary.wall_s,
                     came_back.load());
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) {
    fmt::print(stderr, "learner_group_threads CONFIG [KEY=VALUE...]\n");
    return 2;
  }
  std::string folder = (std::filesystem::temp_directory_path() / "learner_group.XXXXXX").string();
  if (mkdtemp(folder.data()) == nullptr) {
    std::perror(folder.c_str());
    return 1;
  }
  log::set_level(log::Level::kWarn);
  const auto line = run(argv[1], {argv + 2, argv + argc}, folder);
  std::filesystem::remove_all(folder);
  if (!line.ok()) {
    fmt::print(stderr, "{}\n", line.error().message);
    return 1;
  }
  fmt::print("{}\n", *line);
  return 0;
}
