#pragma once
// Where the elements of a shape lie that repeats to another one, by NumPy's rule (learner/ops/broadcast.hpp).
#include <cuda_runtime.h>

#include <cstdint>

#include <troupe/gpu/api.h>

namespace troupe_cuda {

struct Repeats {
  std::int32_t rank = 0;
  std::int64_t whole[TROUPE_CUDA_MAX_RANK] = {};    ///< sizes
  std::int64_t part[TROUPE_CUDA_MAX_RANK] = {};     ///< sizes; 1 where the whole repeats it
  std::int64_t strides[TROUPE_CUDA_MAX_RANK] = {};  ///< in the whole
  std::int64_t times = 1;                           ///< how often each element of the part is in the whole

  Repeats(const TroupeCudaShape& of_whole, const TroupeCudaShape& of_part) : rank(of_whole.rank) {
    std::int64_t stride = 1;
    for (std::int32_t d = rank - 1; d >= 0; --d) {
      const std::int32_t own = d - (rank - of_part.rank);
      whole[d] = of_whole.dims[d];
      part[d] = own < 0 ? 1 : of_part.dims[own];
      strides[d] = stride;
      stride *= whole[d];
      if (part[d] != whole[d]) times *= whole[d];
    }
  }

  /// Whether the whole is the part `times` times, one behind the other.
  bool in_rows() const {
    std::int32_t d = rank - 1;
    while (d >= 0 && part[d] == whole[d]) --d;
    while (d >= 0 && part[d] == 1) --d;
    return d < 0;
  }

  /// Of an element of the whole.
  __device__ std::int64_t part_of(std::int64_t element) const {
    std::int64_t index = 0;
    for (std::int32_t d = 0; d < rank; ++d) {
      if (part[d] != 1) index = index * part[d] + element / strides[d] % whole[d];
    }
    return index;
  }
  /// The first place in the whole of an element of the part.
  __device__ std::int64_t first_of(std::int64_t element) const {
    std::int64_t place = 0;
    for (std::int32_t d = rank - 1; d >= 0; --d) {
      place += element % part[d] * strides[d];
      element /= part[d];
    }
    return place;
  }
  /// From there to its repetition `number`, 0 .. times - 1.
  __device__ std::int64_t offset(std::int64_t number) const {
    std::int64_t place = 0;
    for (std::int32_t d = rank - 1; d >= 0; --d) {
      if (part[d] == whole[d]) continue;
      place += number % whole[d] * strides[d];
      number /= whole[d];
    }
    return place;
  }
};

}  // namespace troupe_cuda
