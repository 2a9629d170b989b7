// How a rank goes through its calls where the others can be held at any point: rank 0 is SharedCalls, rank 1 is played
// by hand.
#include <troupe/collectives/detail/shared_calls.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <memory>
#include <span>
#include <vector>

#include <troupe/collectives/shareable_memory.hpp>

namespace troupe::collectives::detail {
namespace {

using namespace std::chrono_literals;

constexpr std::size_t kCount = 100'000;
constexpr std::size_t kPieceLength = 12'512;  // an eighth, in whole cache lines
constexpr Pieces kPieces{.before = 0, .count = 8};

class HeldRank : public testing::Test {
 protected:
  void SetUp() override {
    auto made = SharedRegion::create({.epoch = 1, .rank = 0, .size = 2});
    ASSERT_TRUE(made.ok()) << made.error().message;
    region_ = *made;
    auto opened = SharedRegion::open(region_->ticket(), {.epoch = 1, .rank = 1, .size = 2});
    ASSERT_TRUE(opened.ok()) << opened.error().message;
    other_ = *opened;
    calls_ = std::make_unique<SharedCalls>(region_, GroupView{.epoch = 1, .rank = 0, .size = 2}, activity_);
    other_->publish(1);
    ASSERT_TRUE(calls_->await_all(now() + 5s).ok());
    std::ranges::fill(mine(), 1.0f);
    std::ranges::fill(theirs(), 2.0f);
  }

  static TimePoint now() { return std::chrono::steady_clock::now(); }
  std::span<float> mine() { return {reinterpret_cast<float*>(mine_.get()), kCount}; }
  std::span<float> theirs() { return {reinterpret_cast<float*>(theirs_.get()), kCount}; }

  /// An all-reduce, up to where rank 0 has done all pieces but the one that rank 1 has taken.
  void hold_a_piece() {
    const Call what{.kind = CallKind::kAllReduce, .name = "x", .count = kCount};
    call_ = {.call = what, .in = mine().data(), .out = mine().data(), .called = now(), .deadline = now() + 20s};
    ASSERT_TRUE(calls_->add(call_).ok());
    place_ = find_shareable(mine().data(), kCount * sizeof(float));
    const SharedPlace their_place = find_shareable(theirs().data(), kCount * sizeof(float));
    ASSERT_NE(place_.id, 0U);
    other_->lines(1).calls[0].write(what, 1, their_place);
    other_->publish(1);
    calls_->poll(call_);  // sees a block that it does not know
    ASSERT_TRUE(blocks_.learn(std::array{place_, their_place}).ok());
    other_->lines(1).has_mapped = 1;
    other_->publish(1);
    const auto piece = other_->take_piece(1, kPieces);
    ASSERT_TRUE(piece);
    held_ = mine().subspan(*piece * kPieceLength);
    held_ = held_.first(std::min(kPieceLength, held_.size()));
    calls_->poll(call_);
    ASSERT_FALSE(call_.answer);
    EXPECT_EQ(std::ranges::count(mine(), 3.0f), std::ssize(mine()) - std::ssize(held_));
    EXPECT_EQ(std::ranges::count(held_, 1.0f), std::ssize(held_));
  }
  void fail_call() {
    region_->fail({Code::kCancelled, "a member was stopped"});
    calls_->poll(call_);
    ASSERT_TRUE(call_.answer);
  }

  Activity activity_;
  ShareableArray mine_ = make_shareable(kCount * sizeof(float));
  ShareableArray theirs_ = make_shareable(kCount * sizeof(float));
  std::shared_ptr<SharedRegion> region_, other_;
  std::unique_ptr<SharedCalls> calls_;
  SharedCall call_;
  SharedBlocks blocks_{1};
  SharedPlace place_;
  std::span<float> held_;  // of rank 0's values, the piece that rank 1 is at
};

TEST_F(HeldRank, IsWaitedForUntilItsPieceIsDone) {
  hold_a_piece();
  float* const values = blocks_.values(0, place_);
  EXPECT_EQ(std::count(values, values + kCount, 1.0f), std::ssize(held_)) << "rank 1 sees rank 0's values";
  std::fill_n(values + (held_.data() - mine().data()), held_.size(), 3.0f);
  other_->finish_piece(1, kPieces);
  calls_->poll(call_);
  ASSERT_TRUE(call_.answer);
  EXPECT_TRUE(call_.answer->ok());
  EXPECT_EQ(std::ranges::count(mine(), 3.0f), std::ssize(mine()));
}

TEST_F(HeldRank, ReachesNobodyOnceTheGroupIsBroken) {
  hold_a_piece();
  const TimePoint began = now();
  fail_call();
  EXPECT_EQ(call_.answer->error().code, Code::kCancelled);
  EXPECT_LT(now() - began, 400ms);
  std::fill_n(blocks_.values(0, place_), kCount, 42.0f);  // it goes on, hours later
  EXPECT_EQ(std::ranges::count(held_, 1.0f), std::ssize(held_)) << "what is in the block stays";
  EXPECT_EQ(std::ranges::count(mine(), 3.0f), std::ssize(mine()) - std::ssize(held_));
  EXPECT_NE(find_shareable(mine().data(), 4).id, place_.id);
  mine().front() = 5;
  EXPECT_EQ(blocks_.values(0, place_)[0], 42.0f);
}

TEST_F(HeldRank, MayFinishItsPieceAsTheGroupBreaks) {
  hold_a_piece();
  region_->fail({Code::kCancelled, "a member died"});
  other_->finish_piece(1, kPieces);
  EXPECT_FALSE(other_->take_piece(1, {.before = 8, .count = 8})) << "nobody begins another";
  calls_->poll(call_);
  ASSERT_TRUE(call_.answer);
  EXPECT_TRUE(call_.answer->ok()) << "for one rank it is over, so it is for all";
  EXPECT_EQ(find_shareable(mine().data(), 4).id, place_.id);
}

TEST_F(HeldRank, IsNamedWhenItDoesNotGoOn) {
  hold_a_piece();
  call_.deadline = now();
  calls_->poll(call_);
  calls_->poll(call_);
  ASSERT_TRUE(call_.answer);
  EXPECT_EQ(call_.answer->error().code, Code::kDeadlineExceeded);
  EXPECT_NE(call_.answer->error().message.find("rank 1 does not go on with all_reduce(x)"), std::string::npos)
      << call_.answer->error().message;
}

TEST(ShareableMemory, IsFoundByTheValuesInIt) {
  const ShareableArray block = make_shareable(10'000);
  EXPECT_EQ(std::ranges::count(std::span(block.get(), 10'000), std::byte{0}), 10'000);
  const SharedPlace place = find_shareable(block.get() + 64, 100);
  EXPECT_NE(place.id, 0U);
  EXPECT_EQ(place.offset, 64U);
  EXPECT_GE(place.bytes, 10'000U);
  EXPECT_EQ(find_shareable(block.get() + place.bytes - 8, 9).id, 0U) << "the last byte lies behind it";
  EXPECT_EQ(find_shareable(block.get() - 8, 16).id, 0U);
  const std::vector<float> plain(10);
  EXPECT_EQ(find_shareable(plain.data(), 40).id, 0U);
  const ShareableArray other = make_shareable(0);
  EXPECT_NE(find_shareable(other.get(), 0).id, place.id);
}

TEST(SharedBlocks, ForgetARanksOldestOfTooMany) {
  SharedBlocks blocks(0);
  const ShareableArray own = make_shareable(4);
  const SharedPlace own_place = find_shareable(own.get(), 4);
  std::vector<ShareableArray> memory;
  std::vector<SharedPlace> places;
  for (std::size_t i = 0; i <= SharedBlocks::kMaxBlocks; ++i) {
    memory.push_back(make_shareable(4));
    places.push_back(find_shareable(memory.back().get(), 4));
    const std::array both{own_place, places.back()};
    EXPECT_FALSE(blocks.know(both));
    ASSERT_TRUE(blocks.learn(both).ok());
    EXPECT_TRUE(blocks.know(both));
  }
  EXPECT_FALSE(blocks.know(std::array{own_place, places.front()}));
  EXPECT_TRUE(blocks.know(std::array{own_place, places[1]}));
}

TEST(SharedBlocks, SayWhichCannotBeMapped) {
  SharedBlocks blocks(0);
  const ShareableArray memory = make_shareable(4);
  SharedPlace place = find_shareable(memory.get(), 4);
  ++place.id;  // another file has this number by now
  const Status learned = blocks.learn(std::array{SharedPlace{.id = 1}, place});
  ASSERT_FALSE(learned.ok());
  EXPECT_EQ(learned.error().code, Code::kCorrupt);
  EXPECT_TRUE(blocks.know(std::array{SharedPlace{.id = 1}, place})) << "and is not tried again";
}

}  // namespace
}  // namespace troupe::collectives::detail
