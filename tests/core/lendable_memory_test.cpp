// Memory that other processes may read: blocks never overlap, are used again, and stay this process's alone to write.
#include <troupe/core/lendable_memory.hpp>

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <vector>

namespace troupe {
namespace {

using ::testing::HasSubstr;

constexpr std::size_t kGranule = LendableMemory::kGranule;

std::shared_ptr<LendableMemory> memory(std::size_t bytes) { return LendableMemory::make(bytes).value(); }

std::size_t pages_taken(const LendableMemory& memory) {
  struct stat status {};
  fstat(memory.file(), &status);
  return static_cast<std::size_t>(status.st_blocks) * 512;
}

TEST(LendableMemory, BlocksAreWhereTheirOffsetsSay) {
  const auto lent = memory(8 * kGranule);
  const LendableArray first = lent->take(kGranule + 1);
  const LendableArray second = lent->take(3 * kGranule);
  ASSERT_TRUE(first != nullptr && second != nullptr);
  std::memset(first.get(), 1, kGranule + 1);
  std::memset(second.get(), 2, 3 * kGranule);
  const std::size_t at = lent->offset_of({second.get(), 3 * kGranule}).value();
  EXPECT_EQ(at % kGranule, 0);
  auto* const seen = static_cast<std::byte*>(mmap(nullptr, lent->size(), PROT_READ, MAP_SHARED, lent->file(), 0));
  ASSERT_NE(seen, MAP_FAILED);
  EXPECT_EQ(std::memcmp(seen + at, second.get(), 3 * kGranule), 0);
  EXPECT_EQ(std::memcmp(seen + *lent->offset_of({first.get(), 1}), first.get(), kGranule + 1), 0);
  munmap(seen, lent->size());
}

TEST(LendableMemory, KnowsWhatLiesElsewhere) {
  const auto lent = memory(4 * kGranule);
  const LendableArray block = lent->take(4 * kGranule);
  const std::byte other{};
  EXPECT_EQ(lent->offset_of({block.get(), 4 * kGranule}), 0);
  EXPECT_EQ(lent->offset_of({block.get() + 100, 1}), 100);
  EXPECT_FALSE(lent->offset_of({block.get() + 1, 4 * kGranule})) << "ends outside";
  EXPECT_FALSE(lent->offset_of({block.get() - 1, 2})) << "begins outside";
  EXPECT_FALSE(lent->offset_of({block.get() + 4 * kGranule, 1}));
  EXPECT_FALSE(lent->offset_of({&other, 1}));
  EXPECT_FALSE(lent->offset_of({}));
}

TEST(LendableMemory, AtItsBoundThereIsNothingUntilABlockComesBack) {
  const auto lent = memory(3 * kGranule);
  EXPECT_EQ(lent->take(3 * kGranule + 1), nullptr);
  LendableArray first = lent->take(2 * kGranule);
  const LendableArray second = lent->take(1);
  EXPECT_EQ(lent->take(1), nullptr);
  std::byte* const place = first.get();
  first.reset();
  EXPECT_EQ(lent->take(2 * kGranule).get(), place);
}

TEST(LendableMemory, TakesPagesAsBlocksReachThemAndUsesThemAgain) {
  const auto lent = LendableMemory::make().value();
  EXPECT_GT(lent->size(), std::size_t{64} << 20);
  EXPECT_EQ(pages_taken(*lent), 0);
  for (int i = 0; i < 20; ++i) ASSERT_NE(lent->take(40 * kGranule), nullptr);
  EXPECT_EQ(pages_taken(*lent), 40 * kGranule);
}

TEST(LendableMemory, OutlivesItsOwnerInItsBlocks) {
  auto lent = memory(2 * kGranule);
  LendableArray block = lent->take(kGranule);
  const int file = lent->file();
  lent.reset();
  std::memset(block.get(), 7, kGranule);
  EXPECT_EQ(block[kGranule - 1], std::byte{7});
  block = LendableArray();
  EXPECT_EQ(fcntl(file, F_GETFD), -1);
}

TEST(LendableMemory, NobodyElseWritesToItOrCutsIt) {
  const auto lent = memory(2 * kGranule);
  const LendableArray block = lent->take(kGranule);
  EXPECT_EQ(mmap(nullptr, kGranule, PROT_READ | PROT_WRITE, MAP_SHARED, lent->file(), 0), MAP_FAILED);
  EXPECT_EQ(write(lent->file(), "x", 1), -1);
  EXPECT_EQ(ftruncate(lent->file(), 0), -1);
  std::memset(block.get(), 3, kGranule);
  EXPECT_EQ(block[0], std::byte{3}) << "but who made it still does";
}

TEST(LendableMemory, AForkedChildTakesNoneOfIt) {
  const auto lent = memory(2 * kGranule);
  auto block = lent->take(kGranule);
  std::memset(block.get(), 5, kGranule);
  const pid_t child = fork();
  if (child == 0) {
    const bool none = lent->take(1) == nullptr;
    block.reset();  // that its parent's block is let go of here changes nothing there
    _exit(none ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(block[kGranule - 1], std::byte{5});
  EXPECT_NE(lent->take(kGranule), nullptr);
  EXPECT_EQ(lent->take(kGranule + 1), nullptr);
}

TEST(LendableMemory, AsksThoseWhoLendAsLongAsTheyAreThere) {
  struct Counter final : Lender {
    void take_back() override { ++asked; }
    int asked = 0;
  };
  const auto lent = memory(kGranule);
  lent->take_back();
  auto first = std::make_shared<Counter>();
  const auto second = std::make_shared<Counter>();
  lent->add(first);
  lent->add(second);
  lent->take_back();
  EXPECT_EQ(first->asked, 1);
  first.reset();
  lent->take_back();
  EXPECT_EQ(second->asked, 2);
}

TEST(LendableMemory, IsNoLargerThanFilesMayBe) {
  const pid_t child = fork();
  if (child == 0) {
    const rlimit small{4 * kGranule, 4 * kGranule};
    const bool fits = setrlimit(RLIMIT_FSIZE, &small) == 0 && LendableMemory::make()->get()->size() == 4 * kGranule;
    _exit(fits ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

TEST(LendableMemory, BadSizesAreErrors) {
  EXPECT_THAT(LendableMemory::make(kGranule - 1).error().message,
              HasSubstr("got 16383 bytes, expected 16384 to 68719476736"));
  EXPECT_EQ(LendableMemory::make(LendableMemory::kMost + 1).error().code, Code::kInvalidArgument);
  EXPECT_EQ(memory(2 * kGranule + 5)->size(), 2 * kGranule);
}

}  // namespace
}  // namespace troupe
