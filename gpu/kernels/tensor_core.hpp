#pragma once
// A warp's product of 16 x 8 by 8 x 8 numbers on tensor cores, as PTX names it: mma.m16n8k8 with TF32 operands. Lane l
// is number t = l % 4 of group g = l / 4, and has
//   of a: rows g and g + 8 of column t, then the same of column t + 4
//   of b: rows t and t + 4 of column g
//   of c: columns 2t and 2t + 1 of row g, then of row g + 8
#include <cuda_runtime.h>

#include <cstdint>
#include <cstring>

namespace troupe_cuda {

/// Rounded to the 11 bits of TF32, which is a float with zeros behind them.
__device__ inline float to_tf32(float x) {
#ifdef __CUDACC__
  std::uint32_t bits = 0;
  asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(bits) : "f"(x));
  return __uint_as_float(bits);
#else
  std::uint32_t bits = 0;
  std::memcpy(&bits, &x, sizeof(x));
  constexpr std::uint32_t kExponent = 0x7f800000, kRest = 0x1fff;
  if ((bits & kExponent) == kExponent) return x;
  bits = (bits + 0x1000) & ~kRest;  // half away from zero
  std::memcpy(&x, &bits, sizeof(x));
  return x;
#endif
}

/// c += a b, by all lanes of a warp; of a and b what TF32 holds of them.
__device__ inline void multiply_add(float (&c)[4], const float (&a)[4], const float (&b)[2]) {
#ifdef __CUDACC__
  asm volatile(
      "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
      "{%0, %1, %2, %3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(__float_as_uint(a[0])), "r"(__float_as_uint(a[1])), "r"(__float_as_uint(a[2])), "r"(__float_as_uint(a[3])),
        "r"(__float_as_uint(b[0])), "r"(__float_as_uint(b[1])));
#else
  __shared__ float all_a[1024][4], all_b[1024][2];
  const auto thread = static_cast<int>(threadIdx.x), lane = thread % 32, first = thread - lane;
  for (int i = 0; i < 4; ++i) all_a[thread][i] = a[i];
  for (int i = 0; i < 2; ++i) all_b[thread][i] = b[i];
  __syncwarp();
  for (int i = 0; i < 4; ++i) {
    const int row = lane / 4, col = lane % 4 * 2 + i % 2;
    for (int k = 0; k < 8; ++k) {
      c[i] += all_a[first + 4 * row + k % 4][i / 2 + k / 4 * 2] * all_b[first + 4 * col + k % 4][k / 4];
    }
  }
  __syncwarp();  // before others bring what they have next
#endif
}

}  // namespace troupe_cuda
