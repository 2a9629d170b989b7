#pragma once
// Zeroed memory on cache-line boundaries, for buffers that kernels stream over.
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <memory>

#include <troupe/core/check.hpp>

namespace troupe::learner {

template <typename T>
using AlignedArray = std::unique_ptr<T[], void (*)(T*)>;

/// count elements of T, zero, 64-byte aligned. Never null, also for 0.
template <typename T>
AlignedArray<T> make_aligned(std::size_t count) {
  const std::size_t bytes = (count * sizeof(T) / 64 + 1) * 64;
  void* const memory = std::aligned_alloc(64, bytes);
  TROUPE_CHECK(memory != nullptr, "out of memory: {} bytes", bytes);
  std::memset(memory, 0, bytes);
  return {static_cast<T*>(memory), [](T* data) { std::free(data); }};
}

}  // namespace troupe::learner
