#include <troupe/tests/gpu/emulator/memory.hpp>

#include <fmt/format.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>

namespace troupe_emulator {

namespace {

constexpr int kPoison = 0xff;
constexpr std::size_t kPage = 4096;

std::size_t round_up(std::size_t bytes, std::size_t to) { return (bytes + to - 1) / to * to; }

}  // namespace

// ---- both ----

std::int64_t Allocations::holds(const void* memory, std::size_t bytes) const {
  auto* const from = static_cast<std::byte*>(const_cast<void*>(memory));
  auto block = blocks_.upper_bound(from);
  if (block == blocks_.begin()) return -1;
  --block;
  const auto offset = static_cast<std::size_t>(from - block->first);
  if (offset > block->second || bytes > block->second - offset) return -1;
  return static_cast<std::int64_t>(block->second);
}

bool Allocations::untouched(const std::byte* from, std::size_t bytes) {
  return bytes == 0 || (*from == std::byte{kPoison} && std::memcmp(from, from + 1, bytes - 1) == 0);
}

std::string Allocations::overrun(const std::byte* memory) const {
  const std::size_t bytes = blocks_.at(const_cast<std::byte*>(memory));
  const bool before = !untouched(memory - kGuard, kGuard);
  const bool behind = !untouched(memory + bytes, whole_bytes(bytes) - kGuard - bytes);
  if (!before && !behind) return {};
  return fmt::format("something was written {} an allocation of {} bytes", before ? "before" : "behind", bytes);
}

std::size_t Allocations::whole_bytes(std::size_t bytes) { return round_up(bytes, kGuard) + 2 * kGuard; }

// ---- devices ----

DeviceMemory::DeviceMemory() {
  void* const range = mmap(nullptr, kReserved, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (range == MAP_FAILED) {
    std::perror("emulated device: its memory");
    std::abort();
  }
  base_ = static_cast<std::byte*>(range);
}
DeviceMemory::~DeviceMemory() { munmap(base_, kReserved); }

bool DeviceMemory::contains(const void* memory) const { return memory >= base_ && memory < base_ + kReserved; }

void* DeviceMemory::allocate(std::size_t bytes) {
  const std::size_t counted = round_up(bytes, kGuard), whole = whole_bytes(bytes);
  if (counted > total_ - std::min(used_, total_)) return nullptr;
  // The first gap. Taken: all that is allocated or kept apart, in order.
  std::map<std::byte*, std::size_t> taken = blocks_;
  taken.insert(released_.begin(), released_.end());
  std::byte* at = base_;
  for (const auto& [memory, size] : taken) {
    if (static_cast<std::size_t>(memory - kGuard - at) >= whole) break;
    at = memory - kGuard + whole_bytes(size);
  }
  if (static_cast<std::size_t>(base_ + kReserved - at) < whole) return nullptr;
  blocks_[at + kGuard] = bytes;
  open();
  std::memset(at, kPoison, whole);
  close();
  used_ += counted;
  return at + kGuard;
}

bool DeviceMemory::release(void* memory, bool in_use, std::string* error) {
  const auto block = blocks_.find(static_cast<std::byte*>(memory));
  if (block == blocks_.end()) return false;
  open();
  *error = overrun(block->first);
  std::memset(block->first - kGuard, kPoison, whole_bytes(block->second));
  close();
  used_ -= round_up(block->second, kGuard);
  if (in_use) released_.insert(*block);
  blocks_.erase(block);
  return true;
}

std::string DeviceMemory::check(bool idle) {
  std::string error;
  for (const auto& [memory, bytes] : released_) {
    if (!untouched(memory, bytes)) {
      error = fmt::format("work that was put on a stream before wrote to {} bytes after their release", bytes);
    }
  }
  for (const auto& [memory, bytes] : blocks_) {
    if (error.empty()) error = overrun(memory);
  }
  if (idle) released_.clear();
  return error;
}

void DeviceMemory::open() {
  std::size_t end = 0;  // of what there is: opening less costs less
  for (const auto* blocks : {&blocks_, &released_}) {
    if (blocks->empty()) continue;
    const auto& [memory, bytes] = *blocks->rbegin();
    end = std::max(end, static_cast<std::size_t>(memory - base_) - kGuard + whole_bytes(bytes));
  }
  end = round_up(end, kPage);
  if (opened_ >= end) return;
  if (mprotect(base_, end, PROT_READ | PROT_WRITE) != 0) {
    std::perror("emulated device: opening its memory");
    std::abort();
  }
  opened_ = end;
}

void DeviceMemory::close() {
  if (opened_ == 0) return;
  if (mprotect(base_, opened_, PROT_NONE) != 0) {
    std::perror("emulated device: closing its memory");
    std::abort();
  }
  opened_ = 0;
}

// ---- pinned ----

PinnedMemory::~PinnedMemory() {
  for (const auto& block : blocks_) std::free(block.first - kGuard);
}

void* PinnedMemory::allocate(std::size_t bytes) {
  auto* const whole = static_cast<std::byte*>(std::aligned_alloc(kGuard, whole_bytes(bytes)));
  if (whole == nullptr) return nullptr;
  std::memset(whole, kPoison, whole_bytes(bytes));
  blocks_[whole + kGuard] = bytes;
  return whole + kGuard;
}

bool PinnedMemory::release(void* memory, std::string* error) {
  const auto block = blocks_.find(static_cast<std::byte*>(memory));
  if (block == blocks_.end()) return false;
  *error = overrun(block->first);
  std::free(block->first - kGuard);
  blocks_.erase(block);
  return true;
}

}  // namespace troupe_emulator
