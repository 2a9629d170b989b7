// Images per second of the input pipeline alone: batches of 64 for ResNet-50, a JPEG of 375 x 500 read, decoded,
// cropped at random to 224 x 224, half of them mirrored, normalised. vs_resnet50_x3: three times what one training step
// of ResNet-50 in bfloat16 takes on all cores, measured here too: the pipeline must not be what training waits for.
#include <benchmark/benchmark.h>

#include <chrono>
#include <memory>
#include <thread>

#include <troupe/algorithms/resnet/replica.hpp>
#include <troupe/bench/data/input_files.hpp>
#include <troupe/bench/learner/image_steps.hpp>
#include <troupe/data/image_folder.hpp>
#include <troupe/data/image_pipeline.hpp>
#include <troupe/data/tfrecords.hpp>

namespace troupe::data {
namespace {

constexpr std::int64_t kBatch = 64, kSide = 224, kModelBatch = 8;
constexpr int kWarmUp = 4;
constexpr double kSeconds = 5;
const std::filesystem::path kFolder = TROUPE_BENCH_INPUT_FILES;

double images_per_second(std::shared_ptr<const Dataset> set, int threads) {
  auto reader = ImageReader::make(std::move(set), {.image_size = kSide,
                                                   .channels = 3,
                                                   .crop = Crop::kRandomResized,
                                                   .flip = true,
                                                   .scaling = Scaling::kImageNet,
                                                   .seed = 1});
  ImagePipeline pipeline(std::move(reader).value(), {.global_batch = kBatch, .seed = 1}, {.threads = threads});
  const auto take = [&] {
    while (true) {
      const Result<BatchView> batch = pipeline.next();
      if (batch.ok()) return batch->rows;
      TROUPE_CHECK(batch.error().code == Code::kUnavailable, "{}", batch.error().message);
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  };
  for (int i = 0; i < kWarmUp; ++i) take();
  const auto begin = std::chrono::steady_clock::now();
  std::int64_t images = 0;
  double spent = 0;
  while (spent < kSeconds) {
    images += take();
    spent = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  }
  return static_cast<double>(images) / spent;
}

/// Measured once.
double resnet50_images_per_second() {
  static const double measured = [] {
    const learner::resnet::Options options = learner::resnet::of_depth(50).value();
    const auto make = [&] {
      return learner::resnet::training(options, learner::random_batch(learner::resnet::batch_signature(options)));
    };
    return kModelBatch * learner::on_threads(make, kModelBatch, 2, DType::kBF16, kSeconds);
  }();
  return measured;
}

void register_rows() {
  const auto add = [](const char* name, int threads, auto open) {
    benchmark::RegisterBenchmark(name,
                                 [=](benchmark::State& state) {
                                   for ([[maybe_unused]] auto _ : state) {
                                     state.counters["value"] = images_per_second(open(), threads);
                                   }
                                   if (threads > 1) state.counters["vs_resnet50_x3"] = 3 * resnet50_images_per_second();
                                   state.SetLabel("images/s");
                                 })
        ->Iterations(1)
        ->UseRealTime();
  };
  const auto folder = []() -> std::shared_ptr<const Dataset> { return ImageFolder::open(kFolder / "train").value(); };
  const auto records = []() -> std::shared_ptr<const Dataset> {
    return TfRecords::open(kFolder, Split::kTrain, {.classes = kFileClasses}).value();
  };
  add("image_folder_1_thread", 1, folder);
  add("image_folder_2_threads", 2, folder);
  add("tfrecord_2_threads", 2, records);
}

}  // namespace
}  // namespace troupe::data

int main(int argc, char** argv) {
  troupe::data::write_input_files(troupe::data::kFolder);
  troupe::data::register_rows();
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
}
