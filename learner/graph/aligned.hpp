#pragma once
// Zeroed memory on cache-line boundaries, for buffers that kernels stream over.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>

#include <troupe/core/check.hpp>

namespace troupe::learner {

template <typename T>
using AlignedArray = std::unique_ptr<T[], void (*)(T*)>;

/// count elements of T, zero, 64-byte aligned. Never null, also for 0. Pages that nobody has touched take no memory: a
/// member of a group is made for all rows of a step, and mostly has its share of them.
template <typename T>
AlignedArray<T> make_aligned(std::size_t count) {
  constexpr std::size_t kAlignment = 64;
  // calloc, unlike aligned_alloc and memset, leaves large blocks as the system hands them out. Its own pointer, which
  // free() wants, lies in front of the aligned one.
  const std::size_t bytes = count * sizeof(T) + 2 * kAlignment;
  void* const memory = std::calloc(bytes, 1);
  TROUPE_CHECK(memory != nullptr, "out of memory: {} bytes", bytes);
  const auto address = reinterpret_cast<std::uintptr_t>(memory) + sizeof(void*);
  void** const aligned = reinterpret_cast<void**>((address + kAlignment - 1) / kAlignment * kAlignment);
  aligned[-1] = memory;
  return {reinterpret_cast<T*>(aligned), [](T* data) { std::free(reinterpret_cast<void**>(data)[-1]); }};
}

}  // namespace troupe::learner
