#pragma once
// Zeroed memory that kernels stream over: on the boundaries of cache lines, and in huge pages where it is large, since
// the entries of small ones do not fit into a processor's table of them. Of those nobody has touched no memory is
// taken: a member of a group is made for all rows of a step, and mostly has its share of them.
#include <cstddef>
#include <memory>

namespace troupe {

template <typename T>
using AlignedArray = std::unique_ptr<T[], void (*)(T*)>;

namespace detail {
void* allocate_aligned(std::size_t bytes);
void free_aligned(void* memory) noexcept;
}  // namespace detail

/// count elements of T, zero, 64-byte aligned. Never null, also for 0. Throws std::bad_alloc.
template <typename T>
AlignedArray<T> make_aligned(std::size_t count) {
  return {static_cast<T*>(detail::allocate_aligned(count * sizeof(T))), [](T* data) { detail::free_aligned(data); }};
}

}  // namespace troupe
