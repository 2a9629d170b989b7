#include <troupe/core/aligned.hpp>

#include <sys/mman.h>

#include <cstdint>
#include <cstdlib>
#include <new>

#include <troupe/core/round_up.hpp>

namespace troupe::detail {
namespace {

constexpr std::size_t kLine = 64, kHugePage = std::size_t{2} << 20;
/// From here on half a huge page at most is wasted.
constexpr std::size_t kLarge = kHugePage / 2;

}  // namespace

void* allocate_aligned(std::size_t bytes) {
  const bool large = bytes >= kLarge;
  const std::size_t unit = large ? kHugePage : kLine, room = round_up(bytes, unit);
  // calloc, unlike aligned_alloc and memset, leaves large blocks as the system hands them out. Its own pointer, which
  // free() wants, lies in front of the aligned one.
  void* const memory = std::calloc(room + unit + sizeof(void*), 1);
  if (memory == nullptr) throw std::bad_alloc();
  void** const aligned =
      reinterpret_cast<void**>(round_up(reinterpret_cast<std::uintptr_t>(memory) + sizeof(void*), unit));
  aligned[-1] = memory;
  if (large) (void)madvise(aligned, room, MADV_HUGEPAGE);  // a hint
  return aligned;
}

void free_aligned(void* memory) noexcept { std::free(static_cast<void**>(memory)[-1]); }

}  // namespace troupe::detail
