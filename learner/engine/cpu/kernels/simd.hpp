#pragma once
// One vector type for kernel_bodies.hpp: float lanes as wide as the translation unit's instruction set, or one double.
// Everything lies in an unnamed namespace and avoids the standard library's inline functions, because the file is
// compiled with several instruction sets into one program and the linker must not merge those copies.
#include <cstdint>
#if defined(__AVX2__)
#include <immintrin.h>
#endif

namespace {

// GCC and Clang vector extensions: arithmetic, comparison and ?: work lane by lane.
#if defined(__AVX512F__)
constexpr int kFloatLanes = 16;
#elif defined(__AVX2__)
constexpr int kFloatLanes = 8;
#else
constexpr int kFloatLanes = 4;
#endif
typedef float FloatVector __attribute__((vector_size(4 * kFloatLanes)));
typedef std::int32_t IntVector __attribute__((vector_size(4 * kFloatLanes)));
typedef std::uint32_t UintVector __attribute__((vector_size(4 * kFloatLanes)));
typedef std::uint16_t ShortVector __attribute__((vector_size(2 * kFloatLanes)));

#if defined(__AVX512F__)
constexpr IntVector kLaneIndex = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
#elif defined(__AVX2__)
constexpr IntVector kLaneIndex = {0, 1, 2, 3, 4, 5, 6, 7};
#else
constexpr IntVector kLaneIndex = {0, 1, 2, 3};
#endif

struct Float {
  using T = float;
  using Bits = UintVector;  ///< as many whole numbers of 32 bits
  static constexpr int kLanes = kFloatLanes;
  FloatVector v;

  static Float set(T x) { return {x - FloatVector{}}; }
  /// first, first + 1, ...
  static Float count_from(T first) { return {first + __builtin_convertvector(kLaneIndex, FloatVector)}; }
  static Bits bits_from(std::uint32_t first) { return first + (UintVector)kLaneIndex; }
  /// Of numbers below 2^31.
  static Float of_bits(Bits bits) { return {__builtin_convertvector((IntVector)bits, FloatVector)}; }
  static Float load(const T* p) {
    Float x;
    __builtin_memcpy(&x.v, p, sizeof x.v);
    return x;
  }
  void store(T* p) const { __builtin_memcpy(p, &v, sizeof v); }
  // Past the caches, where that can be done, which saves reading what is written over. p is a multiple of the vector's
  // size; fence() before others may look.
#if defined(__AVX512F__)
  void stream(T* p) const { _mm512_stream_ps(p, (__m512)v); }
  static void fence() { _mm_sfence(); }
#elif defined(__AVX2__)
  void stream(T* p) const { _mm256_stream_ps(p, (__m256)v); }
  static void fence() { _mm_sfence(); }
#else
  void stream(T* p) const { store(p); }
  static void fence() {}
#endif

  // The first n lanes, 0 < n < kLanes; the others are zero and are not written.
#if defined(__AVX512F__)
  static Float load(const T* p, int n) { return {(FloatVector)_mm512_maskz_loadu_ps(mask(n), p)}; }
  void store(T* p, int n) const { _mm512_mask_storeu_ps(p, mask(n), (__m512)v); }
  static __mmask16 mask(int n) { return static_cast<__mmask16>((1U << n) - 1U); }
#elif defined(__AVX2__)
  static Float load(const T* p, int n) { return {(FloatVector)_mm256_maskload_ps(p, mask(n))}; }
  void store(T* p, int n) const { _mm256_maskstore_ps(p, mask(n), (__m256)v); }
  static __m256i mask(int n) { return (__m256i)(kLaneIndex < n); }
#else
  static Float load(const T* p, int n) {
    Float x = set(0);
    for (int i = 0; i < n; ++i) x.v[i] = p[i];
    return x;
  }
  void store(T* p, int n) const {
    for (int i = 0; i < n; ++i) p[i] = v[i];
  }
#endif
  /// Lanes from n on become `other`.
  Float keep(int n, T other) const { return {kLaneIndex < n ? v : set(other).v}; }
  T sum() const {  // pairwise, so that the order is fixed and the error small
    T lane[kLanes];
    store(lane);
    for (int half = kLanes / 2; half > 0; half /= 2) {
      for (int i = 0; i < half; ++i) lane[i] += lane[i + half];
    }
    return lane[0];
  }
  T max() const {
    T lane[kLanes];
    store(lane);
    for (int half = kLanes / 2; half > 0; half /= 2) {
      for (int i = 0; i < half; ++i) lane[i] = lane[i] > lane[i + half] ? lane[i] : lane[i + half];
    }
    return lane[0];
  }
};
inline Float operator+(Float a, Float b) { return {a.v + b.v}; }
inline Float operator-(Float a, Float b) { return {a.v - b.v}; }
inline Float operator*(Float a, Float b) { return {a.v * b.v}; }
inline Float operator/(Float a, Float b) { return {a.v / b.v}; }
// Where either is NaN the result is b: kernels put the bound first, so that a NaN passes and the learner sees it.
inline Float max(Float a, Float b) { return {a.v > b.v ? a.v : b.v}; }
inline Float min(Float a, Float b) { return {a.v < b.v ? a.v : b.v}; }
/// a > b ? yes : no
inline Float if_greater(Float a, Float b, Float yes, Float no) { return {a.v > b.v ? yes.v : no.v}; }
inline Float sqrt(Float a) {
#if defined(__AVX512F__)
  return {(FloatVector)_mm512_maskz_sqrt_ps(0xffff, (__m512)a.v)};  // the plain form warns in GCC 12
#elif defined(__AVX2__)
  return {(FloatVector)_mm256_sqrt_ps((__m256)a.v)};
#else
  for (int i = 0; i < Float::kLanes; ++i) a.v[i] = __builtin_sqrtf(a.v[i]);
  return a;
#endif
}

/// To a whole number, ties to even, for |x| up to 2^22.
inline Float round(Float x) {
  const FloatVector magic = Float::set(12582912.0F).v;  // 1.5 * 2^23, where the last digit is 1
  return {(x.v + magic) - magic};
}

/// x = n ln 2 + r with |r| <= ln 2 / 2: returns r and 2^n. Cody-Waite in two steps, Cephes' constants.
inline Float reduce_exp(Float x, Float* power) {
  x = min(Float::set(88.0F), max(Float::set(-87.0F), x));  // the range in which 2^n is a normal number
  const FloatVector magic = Float::set(12582912.0F).v;     // 1.5 * 2^23: adding it rounds to an integer
  const FloatVector shifted = x.v * 1.44269504088896341F + magic;
  const FloatVector n = shifted - magic;
  *power = {(FloatVector)((((IntVector)shifted - (IntVector)magic) + 127) << 23)};
  return {(x.v - n * 0.693359375F) - n * -2.12194440e-4F};
}
/// exp(r) - 1 for |r| <= ln 2 / 2 (Cephes expf's polynomial).
inline Float expm1_reduced(Float r) {
  FloatVector p = r.v * 1.9875691500e-4F + 1.3981999507e-3F;
  p = p * r.v + 8.3334519073e-3F;
  p = p * r.v + 4.1665795894e-2F;
  p = p * r.v + 1.6666665459e-1F;
  p = p * r.v + 5.0000001201e-1F;
  return {p * (r.v * r.v) + r.v};
}
/// Relative error below 2e-7 on [-87, 88]; constant outside.
inline Float exp(Float x) {
  Float power;
  const Float p = expm1_reduced(reduce_exp(x, &power));
  return p * power + power;
}
/// Relative error below 4e-7, also near 0, for x <= 88; constant below -87.
inline Float expm1(Float x) {
  Float power;
  const Float p = expm1_reduced(reduce_exp(x, &power));
  return p * power + (power - Float::set(1));
}
/// Relative error below 1e-6: the odd rational function of Eigen's generic_fast_tanh_float.
inline Float tanh(Float x) {
  const FloatVector c = min(Float::set(7.90531110763549805F), max(Float::set(-7.90531110763549805F), x)).v;
  const FloatVector s = c * c;
  FloatVector p = s * -2.76076847742355e-16F + 2.00018790482477e-13F;
  p = p * s + -8.60467152213735e-11F;
  p = p * s + 5.12229709037114e-08F;
  p = p * s + 1.48572235717979e-05F;
  p = p * s + 6.37261928875436e-04F;
  p = p * s + 4.89352455891786e-03F;
  FloatVector q = s * 1.19825839466702e-06F + 1.18534705686654e-04F;
  q = q * s + 2.26843463243900e-03F;
  q = q * s + 4.89352518554385e-03F;
  return {c * p / q};
}
/// Absolute error below 1e-7 around 1, relative below 2e-7 elsewhere (Cephes logf); -inf at 0, NaN below it.
inline Float log(Float x) {
  const IntVector subnormal = x.v < 1.17549435e-38F;
  const IntVector bits = (IntVector)(subnormal ? x.v * 8388608.0F : x.v);
  const FloatVector half = (FloatVector)((bits & 0x007fffff) | 0x3f000000);  // the mantissa, in [0.5, 1)
  const IntVector low = half < 0.707106781186547524F;
  const IntVector power = ((bits >> 23) & 0xff) - 126 + low - (subnormal & 23);
  const FloatVector m = (low ? half + half : half) - 1.0F, square = m * m;
  FloatVector p = m * 7.0376836292e-2F - 1.1514610310e-1F;
  p = p * m + 1.1676998740e-1F;
  p = p * m - 1.2420140846e-1F;
  p = p * m + 1.4249322787e-1F;
  p = p * m - 1.6668057665e-1F;
  p = p * m + 2.0000714765e-1F;
  p = p * m - 2.4999993993e-1F;
  p = p * m + 3.3333331174e-1F;
  const FloatVector n = __builtin_convertvector(power, FloatVector);
  const FloatVector y = (p * m * square + n * -2.12194440e-4F - 0.5F * square + m) + n * 0.693359375F;
  const FloatVector infinite = Float::set(__builtin_inff()).v, nan = Float::set(__builtin_nanf("")).v;
  return {x.v == 0.0F ? -infinite : x.v < 0.0F ? nan : x.v < infinite ? y : x.v};
}
/// cos(2 pi u) for u in [0, 1]: absolute error below 3e-7.
inline Float cos_of_turn(Float u) {
  const FloatVector centred = u.v - 0.5F;  // cos(2 pi u) = -cos(2 pi centred) = sin(2 pi (|centred| - 1/4))
  const FloatVector angle = ((centred < 0.0F ? -centred : centred) - 0.25F) * 6.283185307179586F;
  const FloatVector square = angle * angle;
  FloatVector p = square * -2.50521083854417e-8F + 2.75573192239859e-6F;
  p = p * square - 1.98412698412698e-4F;
  p = p * square + 8.33333333333333e-3F;
  p = p * square - 1.66666666666667e-1F;
  return {p * square * angle + angle};
}
/// a > b, or a is NaN ? yes : no
inline Float if_above(Float a, Float b, Float yes, Float no) { return {((a.v > b.v) | (a.v != a.v)) ? yes.v : no.v}; }
/// a == b ? yes : no
inline Float if_equal(Float a, Float b, Float yes, Float no) { return {a.v == b.v ? yes.v : no.v}; }

/// The first n lanes, 0 < n <= kLanes; the others are zero. Exact.
inline Float load_bf16(const std::uint16_t* p, int n) {
  ShortVector half{};
  if (n == Float::kLanes) {
    __builtin_memcpy(&half, p, sizeof half);
  } else {
    for (int i = 0; i < n; ++i) half[i] = p[i];
  }
  return {(FloatVector)(__builtin_convertvector(half, UintVector) << 16)};
}
/// Round to nearest even. Every NaN stays one.
inline void store_bf16(Float x, std::uint16_t* out, int n) {
  const UintVector bits = (UintVector)x.v;
  const UintVector rounded = (bits + 0x7fffU + ((bits >> 16) & 1U)) >> 16;
  const UintVector nan = (bits >> 16) | 0x40U;
  const ShortVector half = __builtin_convertvector(x.v == x.v ? rounded : nan, ShortVector);
  if (n == Float::kLanes) {
    __builtin_memcpy(out, &half, sizeof half);
  } else {
    for (int i = 0; i < n; ++i) out[i] = half[i];
  }
}

struct Double {
  using T = double;
  using Bits = std::uint32_t;
  static constexpr int kLanes = 1;
  double v;

  static Double set(T x) { return {x}; }
  static Double count_from(T first) { return {first}; }
  static Bits bits_from(std::uint32_t first) { return first; }
  static Double of_bits(Bits bits) { return {static_cast<double>(bits)}; }
  static Double load(const T* p) { return {*p}; }
  void store(T* p) const { *p = v; }
  static Double load(const T* p, int) { return {*p}; }
  void store(T* p, int) const { *p = v; }
  Double keep(int, T) const { return *this; }
  T sum() const { return v; }
  T max() const { return v; }
};
inline Double operator+(Double a, Double b) { return {a.v + b.v}; }
inline Double operator-(Double a, Double b) { return {a.v - b.v}; }
inline Double operator*(Double a, Double b) { return {a.v * b.v}; }
inline Double operator/(Double a, Double b) { return {a.v / b.v}; }
inline Double max(Double a, Double b) { return {a.v > b.v ? a.v : b.v}; }
inline Double min(Double a, Double b) { return {a.v < b.v ? a.v : b.v}; }
inline Double if_greater(Double a, Double b, Double yes, Double no) { return a.v > b.v ? yes : no; }
inline Double if_above(Double a, Double b, Double yes, Double no) { return a.v > b.v || a.v != a.v ? yes : no; }
inline Double if_equal(Double a, Double b, Double yes, Double no) { return a.v == b.v ? yes : no; }
inline Double round(Double a) { return {__builtin_rint(a.v)}; }
inline Double sqrt(Double a) { return {__builtin_sqrt(a.v)}; }
inline Double exp(Double x) { return {__builtin_exp(x.v)}; }
inline Double expm1(Double x) { return {__builtin_expm1(x.v)}; }
inline Double tanh(Double x) { return {__builtin_tanh(x.v)}; }
inline Double log(Double x) { return {__builtin_log(x.v)}; }
inline Double cos_of_turn(Double u) { return {__builtin_cos(6.283185307179586 * u.v)}; }

}  // namespace
