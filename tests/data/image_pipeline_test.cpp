// Batches that threads make ahead are those that one thread makes: for every number of threads, from every step on, in
// every share. And what happens at their bound, on errors, and at the end.
#include <troupe/data/image_pipeline.hpp>

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <thread>

#include <troupe/core/rng.hpp>
#include <troupe/data/images.hpp>

namespace troupe::data {
namespace {

constexpr std::int64_t kCount = 22;

/// Noise, so that no two images, crops or mirror images are alike.
std::shared_ptr<Images> noise() {
  auto images = std::make_shared<Images>();
  images->height = 6;
  images->width = 6;
  images->class_count = kCount;
  Rng rng(1);
  for (std::int32_t i = 0; i < kCount; ++i) {
    for (int pixel = 0; pixel < 36; ++pixel) images->pixels.push_back(static_cast<std::uint8_t>(rng.below(256)));
    images->labels.push_back(i);
  }
  return images;
}

/// Counts what is read of `set`, fails for one label, and can be held up.
class Watched final : public Dataset {
 public:
  explicit Watched(std::int32_t bad = -1) : set_(noise()), bad_(bad) {}
  std::int64_t count() const override { return set_->count(); }
  std::int64_t classes() const override { return set_->classes(); }
  Shape shape() const override { return set_->shape(); }
  Status read(std::int64_t index, Sample& sample) const override {
    ++reads;
    while (held) std::this_thread::yield();
    TROUPE_TRY(set_->read(index, sample));
    if (sample.label == bad_) return Error{Code::kCorrupt, name(index) + " is bad"};
    return {};
  }
  std::string name(std::int64_t index) const override { return set_->name(index); }
  mutable std::atomic<std::int64_t> reads = 0;
  mutable std::atomic<bool> held = false;

 private:
  std::shared_ptr<const Images> set_;
  std::int32_t bad_;
};

std::shared_ptr<const ImageReader> augmented(std::shared_ptr<const Dataset> set, bool skip = false) {
  return ImageReader::make(std::move(set), {.image_size = 5,
                                            .channels = 3,
                                            .crop = Crop::kRandomResized,
                                            .flip = true,
                                            .skip_damaged = skip,
                                            .seed = 4})
      .value();
}

ImageBatchOptions batches(int share = 0, int shares = 1) {
  return {.global_batch = 8, .share = share, .shares = shares, .seed = 3, .noise = {"z"}, .noise_size = 2};
}

Result<BatchView> next(ImagePipeline& pipeline) {
  const auto give_up = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  Result<BatchView> batch = pipeline.next();
  while (!batch.ok() && batch.error().code == Code::kUnavailable && std::chrono::steady_clock::now() < give_up) {
    std::this_thread::sleep_for(std::chrono::microseconds(100));
    batch = pipeline.next();
  }
  return batch;
}

using Columns = std::vector<std::vector<std::byte>>;
Columns columns(const BatchView& batch) {
  Columns copy;
  for (const auto& column : batch.columns) copy.emplace_back(column.begin(), column.end());
  return copy;
}

TEST(ImagePipeline, GivesTheSameBatchesForEveryNumberOfThreads) {
  const auto reader = augmented(noise());
  for (const int share : {0, 1}) {
    ImageBatches plain(reader, batches(share, 2));
    std::vector<Columns> expected;
    for (std::int64_t step = 0; step < 14; ++step) expected.push_back(columns(plain.at(step).value()));
    for (const int threads : {0, 1, 4}) {
      ImagePipeline pipeline(reader, batches(share, 2), {.threads = threads});
      EXPECT_EQ(pipeline.signature(), plain.signature());
      for (std::size_t step = 0; step < expected.size(); ++step) {
        ASSERT_EQ(columns(next(pipeline).value()), expected[step]) << threads << " threads, step " << step;
      }
    }
  }
}

TEST(ImagePipeline, GoesOnAtAnyStep) {
  const auto reader = augmented(noise());
  ImageBatches plain(reader, batches());
  for (const std::int64_t first : {1, 2, 3, 7}) {  // steps 2 and 5 end epochs
    ImagePipeline pipeline(reader, batches(), {.first_step = first, .threads = 2});
    for (std::int64_t step = first; step < first + 4; ++step) {
      ASSERT_EQ(columns(next(pipeline).value()), columns(plain.at(step).value())) << step;
    }
  }
}

TEST(ImagePipeline, GivesEmptyBatchesToAShareWithoutRows) {
  ImagePipeline last(augmented(noise()), batches(3, 4), {.threads = 2});  // rows 6 and 7 of 8; the third step has six
  for (const std::int64_t rows : {2, 2, 0, 2, 2, 0}) EXPECT_EQ(next(last).value().rows, rows);
}

TEST(ImagePipeline, MakesNoMoreAheadThanItsBound) {
  const auto set = std::make_shared<Watched>();
  ImagePipeline pipeline(augmented(set), batches(), {.threads = 2});
  EXPECT_EQ(set->reads, 0) << "before it is asked";
  next(pipeline).value();
  const auto until = [&](std::int64_t ahead) {
    const auto give_up = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    while (pipeline.report().ahead < ahead && std::chrono::steady_clock::now() < give_up) std::this_thread::yield();
  };
  until(ImagePipeline::kAheadMax);  // such small batches: no other bound
  EXPECT_EQ(pipeline.report().ahead, ImagePipeline::kAheadMax);
  const std::int64_t reads = set->reads;
  EXPECT_EQ(reads, 3 * 22) << "nine steps are three epochs";
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_EQ(set->reads, reads);
  EXPECT_GT(pipeline.report().images_per_second, 0);
}

TEST(ImagePipeline, SaysThatABatchIsNotThereYetInsteadOfWaiting) {
  const auto set = std::make_shared<Watched>();
  set->held = true;
  ImagePipeline pipeline(augmented(set), batches(), {.threads = 2});
  for (int time = 0; time < 3; ++time) {
    const auto batch = pipeline.next();
    ASSERT_FALSE(batch.ok());
    EXPECT_EQ(batch.error().code, Code::kUnavailable);
  }
  EXPECT_EQ(pipeline.report().waits, 3);
  set->held = false;
  EXPECT_EQ(next(pipeline).value().rows, 8);
}

TEST(ImagePipeline, PassesAnErrorOnAtTheStepWhereItOccurs) {
  for (const std::int32_t bad : {0, 7, 21}) {
    ImageBatches plain(augmented(std::make_shared<Watched>(bad)), batches());
    std::int64_t good = 0;
    while (plain.at(good).ok()) ++good;
    const std::string message = plain.at(good).error().message;
    for (const int threads : {0, 1, 3}) {
      ImagePipeline pipeline(augmented(std::make_shared<Watched>(bad)), batches(), {.threads = threads});
      for (std::int64_t step = 0; step < good; ++step) EXPECT_TRUE(next(pipeline).ok());
      for (int time = 0; time < 2; ++time) {
        const auto failed = next(pipeline);
        ASSERT_FALSE(failed.ok());
        EXPECT_EQ(failed.error().message, message) << threads;
      }
    }
  }
}

TEST(ImagePipeline, ReplacesSkippedSamplesAlikeForEveryNumberOfThreads) {
  ImageBatches plain(augmented(std::make_shared<Watched>(9), true), batches());
  ImagePipeline pipeline(augmented(std::make_shared<Watched>(9), true), batches(), {.threads = 4});
  for (std::int64_t step = 0; step < 6; ++step) {
    const BatchView batch = next(pipeline).value();
    for (const std::int32_t label : batch.as<std::int32_t>(1)) EXPECT_NE(label, 9);
    ASSERT_EQ(columns(batch), columns(plain.at(step).value()));
  }
  EXPECT_EQ(pipeline.report().damaged, 1);
}

TEST(ImagePipeline, EndsInTheMiddleOfItsWork) {
  for (int time = 0; time < 20; ++time) {
    ImagePipeline pipeline(augmented(noise()), batches(), {.threads = 3});
    static_cast<void>(pipeline.next());
    EXPECT_TRUE(time % 2 == 0 || next(pipeline).ok());
  }
  const ImagePipeline never(augmented(noise()), batches(), {.threads = 3});
}

}  // namespace
}  // namespace troupe::data
