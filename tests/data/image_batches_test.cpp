// What several shares see in a step is what one share sees, row by row, for every number of shares and at every step.
#include <troupe/data/image_batches.hpp>

#include <gtest/gtest.h>

#include <set>

#include <troupe/data/images.hpp>

namespace troupe::data {
namespace {

/// 22 images of two pixels, the first of which tells which image it is.
std::shared_ptr<const ImageReader> numbered() {
  auto images = std::make_shared<Images>();
  images->height = 1;
  images->width = 2;
  images->class_count = 22;
  for (std::uint8_t i = 0; i < 22; ++i) {
    images->pixels.insert(images->pixels.end(), {i, 255});
    images->labels.push_back(i);
  }
  return ImageReader::make(std::move(images), {}).value();
}

ImageBatchOptions options(int share, int shares) {
  return {.global_batch = 8, .share = share, .shares = shares, .seed = 3, .noise = {"z"}, .noise_size = 2};
}

struct Rows {
  std::vector<float> images, noise;
  std::vector<std::int32_t> labels;
  void append(const BatchView& batch) {
    const auto add = [](auto& to, auto values) { to.insert(to.end(), values.begin(), values.end()); };
    add(images, batch.as<float>(0));
    add(labels, batch.as<std::int32_t>(1));
    add(noise, batch.as<float>(2));
  }
  bool operator==(const Rows&) const = default;
};

TEST(ImageBatches, OfSeveralSharesAreTheSameGlobalBatches) {
  for (const int shares : {2, 3, 4, 8}) {
    ImageBatches one(numbered(), options(0, 1));
    std::vector<std::unique_ptr<ImageBatches>> owned;
    for (int share = 0; share < shares; ++share) {
      owned.push_back(std::make_unique<ImageBatches>(numbered(), options(share, shares)));
    }
    for (std::int64_t step = 0; step < 7; ++step) {  // more than two epochs of three steps, the third with six rows
      Rows expected, together;
      expected.append(one.at(step).value());
      for (const auto& share : owned) together.append(share->at(step).value());
      EXPECT_EQ(together, expected) << shares << " shares, step " << step;
    }
  }
}

TEST(ImageBatches, GiveEveryImageOnceInAnEpochAndEachEpochInAnotherOrder) {
  ImageBatches batches(numbered(), options(0, 1));
  ASSERT_EQ(batches.steps_each_epoch(), 3);
  std::vector<std::vector<std::int32_t>> epochs;
  for (std::int64_t epoch = 0; epoch < 2; ++epoch) {
    Rows rows;
    for (std::int64_t step = 0; step < 3; ++step) rows.append(batches.at(epoch * 3 + step).value());
    EXPECT_EQ(std::set(rows.labels.begin(), rows.labels.end()).size(), 22U);
    EXPECT_EQ(rows.labels.size(), 22U);
    epochs.push_back(rows.labels);
  }
  EXPECT_NE(epochs[0], epochs[1]);
}

TEST(ImageBatches, NeedNoHistoryToGoOn) {
  ImageBatches whole(numbered(), options(1, 2)), resumed(numbered(), options(1, 2));
  for (std::int64_t step = 0; step < 4; ++step) whole.at(step).value();
  Rows expected, got;
  expected.append(whole.at(4).value());
  got.append(resumed.at(4).value());
  EXPECT_EQ(got, expected);
}

TEST(ImageBatches, MayHaveNoRowsForTheLastShareOfAShortBatch) {
  ImageBatches last(numbered(), options(3, 4));
  EXPECT_EQ(last.at(0).value().rows, 2);
  EXPECT_EQ(last.at(2).value().rows, 0);  // rows 6 and 7 of a batch with 6
}

TEST(ImageBatches, ScalePixelsToMinusOneToOne) {
  ImageBatches batches(numbered(), {.global_batch = 22, .shuffle = false});
  const BatchView batch = batches.at(0).value();
  EXPECT_EQ(batches.signature()[0].shape, (Shape{1, 2, 1}));
  EXPECT_FLOAT_EQ(batch.as<float>(0)[0], -1);
  EXPECT_FLOAT_EQ(batch.as<float>(0)[1], 1);
  EXPECT_EQ(batch.as<std::int32_t>(1)[21], 21);
}

}  // namespace
}  // namespace troupe::data
