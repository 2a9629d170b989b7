// `troupe sample RUN`: images of a run's generator as one picture.
#include <CLI/CLI.hpp>

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <troupe/algorithms/sngan/judge.hpp>
#include <troupe/apps/commands/commands.hpp>
#include <troupe/apps/commands/run_arguments.hpp>
#include <troupe/core/rng.hpp>
#include <troupe/learner/export/examples.hpp>
#include <troupe/run/pictures/image.hpp>
#include <troupe/run/pictures/png_writer.hpp>
#include <troupe/run/say.hpp>
#include <troupe/run/trained_run.hpp>

namespace troupe::apps {
namespace {

constexpr const char* kModel = "sngan";
constexpr std::int64_t kImagesMax = 4096;
/// Of every pass, also of the last, so that an image does not depend on how many others are drawn.
constexpr std::int64_t kRows = 32;
/// More classes than that would make a picture too wide to look at: theirs go round in rows of another length.
constexpr std::int64_t kColumnsOfClasses = 32;

struct SampleArguments {
  std::string run, output, what;
  std::int64_t count = 64;
  std::uint64_t seed = 0;
};

struct Drawn {
  std::vector<float> images;  ///< [count, image], in [-1, 1]
  Shape image;
  std::int64_t classes = 0;  ///< which go round; 0: the generator has none
};

Result<Drawn> draw(const TrainedRun& run, const SampleArguments& arguments) {
  TROUPE_ASSIGN(const TrainedNetwork network, trained_network(run, kRows));
  Drawn drawn;
  drawn.classes = learner::choices(*network.graph, "label");
  for (std::int64_t first = 0; first < arguments.count; first += kRows) {
    std::map<std::string, std::vector<std::int32_t>> labels;
    for (std::int64_t row = 0; row < kRows && drawn.classes > 0; ++row) {
      labels["label"].push_back(static_cast<std::int32_t>((first + row) % drawn.classes));
    }
    const std::uint64_t seed = derive_seed(arguments.seed, "sample", static_cast<std::uint64_t>(first / kRows));
    TROUPE_ASSIGN(const learner::Example pass, learner::run_example(*network.graph, *network.program, seed, labels));
    const learner::ExampleTensor& made = pass.outputs.front();
    drawn.image = Shape{made.shape[1], made.shape[2], made.shape[3]};
    const std::int64_t wanted = std::min(kRows, arguments.count - first) * drawn.image.elements();
    drawn.images.insert(drawn.images.end(), made.reals.begin(), made.reals.begin() + wanted);
  }
  return drawn;
}

/// A class a column, as in the run's own pictures; without classes as many columns as rows.
std::int64_t columns(const Drawn& drawn, std::int64_t count) {
  if (drawn.classes > 0 && drawn.classes <= kColumnsOfClasses) return std::min(drawn.classes, count);
  return static_cast<std::int64_t>(std::ceil(std::sqrt(static_cast<double>(count))));
}

Status sample(const SampleArguments& arguments, const Registry& registry) {
  TROUPE_ASSIGN(const TrainedRun run,
                open_trained_run(registry, arguments.run, {.name = arguments.what, .model = kModel}));
  TROUPE_ASSIGN(const Output output, output_of(run, arguments.output, "png"));
  TROUPE_TRY(output.format(std::array<std::string_view, 1>{"png"}, "png"));
  TROUPE_ASSIGN(const Drawn drawn, draw(run, arguments));
  const std::int64_t wide = columns(drawn, arguments.count);
  const Image image = to_image(learner::sngan::picture_grid(drawn.images, drawn.image, wide));
  TROUPE_ASSIGN(const std::vector<std::byte> bytes, png_bytes(image));
  TROUPE_TRY(output.write(bytes));
  std::string about =
      fmt::format("{} image{} of {} ({}) at step {}, seed {}, {} in a row", arguments.count,
                  arguments.count == 1 ? "" : "s", run.part.name, run.part.model, run.part.step, arguments.seed, wide);
  if (drawn.classes > 0) about += fmt::format(", of classes 0 to {} in turn", drawn.classes - 1);
  say_text(fmt::format("{}\n{}\n", about, output.shown()), output.messages());
  return {};
}

}  // namespace

void add_sample_command(CLI::App& app, const Registry& registry, Command* chosen) {
  CLI::App* command = app.add_subcommand("sample", "Draw images with the generator that a run has trained");
  const auto arguments = std::make_shared<SampleArguments>();
  SampleArguments& a = *arguments;
  command->add_option("run", a.run, "Directory of the run; its newest good checkpoint is taken")
      ->required()
      ->type_name("RUN");
  command->add_option("-n,--count", a.count, "Images, in one picture")
      ->check(CLI::Range(std::int64_t{1}, kImagesMax))
      ->capture_default_str();
  command->add_option("-o,--output", a.output, "FILE.png, or - for the standard output; by default RUN/export/NAME.png")
      ->type_name("FILE");
  command->add_option("--what", a.what, "Replica group, where several train a generator")->type_name("NAME");
  command->add_option("--seed", a.seed, "Of the noise")->check(check_seed)->capture_default_str();
  command->callback([arguments, &registry, chosen] {
    *chosen = [arguments, &registry] { return exit_code(sample(*arguments, registry)); };
  });
}

}  // namespace troupe::apps
