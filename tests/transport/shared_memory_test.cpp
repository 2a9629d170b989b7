// Shared memory between a sender and a receiver: in one process where that shows the same, and in two where death and
// mappings matter.
#include <troupe/transport/shared_memory.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <deque>
#include <fstream>
#include <mutex>
#include <thread>
#include <vector>

#include <troupe/core/rng.hpp>
#include <troupe/tests/transport/shared_memory_fixture.hpp>

namespace troupe::transport {
namespace {

using ::testing::HasSubstr;

TEST_F(SharedMemory, CarriesPayloadsOfAllSizesToAnotherProcess) {
  const std::vector<std::size_t> sizes = {kLeast, kLeast + 1, kMiB + 17, 16 * kMiB, 64 * kMiB, 3 * kLeast - 1};
  const auto source = sender(96 * kMiB);
  Child child([&](const Descriptor& parent) {
    const auto receiver = SharedReceiver::connect(source->offer()).value();
    tell(parent, true);
    for (std::size_t i = 0; i < sizes.size(); ++i) {
      const auto opened = receiver->open(hear<SharedReference>(parent));
      const bool aligned = opened.ok() && reinterpret_cast<std::uintptr_t>(opened->bytes.data()) % 4096 == 0;
      tell(parent, aligned && same(opened->bytes, payload(sizes[i], i)));
    }
    return hear<bool>(parent);
  });
  ASSERT_TRUE(hear<bool>(child.socket()));
  EXPECT_TRUE(source->stats().connected);
  EXPECT_TRUE(folder_is_empty()) << "the socket is of no use any more";
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    const auto reference = source.lend(payload(sizes[i], i));
    ASSERT_TRUE(reference) << sizes[i];
    tell(child.socket(), *reference);
    EXPECT_TRUE(hear<bool>(child.socket())) << sizes[i];
  }
  EXPECT_EQ(source->stats().lent, sizes.size());
  tell(child.socket(), true);
  EXPECT_EQ(child.wait(), 0);
}

TEST_F(SharedMemory, AKilledReceiverGivesBackWhatItHad) {
  const auto source = sender();
  Child child([&](const Descriptor& parent) {
    const auto receiver = SharedReceiver::connect(source->offer()).value();
    tell(parent, true);
    const auto held = receiver->open(hear<SharedReference>(parent));
    tell(parent, held.ok());
    return hear<bool>(parent);
  });
  ASSERT_TRUE(hear<bool>(child.socket()));
  tell(child.socket(), source.lend(payload(3 * kLeast, 1)).value());
  ASSERT_TRUE(hear<bool>(child.socket()));
  ASSERT_TRUE(source.lend(payload(2 * kLeast, 2))) << "never opened";
  EXPECT_EQ(source->stats().lent_bytes, 5 * kLeast);
  child.kill();
  EXPECT_FALSE(source.lend(payload(kLeast, 3)));
  const SharedSenderStats stats = source->stats();
  EXPECT_FALSE(stats.connected);
  EXPECT_EQ(stats.lent_bytes, 0);
  EXPECT_EQ(stats.not_connected, 1);
}

TEST_F(SharedMemory, WhatIsOpenOutlivesAKilledSenderAndTheReceiver) {
  Child child([&](const Descriptor& parent) {
    const auto source = sender();
    tell(parent, pack(source->offer()));
    if (!hear<bool>(parent)) return false;
    for (std::uint64_t i = 0; i < 2; ++i) tell(parent, source.lend(payload(5 * kLeast, i)).value());
    return hear<bool>(parent);
  });
  auto receiver = SharedReceiver::connect(unpack(hear<OfferPacket>(child.socket()))).value();
  tell(child.socket(), true);
  const auto first = hear<SharedReference>(child.socket());
  const auto second = hear<SharedReference>(child.socket());
  std::vector<SharedBytes> held;
  held.push_back(receiver->open(first).value());
  child.kill();
  held.push_back(receiver->open(second).value());  // it was here before its sender died
  receiver.reset();
  EXPECT_TRUE(same(held[0].bytes, payload(5 * kLeast, 0)));
  EXPECT_TRUE(same(held[1].bytes, payload(5 * kLeast, 1)));
}

TEST_F(SharedPair, IsUsedAgain) {
  connect(kMiB, 2 * kMiB);
  for (std::uint64_t i = 0; i < 100; ++i) {
    const auto bytes = payload(700 * 1024, i);
    const auto reference = sender_.lend(bytes);
    ASSERT_TRUE(reference) << i;
    ASSERT_TRUE(same(receiver_->open(*reference).value().bytes, bytes)) << i;
  }
  EXPECT_EQ(sender_->stats().full, 0);
  EXPECT_EQ(receiver_->stats().opened, 100);
}

TEST_F(SharedPair, AtTheBoundPayloadsAreLeftToTheLink) {
  connect(4 * kLeast);
  EXPECT_FALSE(sender_.lend(payload(4 * kLeast + 1, 1))) << "larger than the bound";
  auto first = receiver_->open(lend(2 * kLeast)).value();
  const SharedBytes second = receiver_->open(lend(2 * kLeast)).value();
  EXPECT_FALSE(sender_.lend(payload(kLeast, 1)));
  EXPECT_EQ(sender_->stats().full, 2);
  EXPECT_EQ(sender_->stats().lent_bytes, 4 * kLeast);
  EXPECT_EQ(receiver_->stats().held_bytes, 4 * kLeast);
  first = {};
  EXPECT_TRUE(sender_.lend(payload(kLeast, 1)));
}

TEST_F(SharedPair, SmallPayloadsAreNotForIt) {
  connect();
  EXPECT_FALSE(sender_.lend({}));
  EXPECT_FALSE(sender_.lend(payload(kLeast - 1, 1)));
  EXPECT_EQ(sender_->stats().full + sender_->stats().not_connected, 0);
}

TEST_F(SharedPair, WithoutAReceiverPayloadsAreLeftToTheLinkUntilItComes) {
  sender_ = sender();
  EXPECT_FALSE(sender_.lend(payload(kLeast, 1)));
  EXPECT_EQ(sender_->stats().not_connected, 1);
  receiver_ = SharedReceiver::connect(sender_->offer()).value();
  EXPECT_TRUE(sender_.lend(payload(kLeast, 1)));
}

TEST_F(SharedPair, ReleasesThatFoundNoRoomOnTheSocketAreNotLost) {
  constexpr std::size_t kCount = 1000;  // a Unix socket holds fewer than 300 such packets
  connect(kCount * kLeast);
  {
    std::vector<SharedBytes> held;
    for (std::size_t i = 0; i < kCount; ++i) held.push_back(receiver_->open(lend()).value());
    EXPECT_FALSE(sender_.lend(payload(kLeast, 1)));
  }
  for (int round = 0; round < 10; ++round) ASSERT_TRUE(receiver_->open(lend()).ok());
  EXPECT_EQ(sender_->stats().lent_bytes, 0);
  EXPECT_EQ(sender_->stats().false_releases, 0);
}

TEST_F(SharedPair, WhatIsLentStaysUntilTheLastReaderHasGivenItBack) {
  connect();
  const auto bytes = payload(2 * kLeast, 1);
  std::shared_ptr<std::byte[]> made = sender_.memory->take(bytes.size());
  std::memcpy(made.get(), bytes.data(), bytes.size());
  const std::weak_ptr<std::byte[]> kept = made;
  const std::span<const std::byte> lent(made.get(), bytes.size());
  std::vector<SharedBytes> readers;
  for (int i = 0; i < 2; ++i) {
    readers.push_back(receiver_->open(sender_->lend(lent, made).value()).value());
    EXPECT_TRUE(same(readers.back().bytes, bytes));
  }
  EXPECT_EQ(readers[0].bytes.data(), readers[1].bytes.data()) << "nothing is copied";
  EXPECT_EQ(sender_->stats().copied, 0);
  made.reset();
  readers.pop_back();
  EXPECT_EQ(sender_->stats().lent_bytes, 2 * kLeast);
  EXPECT_FALSE(kept.expired());
  readers.pop_back();
  EXPECT_FALSE(kept.expired()) << "nobody has looked";
  sender_.memory->take_back();
  EXPECT_TRUE(kept.expired());
  EXPECT_EQ(sender_->stats().lent_bytes, 0);
}

TEST_F(SharedPair, WhatLiesElsewhereIsCopied) {
  connect(kMiB, 4 * kLeast);
  auto bytes = std::make_shared<std::vector<std::byte>>(payload(3 * kLeast, 1));
  const auto reference = sender_->lend(*bytes, bytes);
  ASSERT_TRUE(reference);
  const auto block = sender_.memory->take(kLeast);
  EXPECT_FALSE(sender_->lend(std::span(block.get() + 1, kLeast - 1), nullptr)) << "too short";
  EXPECT_FALSE(sender_->lend(*bytes, bytes)) << "there is no memory for another copy";
  EXPECT_EQ(bytes.use_count(), 1);
  std::ranges::fill(*bytes, std::byte{});
  EXPECT_TRUE(same(receiver_->open(*reference).value().bytes, payload(3 * kLeast, 1)));
  EXPECT_EQ(sender_->stats().copied, 1);
  EXPECT_EQ(sender_->stats().full, 1);
}

TEST_F(SharedPair, ReferencesMayComeInAnyOrderButOnce) {
  connect();
  const SharedReference first = lend(kLeast, 1);
  const SharedReference second = lend(kLeast, 2);
  const SharedReference third = lend(kLeast, 3);
  EXPECT_EQ(refusal(third), "opened");
  EXPECT_EQ(refusal(first), "opened");
  EXPECT_THAT(refusal(first), HasSubstr("stale reference 1"));
  EXPECT_EQ(refusal(second), "opened");
  EXPECT_THAT(refusal(third), HasSubstr("stale reference 3"));
  EXPECT_EQ(sender_->stats().lent_bytes, 0);
}

TEST_F(SharedMemory, BadOptionsAreErrors) {
  const auto refusal = [](const SharedSenderOptions& options) {
    const auto made = SharedSender::make(options);
    return made.ok() ? "made" : made.error().message;
  };
  const auto memory = LendableMemory::make(kMiB).value();
  EXPECT_THAT(refusal({.directory = folder_}), HasSubstr("there is none to lend"));
  EXPECT_THAT(refusal({.memory = memory, .directory = folder_ + "/nowhere"}), HasSubstr("cannot make a folder in"));
  EXPECT_THAT(refusal({.memory = memory, .directory = std::string(200, 'x')}), HasSubstr("at most 107 allowed"));
  EXPECT_TRUE(folder_is_empty());
}

TEST_F(SharedMemory, AThousandConnectionsLeaveNothingBehind) {
  const auto mappings = [] {
    std::ifstream maps("/proc/self/maps");
    std::size_t count = 0;
    for (std::string line; std::getline(maps, line);) count += line.find("memfd:troupe") != std::string::npos;
    return count;
  };
  const std::size_t before = open_descriptors();
  for (std::uint64_t i = 0; i < 1000; ++i) {
    const Source source = sender(4 * kLeast);
    auto receiver = SharedReceiver::connect(source->offer()).value();
    const auto reference = source.lend(payload(kLeast, i)).value();
    if (i % 4 == 0) continue;  // a reference on the way, a receiver that never heard of the sender
    const auto opened = receiver->open(reference);
    ASSERT_TRUE(opened.ok());
    if (i % 4 == 1) receiver.reset();
  }
  EXPECT_EQ(open_descriptors(), before);
  EXPECT_EQ(mappings(), 0);
  EXPECT_TRUE(folder_is_empty());
}

TEST_F(SharedPair, NoMoreIsLentThanTheBoundAndNoMoreMemoryTaken) {
  constexpr std::size_t kBound = 32 * kMiB;
  const auto shared_bytes = [] {
    std::ifstream status("/proc/self/status");
    std::size_t kib = 0;
    for (std::string word; status >> word;) {
      if (word == "RssShmem:") status >> kib;
    }
    return kib * 1024;
  };
  const std::size_t before = shared_bytes();
  connect(kBound, 2 * kBound);
  Rng rng(1);
  std::deque<SharedBytes> held;
  const std::vector<std::byte> source = payload(8 * kMiB, 1);
  for (int i = 0; i < 3000; ++i) {
    const std::size_t size = kLeast << rng.below(8);
    const auto reference = sender_.lend(std::span(source).first(size - rng.below(kLeast / 2)));
    if (reference) held.push_back(receiver_->open(*reference).value());
    while (held.size() > rng.below(24)) held.erase(held.begin() + static_cast<std::ptrdiff_t>(rng.below(held.size())));
    ASSERT_LE(sender_->stats().lent_bytes, kBound);
  }
  EXPECT_GT(sender_->stats().full, 0) << "the bound was never met";
  // Each of the two mappings of this process counts.
  EXPECT_LE(shared_bytes(), before + 4 * kBound);
  EXPECT_GT(shared_bytes(), before + kBound / 2);
}

TEST_F(SharedPair, ManyThreadsLendOpenAndDropAtOnce) {
  connect(4 * kMiB);
  constexpr std::uint64_t kEach = 300;
  std::mutex mutex;
  std::deque<std::pair<SharedReference, std::uint64_t>> sent;
  std::atomic<std::uint64_t> arrived = 0;
  std::atomic<std::uint64_t> wrong = 0;
  const auto lend_all = [&](std::uint64_t thread) {
    for (std::uint64_t i = 0; i < kEach; ++i) {
      const std::uint64_t seed = thread * kEach + i;
      const auto bytes = payload(kLeast + seed % 7 * 20'000, seed);
      for (;;) {
        if (const auto reference = sender_.lend(bytes)) {
          const std::lock_guard lock(mutex);
          sent.emplace_back(*reference, seed);
          break;
        }
        std::this_thread::yield();
      }
    }
  };
  const auto open_all = [&] {
    while (arrived.load() < 3 * kEach) {
      std::pair<SharedReference, std::uint64_t> next;
      {
        const std::lock_guard lock(mutex);
        if (sent.empty()) continue;
        next = sent.front();
        sent.pop_front();
      }
      const auto opened = receiver_->open(next.first);
      wrong += !opened.ok() || !same(opened->bytes, payload(kLeast + next.second % 7 * 20'000, next.second));
      ++arrived;
    }
  };
  {
    std::vector<std::jthread> threads;
    for (std::uint64_t i = 0; i < 3; ++i) threads.emplace_back(lend_all, i);
    for (int i = 0; i < 2; ++i) threads.emplace_back(open_all);
  }
  EXPECT_EQ(wrong.load(), 0);
  EXPECT_EQ(sender_->stats().lent_bytes, 0);
}

}  // namespace
}  // namespace troupe::transport
