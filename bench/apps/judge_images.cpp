// Judges images that another program made as the evaluator of a GAN's configuration judges its own:
// judge_images CONFIG FILE.safetensors [KEY=VALUE...], one line of JSON. The file's tensor "images" is float32
// [count, height, width, channels] in [-1, 1]. Used by sngan_quality.py.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include <troupe/algorithms/sngan/replica.hpp>
#include <troupe/core/config.hpp>
#include <troupe/core/log.hpp>
#include <troupe/learner/engine/program.hpp>
#include <troupe/learner/graph/graph.hpp>
#include <troupe/learner/ops/elementwise.hpp>
#include <troupe/messages/safetensors.hpp>
#include <troupe/run/train_schema.hpp>

namespace troupe {
namespace {

constexpr std::int64_t kBatch = 128;

Result<std::string> judge(const char* config_file, const char* images_file, const std::vector<std::string>& overrides) {
  TROUPE_ASSIGN(const Config config, load_config(config_file, overrides, apps::train_schema(shipped())));
  TROUPE_ASSIGN(const actors::TrainOptions options, apps::to_train_options(config, shipped()));
  TROUPE_ASSIGN(const actors::ReplicaModel model, actors::model_of(options.replicas.at(0)));
  if (!model.make_judge) return Error{Code::kInvalidArgument, fmt::format("{}: no GAN", config_file)};
  TROUPE_ASSIGN(const auto judge, model.make_judge());

  std::ifstream stream(images_file, std::ios::binary);
  const std::vector<char> characters(std::istreambuf_iterator<char>(stream), {});
  TROUPE_ASSIGN(const auto file, messages::parse_safetensors(std::as_bytes(std::span(characters))));
  const auto images = std::ranges::find(file.tensors, "images", &messages::TensorBytes::name);
  if (images == file.tensors.end() || images->dtype != DType::kF32 || images->shape.rank() != 4) {
    return Error{Code::kInvalidArgument, fmt::format("{}: no float32 \"images\" of rank 4", images_file)};
  }
  const Signature signature = {{"image", DType::kF32, Shape(images->shape.dims().subspan(1))}};
  learner::Graph graph(kBatch);
  graph.output(learner::sngan::kImages, learner::affine(graph.input("image", signature[0].shape), 1));
  TROUPE_ASSIGN(const auto program, learner::Program::compile(graph, {}));
  for (bool ready = false; !ready;) {
    TROUPE_ASSIGN(ready, judge->prepare());
  }
  std::vector<float> values(images->bytes.size() / sizeof(float));
  std::memcpy(values.data(), images->bytes.data(), images->bytes.size());
  const BatchView all{&signature, images->shape[0], {std::as_bytes(std::span(values))}};
  for (std::int64_t first = 0; first < all.rows; first += kBatch) {
    const std::int64_t rows = std::min(kBatch, all.rows - first);
    TROUPE_TRY(program->bind(all.slice(first, rows)));
    TROUPE_TRY(program->run());
    TROUPE_TRY(judge->take(*program, rows));
  }
  TROUPE_ASSIGN(const learner::Verdict verdict, judge->verdict());
  std::string line;
  for (const Scalar& scalar : verdict.scalars) {
    line += fmt::format("{}\"{}\": {:.6g}", line.empty() ? "{" : ", ", scalar.name, scalar.value);
  }
  return line + "}";
}

}  // namespace
}  // namespace troupe

int main(int argc, char** argv) {
  if (argc < 3) {
    fmt::print(stderr, "judge_images CONFIG FILE.safetensors [KEY=VALUE...]\n");
    return 2;
  }
  troupe::log::set_level(troupe::log::Level::kWarn);
  const auto line = troupe::judge(argv[1], argv[2], {argv + 3, argv + argc});
  if (!line.ok()) {
    fmt::print(stderr, "judge_images: {}\n", line.error().message);
    return 1;
  }
  fmt::print("{}\n", *line);
  return 0;
}
