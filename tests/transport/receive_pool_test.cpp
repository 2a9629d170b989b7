// Receive buffers: growth with what has come, reuse, the bound, and buffers that outlive their pool.
#include <troupe/transport/receive_pool.hpp>

#include <gtest/gtest.h>

#include <cstring>
#include <thread>
#include <vector>

namespace troupe::transport {
namespace {

/// As a receiver does, with all bytes set to `value`.
std::shared_ptr<const std::byte> fill(ReceivePool& pool, std::size_t bytes, std::byte value = std::byte{1}) {
  ReceiveBuffer buffer = pool.allocate(bytes).value();
  for (std::size_t done = 0; done < bytes;) {
    if (done == buffer.bytes().size()) buffer.grow().value();
    const auto room = buffer.bytes().subspan(done);
    std::memset(room.data(), static_cast<int>(value), room.size());
    done += room.size();
  }
  return std::move(buffer).freeze();
}

TEST(ReceivePool, MemoryGrowsWithWhatHasComeAndNotWithWhatWasAnnounced) {
  ReceivePool pool;
  ReceiveBuffer buffer = pool.allocate(200 << 20).value();
  EXPECT_EQ(buffer.bytes().size(), 65536u);
  EXPECT_EQ(pool.stats().in_use_bytes, 65536u);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(buffer.bytes().data()) % 64, 0u);
  std::memset(buffer.bytes().data(), 7, buffer.bytes().size());
  const std::byte* const address = buffer.bytes().data();
  for (int i = 0; i < 4; ++i) buffer.grow().value();
  EXPECT_EQ(buffer.bytes().size(), std::size_t{1} << 20);
  EXPECT_EQ(buffer.bytes().data(), address) << "nothing is copied";
  EXPECT_EQ(buffer.bytes()[65535], std::byte{7});
  EXPECT_EQ(pool.stats().in_use_bytes, std::size_t{1} << 20);
}

TEST(ReceivePool, GivesExactlyTheAnnouncedSize) {
  ReceivePool pool;
  for (const std::size_t bytes : {1, 63, 64, 65, 65536, 65537, 81920, 81921, 1000000, 5000000}) {
    ReceiveBuffer buffer = pool.allocate(bytes).value();
    while (buffer.bytes().size() < bytes) buffer.grow().value();
    EXPECT_EQ(buffer.bytes().size(), bytes);
    buffer.grow().value();
    EXPECT_EQ(buffer.bytes().size(), bytes);
    EXPECT_LE(pool.stats().in_use_bytes, bytes + bytes / 4 + 64) << bytes;
  }
}

TEST(ReceivePool, ALargeBufferServesAgainAfterTheLastReferenceWentAndNotBefore) {
  ReceivePool pool;
  auto first = fill(pool, 1'000'000);
  const std::byte* const address = first.get();
  const auto copy = std::exchange(first, nullptr);
  EXPECT_NE(fill(pool, 1'000'000).get(), address) << "still referenced";
  EXPECT_EQ(pool.stats().reused, 0u);
  const auto second = fill(pool, 990'000);
  EXPECT_NE(second.get(), nullptr);
  EXPECT_EQ(pool.stats().reused, 1u);
  EXPECT_EQ(pool.stats().idle_bytes, 0u);
}

TEST(ReceivePool, RefusesAtItsBoundAndGivesKeptBuffersBackFirst) {
  ReceivePool pool({.max_bytes = 1 << 20});
  const auto held = fill(pool, 500'000);
  (void)fill(pool, 300'000);
  EXPECT_GT(pool.stats().idle_bytes, 0u);
  ReceiveBuffer buffer = pool.allocate(400'000).value();
  while (buffer.bytes().size() < 400'000) ASSERT_TRUE(buffer.grow().ok());
  EXPECT_EQ(pool.stats().idle_bytes, 0u) << "given back";
  ReceiveBuffer other = pool.allocate(300'000).value();
  const Status refused = other.grow();
  EXPECT_EQ(refused.error().code, Code::kUnavailable);
  EXPECT_EQ(other.bytes().size(), 65536u) << "what came before is still there";
  EXPECT_EQ(pool.allocate(60'000).error().code, Code::kUnavailable);
  EXPECT_LE(pool.stats().in_use_bytes, std::size_t{1} << 20);
}

TEST(ReceivePool, BuffersOutliveIt) {
  std::shared_ptr<const std::byte> bytes;
  {
    ReceivePool pool;
    bytes = fill(pool, 300'000, std::byte{9});
    (void)fill(pool, 300'000);
  }
  EXPECT_EQ(bytes.get()[299'999], std::byte{9});
}

TEST(ReceivePool, ServesManyThreads) {
  ReceivePool pool({.max_bytes = 8 << 20});
  std::vector<std::jthread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&pool, t] {
      for (std::size_t i = 0; i < 200; ++i) {
        const std::size_t bytes = 100 + 9973 * (i % 50);
        const auto mine = fill(pool, bytes, static_cast<std::byte>(t));
        EXPECT_EQ(mine.get()[bytes - 1], static_cast<std::byte>(t));
      }
    });
  }
  threads.clear();
  EXPECT_EQ(pool.stats().in_use_bytes, 0u);
}

}  // namespace
}  // namespace troupe::transport
