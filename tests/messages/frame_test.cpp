// Frames and their pool: sharing, reuse, the bound, and frames that outlive the pool.
#include <troupe/messages/frame.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <thread>
#include <vector>

namespace troupe::messages {
namespace {

TEST(Frame, CopiesShareTheSameBytes) {
  FramePool pool;
  auto buffer = pool.allocate(100).value();
  buffer.bytes()[0] = std::byte{42};
  const Frame frame = std::move(buffer).freeze(100);
  const Frame copy = frame;
  EXPECT_EQ(copy.bytes().data(), frame.bytes().data());
  EXPECT_EQ(copy.size(), 100u);
  EXPECT_EQ(copy.bytes()[0], std::byte{42});
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(copy.bytes().data()) % 64, 0u);
  EXPECT_FALSE(Frame());
  EXPECT_EQ(Frame().size(), 0u);
}

TEST(FramePool, ReusesABufferAfterTheLastReferenceWentAndNotBefore) {
  FramePool pool;
  Frame first = pool.copy(std::vector<std::byte>(5000)).value();
  const std::byte* address = first.bytes().data();
  Frame copy = first;
  first = Frame();
  EXPECT_NE(pool.copy(std::vector<std::byte>(5000)).value().bytes().data(), address) << "still referenced";
  copy = Frame();
  const FramePoolStats idle = pool.stats();
  EXPECT_EQ(idle.in_use_bytes, 0u);
  const Frame again = pool.copy(std::vector<std::byte>(4900)).value();  // of the same size class
  EXPECT_EQ(again.bytes().data(), address);
  EXPECT_EQ(pool.stats().fresh, idle.fresh);
  EXPECT_EQ(pool.stats().reused, idle.reused + 1);
}

TEST(FramePool, WastesAtMostAQuarter) {
  FramePool pool;
  for (std::size_t bytes = 1024; bytes < (1u << 22); bytes = bytes * 9 / 8 + 1) {
    FrameBuffer buffer = pool.allocate(bytes).value();
    EXPECT_GE(buffer.bytes().size(), bytes);
    EXPECT_LE(buffer.bytes().size(), bytes + bytes / 4 + 1) << bytes;
  }
}

TEST(FramePool, RefusesAtItsBoundsAndGivesIdleBuffersOfOtherSizesBackFirst) {
  FramePool pool({.max_frame_bytes = 1 << 20, .max_bytes = 3 << 20});
  EXPECT_EQ(pool.allocate((1 << 20) + 1).error().code, Code::kInvalidArgument);
  std::vector<FrameBuffer> held;
  for (int i = 0; i < 3; ++i) held.push_back(pool.allocate(1 << 20).value());
  const auto refused = pool.allocate(1);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, Code::kUnavailable);
  EXPECT_EQ(refused.error().message, "frame of 1 bytes: 3145728 bytes of frames are in use, at most 3145728 allowed");
  held.clear();
  EXPECT_EQ(pool.stats().idle_bytes, std::size_t{3} << 20);
  EXPECT_TRUE(pool.allocate(1).ok());
  EXPECT_LE(pool.stats().idle_bytes + pool.stats().in_use_bytes, std::size_t{3} << 20);
}

TEST(FramePool, FramesOutliveIt) {
  Frame frame;
  {
    FramePool pool;
    frame = pool.copy(std::vector<std::byte>(2000, std::byte{7})).value();
  }
  EXPECT_EQ(frame.bytes()[1999], std::byte{7});
}

TEST(FramePool, MakesLargeFramesInLendableMemoryWhileThatHasRoom) {
  constexpr std::size_t kLarge = LendableMemory::kLeastBlock;
  const auto memory = LendableMemory::make(2 * kLarge).value();
  FramePool pool({.memory = memory});
  const auto lies_there = [&](const Frame& frame) { return memory->offset_of(frame.bytes()).has_value(); };
  const std::vector<std::byte> bytes(kLarge, std::byte{7});
  std::vector<Frame> frames;
  for (const bool expected : {true, true, false}) {
    frames.push_back(pool.copy(bytes).value());
    EXPECT_EQ(lies_there(frames.back()), expected);
    EXPECT_TRUE(std::ranges::equal(frames.back().bytes(), bytes));
  }
  EXPECT_FALSE(lies_there(pool.copy(std::span(bytes).first(kLarge / 2)).value())) << "small ones are sent anyway";
  const std::byte* const place = frames[0].bytes().data();
  frames.erase(frames.begin());
  EXPECT_EQ(pool.copy(bytes)->bytes().data(), place);
}

TEST(FramePool, TakesBackWhatWasLentBeforeItMakesANewBuffer) {
  struct Borrower final : Lender {
    void take_back() override { frame = Frame(); }
    Frame frame;
  };
  const auto memory = LendableMemory::make(4 * LendableMemory::kLeastBlock).value();
  FramePool pool({.max_bytes = LendableMemory::kLeastBlock, .memory = memory});
  const auto borrower = std::make_shared<Borrower>();
  memory->add(borrower);
  const std::vector<std::byte> bytes(LendableMemory::kLeastBlock);
  for (int i = 0; i < 3; ++i) borrower->frame = pool.copy(bytes).value();
  EXPECT_EQ(pool.stats().fresh, 1u);
  const Frame kept = borrower->frame;
  EXPECT_EQ(pool.copy(bytes).error().code, Code::kUnavailable) << "it is still read";
}

TEST(FramePool, SurvivesManyThreadsPassingFrames) {
  FramePool pool({.max_frame_bytes = 1 << 16, .max_bytes = 1 << 20});
  const Frame shared = pool.copy(std::vector<std::byte>(3000, std::byte{9})).value();
  std::atomic<int> wrong = 0;
  std::vector<std::jthread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 2000; ++i) {
        const Frame copy = shared;
        const std::vector<std::byte> bytes(static_cast<std::size_t>(100 + 37 * (i % 50)), static_cast<std::byte>(t));
        const Frame own = pool.copy(bytes).value();
        if (copy.bytes()[17] != std::byte{9} || !std::ranges::equal(own.bytes(), bytes)) ++wrong;
      }
    });
  }
  threads.clear();
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(pool.stats().in_use_bytes, 3072u) << "only the shared frame is left";
}

TEST(Frame, AdoptsBytesWithoutACopyAndHoldsTheirOwnerUntilTheLastReferenceWent) {
  struct alignas(64) Bytes {
    std::byte bytes[192];
  };
  auto owner = std::make_shared<const Bytes>();
  const std::weak_ptr<const Bytes> watch = owner;
  const std::span<const std::byte> bytes(owner->bytes);
  EXPECT_EQ(Frame::adopt(bytes.subspan(8), owner).error().code, Code::kInvalidArgument);
  Frame frame = Frame::adopt(bytes.subspan(64, 100), std::move(owner)).value();
  EXPECT_EQ(frame.size(), 100u);
  Frame copy = frame;
  frame = Frame();
  EXPECT_FALSE(watch.expired());
  EXPECT_EQ(copy.bytes().data(), bytes.data() + 64);
  copy = Frame();
  EXPECT_TRUE(watch.expired());
}

class Note final : public Parsed {
 public:
  explicit Note(int number) : Parsed(Kind::kControl), value(number) {}
  int value;
};

TEST(Frame, KeepsTheFirstParseOnly) {
  FramePool pool;
  const Frame frame = pool.copy(std::vector<std::byte>(8)).value();
  EXPECT_EQ(frame.parsed(), nullptr);
  const Parsed* kept = frame.keep(std::make_unique<Note>(1));
  EXPECT_EQ(frame.keep(std::make_unique<Note>(2)), kept);
  EXPECT_EQ(Frame(frame).parsed(), kept);
  EXPECT_EQ(static_cast<const Note*>(kept)->value, 1);
}

}  // namespace
}  // namespace troupe::messages
