// Generated images on their way into a discriminator: in order, none too old, and no more of them taken than are used.
#include <troupe/algorithms/sngan/fakes.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace troupe::learner::sngan {
namespace {

using testing::ElementsAre;

const Signature kColumns = {{"fake", DType::kF32, Shape{2}}};

/// Rows of two numbers each: first, first + 0.5, first + 1, ...
std::shared_ptr<BatchBuffer> rows(std::int64_t count, float first) {
  auto buffer = std::make_shared<BatchBuffer>(kColumns, count);
  for (float& x : buffer->mutable_view().as<float>(0)) {
    x = first;
    first += 0.5F;
  }
  return buffer;
}

void add(Fakes& fakes, std::int64_t count, float first, std::int64_t version) {
  const auto buffer = rows(count, first);
  ASSERT_TRUE(fakes.add(buffer->view(), version, buffer).ok());
}

std::vector<float> take(Fakes& fakes, std::int64_t count) {
  BatchBuffer to(kColumns, count);
  fakes.take(to.mutable_view());
  const auto values = to.view().as<float>(0);
  return {values.begin(), values.end()};
}

TEST(Fakes, AreGivenOutInOrderWhateverThePartsTheyCameIn) {
  Fakes fakes(kColumns, 3);
  add(fakes, 2, 0, 0);
  add(fakes, 1, 10, 1);
  add(fakes, 2, 20, 2);
  EXPECT_EQ(fakes.rows(), 5);
  EXPECT_THAT(take(fakes, 1), ElementsAre(0, 0.5F));
  EXPECT_THAT(take(fakes, 3), ElementsAre(1, 1.5F, 10, 10.5F, 20, 20.5F));
  EXPECT_EQ(fakes.rows(), 1);
  EXPECT_THAT(take(fakes, 1), ElementsAre(21, 21.5F));
  EXPECT_EQ(fakes.rows(), 0);
  EXPECT_EQ(fakes.dropped(), 0);
}

TEST(Fakes, AreDroppedAndCountedBeyondTheBound) {
  Fakes fakes(kColumns, 2);
  add(fakes, 3, 0, 4);
  take(fakes, 1);
  fakes.set_newest(6);
  EXPECT_EQ(fakes.rows(), 2);  // exactly at the bound
  add(fakes, 2, 10, 5);
  fakes.set_newest(7);
  EXPECT_EQ(fakes.dropped(), 2);  // what was left of the first
  EXPECT_THAT(take(fakes, 1), ElementsAre(10, 10.5F));
  add(fakes, 4, 20, 4);  // too old when it comes
  EXPECT_EQ(fakes.dropped(), 6);
  EXPECT_EQ(fakes.rows(), 1);
  // One was of the newest version, as far as was known then, and one two behind.
  EXPECT_EQ(fakes.staleness().uses(), 2);
  EXPECT_EQ(fakes.staleness().max(), 2);
  EXPECT_EQ(fakes.staleness().mean(), 1);
}

TEST(Fakes, OfAGeneratorThatWasRestartedCount) {
  Fakes fakes(kColumns, 2);
  fakes.set_newest(50);
  add(fakes, 1, 0, 50);
  fakes.set_newest(40);  // from its last checkpoint
  add(fakes, 1, 10, 40);
  EXPECT_EQ(fakes.rows(), 2);
  take(fakes, 2);
  EXPECT_EQ(fakes.staleness().max(), 0);
}

TEST(Fakes, OfAnotherShapeAreRefused) {
  Fakes fakes(kColumns, 2);
  const Signature other = {{"fake", DType::kF32, Shape{3}}};
  BatchBuffer buffer(other, 1);
  const Status added = fakes.add(buffer.view(), 0, nullptr);
  ASSERT_FALSE(added.ok());
  EXPECT_EQ(added.error().code, Code::kShapeMismatch);
  EXPECT_EQ(fakes.rows(), 0);
}

/// Batches of 4, 1 and 0 rows, over and over, that say which they are; each time it has nothing first.
class Real final : public InputPipeline {
 public:
  const Signature& signature() const override { return signature_; }
  Result<BatchView> next() override {
    if (++calls_ % 2 == 1) return Error{Code::kUnavailable, "nothing yet"};
    const std::int64_t rows = std::array{4, 1, 0}[static_cast<std::size_t>(batch_ % 3)];
    for (float& x : buffer_.mutable_view().as<float>(0)) x = static_cast<float>(batch_);
    ++batch_;
    return buffer_.view().slice(0, rows);
  }

 private:
  const Signature signature_ = {{"image", DType::kF32, Shape{1}}};
  BatchBuffer buffer_{signature_, 4};
  int calls_ = 0, batch_ = 0;
};

TEST(WithFakes, PutsAsManyBesideRealImagesAndAsksForNoMore) {
  Fakes fakes(kColumns, 2);
  int waiting = 0, taken = 0;
  const auto input = with_fakes(std::make_unique<Real>(), fakes, [&]() -> Result<bool> {
    if (waiting == 0) return false;
    --waiting;
    add(fakes, 3, static_cast<float>(10 * taken++), 0);
    return true;
  });
  ASSERT_EQ(input->signature().size(), 2U);
  EXPECT_EQ(input->signature()[1].name, "fake");
  const auto said = [&] {
    const auto next = input->next();
    return next.ok() ? "a batch" : next.error().message;
  };
  EXPECT_EQ(said(), "nothing yet");
  EXPECT_EQ(said(), "0 of 4 generated images");
  waiting = 1;
  EXPECT_EQ(said(), "3 of 4 generated images");  // the real images wait
  waiting = 5;
  const auto first = input->next();
  ASSERT_TRUE(first.ok()) << first.error().message;
  EXPECT_EQ(waiting, 4);
  EXPECT_EQ(first->rows, 4);
  EXPECT_THAT(first->as<float>(0), ElementsAre(0, 0, 0, 0));
  EXPECT_THAT(first->as<float>(1), ElementsAre(0, 0.5F, 1, 1.5F, 2, 2.5F, 10, 10.5F));
  EXPECT_EQ(said(), "nothing yet");
  const auto second = input->next();
  ASSERT_TRUE(second.ok());
  EXPECT_EQ(waiting, 4);  // one is left of those that came
  EXPECT_THAT(second->as<float>(0), ElementsAre(1));
  EXPECT_THAT(second->as<float>(1), ElementsAre(11, 11.5F));
  EXPECT_EQ(said(), "nothing yet");
  const auto third = input->next();  // the end of an epoch may have no row for this replica
  ASSERT_TRUE(third.ok());
  EXPECT_EQ(third->rows, 0);
  EXPECT_EQ(third->columns.size(), 2U);
  EXPECT_EQ(waiting, 4);
}

}  // namespace
}  // namespace troupe::learner::sngan
