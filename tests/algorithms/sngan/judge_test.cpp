// The judge of images: what its classifier learns, what it says of good and bad generators, and its pictures.
#include <troupe/algorithms/sngan/judge.hpp>

#include <gtest/gtest.h>

#include <map>

#include <troupe/algorithms/sngan/networks.hpp>
#include <troupe/algorithms/sngan/replica.hpp>
#include <troupe/core/rng.hpp>
#include <troupe/learner/replicate/replicator.hpp>

namespace troupe::learner::sngan {
namespace {

constexpr std::int64_t kSide = 4;
const Shape kImage = {kSide, kSide, 1};

/// Images of two classes: one bright in its left half, one in its right, with noise.
class Halves final : public InputPipeline {
 public:
  Halves(std::uint64_t seed, const InputContext& context)
      : rng_(seed), buffer_(signature_, context.replica_batch), context_(context) {}
  const Signature& signature() const override { return signature_; }
  Result<BatchView> next() override {
    const auto image = buffer_.mutable_view().as<float>(0);
    const auto label = buffer_.mutable_view().as<std::int32_t>(1);
    for (std::size_t i = 0; i < image.size(); ++i) {
      const std::size_t row = i / 16;
      label[row] = static_cast<std::int32_t>(row % 2);
      const bool left = i % 4 < 2;
      image[i] = static_cast<float>((left == (row % 2 == 0) ? 0.7 : -0.7) + 0.1 * rng_.normal());
    }
    return buffer_.view();
  }

 private:
  const Signature signature_ = {{"image", DType::kF32, kImage}, {"label", DType::kI32, {}}};
  Rng rng_;
  BatchBuffer buffer_;
  InputContext context_;
};

InputFn halves(std::uint64_t seed) {
  return [seed](const InputContext& context) -> Result<std::unique_ptr<InputPipeline>> {
    return {std::make_unique<Halves>(seed, context)};
  };
}

constexpr std::int64_t kImagesEach = 300;  // two batches and a part of the third

JudgeOptions judge_options() {
  return {.classifier = {.image = kImage, .classes = 2, .steps = 60},
          .images = kImagesEach,
          .grid_rows = 2,
          .grid_columns = 3};
}

/// A generator without hidden layers: image = tanh(noise W + b).
const Options kLinear = {.image = kImage, .noise_size = 2, .generator_sizes = {}, .discriminator_sizes = {4}};

std::map<std::string, double> named(const Verdict& verdict) {
  std::map<std::string, double> all;
  for (const Scalar& scalar : verdict.scalars) all[scalar.name] = scalar.value;
  return all;
}

/// The verdict on a generator whose pixels are tanh(bias of each half + slope of each half * noise[0]).
Verdict judged(SnganJudge& judge, float left_slope, float right_slope, float bias = 0) {
  const auto replica = evaluation(kLinear, kImagesEach, 9);
  const auto device = OneDevice::make(*replica, {.batch = 200}).value();
  Program& program = device->program();
  ParamBuffer& generator = *program.params(kGeneratorGroup);
  for (const ParamEntry& entry : generator.layout().entries) {
    const std::span<float> values = generator.tensor(entry);
    std::ranges::fill(values, 0.0F);
    for (std::size_t i = 0; i < 16; ++i) {
      values[i] = entry.name.ends_with("bias") ? bias : (i % 4 < 2 ? left_slope : right_slope);
    }
  }
  program.parameters_changed();
  for (const std::int64_t rows : {200, 100}) {
    device->step().value();
    judge.take(program, rows).value();
  }
  EXPECT_EQ(program.step(), 0);
  return judge.verdict().value();
}

std::unique_ptr<SnganJudge> prepared() {
  auto judge = std::make_unique<SnganJudge>(judge_options(), halves(1), halves(2));
  int slices = 1;
  while (!judge->prepare().value()) ++slices;
  EXPECT_GT(slices, 10) << "each is to be short";
  return judge;
}

TEST(SnganJudge, TellsGoodImagesFromBadOnes) {
  const auto judge = prepared();
  const auto good = named(judged(*judge, 20, -20));  // one half bright, the other dark, by the sign of the noise
  const auto collapsed = named(judged(*judge, 0, 0));
  const auto wrong = named(judged(*judge, 20, 20));  // all bright or all dark
  EXPECT_EQ(good.at("judge_accuracy"), 1);
  EXPECT_EQ(good.at("judge_real_images"), 300);
  EXPECT_EQ(good.at("judge_generated_images"), 300);
  EXPECT_GT(good.at("inception_score"), 1.8);
  EXPECT_LT(collapsed.at("inception_score"), 1.01);
  // Images of 1 instead of 0.7, without noise.
  EXPECT_GT(collapsed.at("frechet_distance"), 3 * good.at("frechet_distance"));
  EXPECT_GT(wrong.at("frechet_distance"), 3 * good.at("frechet_distance"));
}

TEST(SnganJudge, RepeatsBitForBit) {
  const auto one = prepared(), other = prepared();
  const Verdict first = judged(*one, 3, -2);
  judged(*one, 1, 1);  // leaves nothing behind
  for (SnganJudge* judge : {one.get(), other.get()}) {
    const Verdict again = judged(*judge, 3, -2);
    for (std::size_t i = 0; i < first.scalars.size(); ++i) EXPECT_EQ(again.scalars[i].value, first.scalars[i].value);
    EXPECT_EQ(again.pictures.at(0).pixels, first.pictures.at(0).pixels);
  }
}

TEST(SnganJudge, ShowsTheFirstImagesInAGrid) {
  const Verdict verdict = judged(*prepared(), 0, 0, -100);  // all black
  ASSERT_EQ(verdict.pictures.size(), 1U);
  const Picture& picture = verdict.pictures[0];
  EXPECT_EQ(picture.name, "samples");
  EXPECT_EQ(picture.width, 1 + 3 * 5);
  EXPECT_EQ(picture.height, 1 + 2 * 5);
  EXPECT_EQ(std::ranges::count(picture.pixels, 0), std::ssize(picture.pixels));
}

TEST(PictureGrid, PutsEachImageInItsPlace) {
  // Three images of 1 x 2 in colour, in rows of two.
  const std::vector<float> images = {-1, 0, 1, 1, 1, 1, 0, 0, 0, -1, -1, 2, 1, -1, -1, -1, 1, -1};
  const Picture picture = picture_grid(images, {1, 2, 3}, 2);
  ASSERT_EQ(picture.height, 5);
  ASSERT_EQ(picture.width, 7);
  ASSERT_EQ(picture.channels, 3);
  const auto pixel = [&](std::int64_t y, std::int64_t x) {
    const auto at = picture.pixels.begin() + (y * 7 + x) * 3;
    return std::vector<int>(at, at + 3);
  };
  EXPECT_EQ(pixel(0, 0), (std::vector<int>{0, 0, 0}));
  EXPECT_EQ(pixel(1, 1), (std::vector<int>{0, 128, 255}));
  EXPECT_EQ(pixel(1, 2), (std::vector<int>{255, 255, 255}));
  EXPECT_EQ(pixel(1, 4), (std::vector<int>{128, 128, 128}));
  EXPECT_EQ(pixel(1, 5), (std::vector<int>{0, 0, 255}));  // beyond 1 is cut off
  EXPECT_EQ(pixel(3, 1), (std::vector<int>{255, 0, 0}));
  EXPECT_EQ(pixel(3, 2), (std::vector<int>{0, 255, 0}));
  EXPECT_EQ(pixel(3, 4), (std::vector<int>{0, 0, 0}));  // there is no fourth
}

TEST(FeatureClassifier, AveragesLargeImagesDown) {
  // 64 x 64 images become 32 x 32, and what it sees of one does not depend on the batch.
  FeatureClassifierOptions options{.image = {64, 64, 3}, .classes = 2, .steps = 1};
  class Large final : public InputPipeline {
   public:
    const Signature& signature() const override { return signature_; }
    Result<BatchView> next() override { return buffer_.view(); }

   private:
    const Signature signature_ = {{"image", DType::kF32, {64, 64, 3}}, {"label", DType::kI32, {}}};
    BatchBuffer buffer_{signature_, kClassifierBatch};
  };
  const auto classifier = FeatureClassifier::make(options, [](const InputContext&) {
                            return Result<std::unique_ptr<InputPipeline>>(std::make_unique<Large>());
                          }).value();
  EXPECT_TRUE(classifier->train_some().value());
  std::vector<float> fine(3 * 64 * 64 * 3), coarse(fine.size());
  Rng rng(3);
  for (std::size_t i = 0; i < 3 * 32 * 32 * 3; ++i) {  // blocks of 2 x 2 around one mean
    const std::size_t channel = i % 3, x = i / 3 % 32, y = i / 96;
    const auto value = static_cast<float>(rng.uniform()), spread = static_cast<float>(rng.uniform());
    for (std::size_t corner = 0; corner < 4; ++corner) {
      const std::size_t at = ((2 * y + corner / 2) * 64 + 2 * x + corner % 2) * 3 + channel;
      coarse[at] = value;
      fine[at] = value + (corner % 2 == 0 ? spread : -spread);
    }
  }
  classifier->look(fine).value();
  const std::vector<float> seen(classifier->features().begin(), classifier->features().end());
  ASSERT_EQ(seen.size(), 3 * kClassifierFeatures);
  classifier->look(coarse).value();
  double largest = 0;
  for (std::size_t i = 0; i < seen.size(); ++i) {
    EXPECT_NEAR(classifier->features()[i], seen[i], 1e-5);
    largest = std::max<double>(largest, seen[i]);
  }
  EXPECT_GT(largest, 0.1);
}

TEST(FeatureClassifier, RefusesInputOfAnotherSize) {
  const auto refused = FeatureClassifier::make({.image = {5, 4, 1}, .classes = 2}, halves(1));
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().message,
            "feature classifier: got image: float32[4, 4, 1], expected image: float32[5, 4, 1]");
}

}  // namespace
}  // namespace troupe::learner::sngan
