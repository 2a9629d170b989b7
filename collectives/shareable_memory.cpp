#include <troupe/collectives/shareable_memory.hpp>

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <optional>
#include <utility>

#include <troupe/collectives/detail/sealed_file.hpp>
#include <troupe/collectives/detail/shared_place.hpp>
#include <troupe/core/check.hpp>
#include <troupe/core/log.hpp>

namespace troupe::collectives {
namespace {

using detail::SealedFile;

constexpr std::size_t kPage = 4096;

struct Block {
  SealedFile file;
  std::int32_t process = getpid();  // kept, since asking is a system call
};

/// This process's blocks, by where they begin.
class Blocks {
 public:
  static Blocks& all() {
    static Blocks blocks;
    return blocks;
  }
  void put(std::byte* begin, const SealedFile& file) {
    const std::lock_guard lock(mutex_);
    blocks_[begin] = {file};
  }
  SealedFile remove(std::byte* begin) {
    const std::lock_guard lock(mutex_);
    return blocks_.extract(begin).mapped().file;
  }
  /// The block in which all of those bytes lie, and where it begins.
  std::optional<std::pair<std::byte*, Block>> find(const void* values, std::size_t bytes) const {
    auto* const at = static_cast<std::byte*>(const_cast<void*>(values));
    const std::lock_guard lock(mutex_);
    const auto after = blocks_.upper_bound(at);
    if (after == blocks_.begin()) return std::nullopt;
    const auto& [begin, block] = *std::prev(after);
    if (static_cast<std::size_t>(at - begin) + bytes > block.file.bytes) return std::nullopt;
    return std::pair(begin, block);
  }

 private:
  mutable std::mutex mutex_;
  std::map<std::byte*, Block> blocks_;
};

Result<std::byte*> make_block(std::size_t bytes) {
  TROUPE_ASSIGN(const SealedFile file, detail::make_sealed_file("troupe-values", bytes));
  const Result<std::byte*> block = detail::map_sealed_file(file);
  if (block.ok()) {
    Blocks::all().put(*block, file);
  } else {
    close(file.file);
  }
  return block;
}

void release_block(std::byte* begin) {
  const SealedFile file = Blocks::all().remove(begin);
  munmap(begin, file.bytes);
  close(file.file);
}

}  // namespace

ShareableArray make_shareable(std::size_t bytes) {
  const std::size_t whole = std::max(kPage, (bytes + kPage - 1) / kPage * kPage);
  if (const auto block = make_block(whole); block.ok()) {
    return {*block, release_block};
  } else {
    log::warn("{}: collectives copy the values in these {} bytes", block.error().message, bytes);
  }
  auto* const own = static_cast<std::byte*>(std::aligned_alloc(kPage, whole));
  TROUPE_CHECK(own != nullptr, "out of memory: {} bytes", whole);
  std::memset(own, 0, whole);
  return {own, [](std::byte* begin) { std::free(begin); }};
}

namespace detail {

SharedPlace find_shareable(const void* values, std::size_t bytes) {
  const auto found = Blocks::all().find(values, bytes);
  if (!found) return {};
  const auto& [begin, block] = *found;
  return {.id = block.file.id,
          .bytes = block.file.bytes,
          .offset = static_cast<std::uint64_t>(static_cast<const std::byte*>(values) - begin),
          .process = block.process,
          .file = block.file.file};
}

void withdraw_block(const void* values) {
  const auto found = Blocks::all().find(values, 0);
  if (!found) return;
  std::byte* const begin = found->first;
  const SealedFile old = found->second.file;
  const Result<SealedFile> file = make_sealed_file("troupe-values", old.bytes);
  TROUPE_CHECK(file.ok(), "{}", file.error().message);
  const Result<std::byte*> copy = map_sealed_file(*file);
  TROUPE_CHECK(copy.ok(), "{}", copy.error().message);
  std::memcpy(*copy, begin, old.bytes);
  munmap(*copy, old.bytes);
  const Result<std::byte*> moved = map_sealed_file(*file, begin);
  TROUPE_CHECK(moved.ok(), "{}", moved.error().message);
  Blocks::all().put(begin, *file);
  close(old.file);
}

}  // namespace detail
}  // namespace troupe::collectives
