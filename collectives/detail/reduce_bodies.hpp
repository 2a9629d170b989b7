// Included once by each reduce_ISA.cpp, which is compiled with that instruction set and defines TROUPE_REDUCE_LANES.
// All of it lies in an unnamed namespace and uses no inline function of the standard library, since the linker must not
// merge the copies. Multiplication and addition must not be fused (-ffp-contract=off): all copies give the same bits.
#include <troupe/collectives/detail/reduce_kernels.hpp>

namespace troupe::collectives::detail {
namespace {

// GCC and Clang vector extensions: arithmetic, comparison and ?: work lane by lane, on one lane (float) as on many.
typedef float Vector __attribute__((vector_size(4 * TROUPE_REDUCE_LANES)));
typedef unsigned Bits __attribute__((vector_size(4 * TROUPE_REDUCE_LANES)));

template <ReduceOp kOp, typename V>
inline V combine(V a, V b) {
  if constexpr (kOp == ReduceOp::kMin) {
    return b < a ? b : (b != b ? b : a);
  } else if constexpr (kOp == ReduceOp::kMax) {
    return b > a ? b : (b != b ? b : a);
  } else if constexpr (kOp == ReduceOp::kProduct) {
    return a * b;
  } else {
    return a + b;
  }
}

template <typename V>
inline V load(const float* p) {
  V v;
  __builtin_memcpy(&v, p, sizeof v);
  return v;
}

template <ReduceOp kOp, int kRanks, bool kShares, typename V>
inline V tree_at(const float* const* inputs, const float* shares, std::size_t i) {
  const auto input = [&](int r) __attribute__((always_inline))->V {
    if constexpr (!kShares) return load<V>(inputs[r] + i);
    if (shares[r] == 0) return V{};
    return load<V>(inputs[r] + i) * shares[r];
  };
  if constexpr (kRanks == 1) return input(0);
  if constexpr (kRanks == 2) return combine<kOp, V>(input(0), input(1));
  if constexpr (kRanks == 3) return combine<kOp, V>(combine<kOp, V>(input(0), input(1)), input(2));
  if constexpr (kRanks == 4) {
    return combine<kOp, V>(combine<kOp, V>(input(0), input(1)), combine<kOp, V>(input(2), input(3)));
  }
}

template <ReduceOp kOp, int kRanks, bool kShares>
void run(const float* const* given_inputs, const float* given_shares, std::size_t count, float* const* outputs,
         std::size_t output_count) {
  const float* inputs[kRanks];  // local copies, which no store through an output can change
  float shares[kRanks] = {};
  for (int r = 0; r < kRanks; ++r) {
    inputs[r] = given_inputs[r];
    if constexpr (kShares) shares[r] = given_shares[r];
  }
  std::size_t i = 0;
  const auto vectors = [&](auto store) __attribute__((always_inline)) {
    for (; i + TROUPE_REDUCE_LANES <= count; i += TROUPE_REDUCE_LANES) {
      const Vector v = tree_at<kOp, kRanks, kShares, Vector>(inputs, shares, i);
      store(v);
    }
  };
  // As many outputs as are usual, in registers: one, one more for the others to read, or every rank's.
  const auto store_to = [&]<int kOutputs>() __attribute__((always_inline)) {
    float* to[kOutputs];
    for (int o = 0; o < kOutputs; ++o) to[o] = outputs[o];
    vectors([&](const Vector& v) __attribute__((always_inline)) {
      for (int o = 0; o < kOutputs; ++o) __builtin_memcpy(to[o] + i, &v, sizeof v);
    });
  };
  if (output_count == 1) {
    store_to.template operator()<1>();
  } else if (output_count == 2) {
    store_to.template operator()<2>();
  } else if (output_count == kRanks) {
    store_to.template operator()<kRanks>();
  } else {
    vectors([&](const Vector& v) __attribute__((always_inline)) {
      for (std::size_t o = 0; o < output_count; ++o) __builtin_memcpy(outputs[o] + i, &v, sizeof v);
    });
  }
  for (; i < count; ++i) {
    const float v = tree_at<kOp, kRanks, kShares, float>(inputs, shares, i);
    for (std::size_t o = 0; o < output_count; ++o) outputs[o][i] = v;
  }
}

template <ReduceOp kOp, bool kShares>
void run_ranks(const float* const* inputs, const float* shares, std::size_t ranks, std::size_t count,
               float* const* outputs, std::size_t output_count) {
  switch (ranks) {
    case 1:
      return run<kOp, 1, kShares>(inputs, shares, count, outputs, output_count);
    case 2:
      return run<kOp, 2, kShares>(inputs, shares, count, outputs, output_count);
    case 3:
      return run<kOp, 3, kShares>(inputs, shares, count, outputs, output_count);
    default:
      return run<kOp, 4, kShares>(inputs, shares, count, outputs, output_count);
  }
}

void tree(const float* const* inputs, const float* shares, std::size_t ranks, ReduceOp op, std::size_t count,
          float* const* outputs, std::size_t output_count) {
  switch (op) {
    case ReduceOp::kSum:
    case ReduceOp::kMean:
      if (shares) return run_ranks<ReduceOp::kSum, true>(inputs, shares, ranks, count, outputs, output_count);
      return run_ranks<ReduceOp::kSum, false>(inputs, shares, ranks, count, outputs, output_count);
    case ReduceOp::kMin:
      return run_ranks<ReduceOp::kMin, false>(inputs, shares, ranks, count, outputs, output_count);
    case ReduceOp::kMax:
      return run_ranks<ReduceOp::kMax, false>(inputs, shares, ranks, count, outputs, output_count);
    case ReduceOp::kProduct:
      return run_ranks<ReduceOp::kProduct, false>(inputs, shares, ranks, count, outputs, output_count);
  }
}

void round_bf16(const float* values, float share, std::size_t count, float* out) {
  const auto rounded = [&](Vector x) __attribute__((always_inline))->Vector {
    const Bits bits = (Bits)x;
    const Bits near = (bits + 0x7fffU + ((bits >> 16) & 1U)) & 0xffff0000U;
    const Bits nan = (bits | 0x400000U) & 0xffff0000U;
    return (Vector)(x == x ? near : nan);
  };
  std::size_t i = 0;
  for (; i + TROUPE_REDUCE_LANES <= count; i += TROUPE_REDUCE_LANES) {
    const Vector v = rounded(load<Vector>(values + i) * share);
    __builtin_memcpy(out + i, &v, sizeof v);
  }
  if (i == count) return;
  Vector last = {};
  __builtin_memcpy(&last, values + i, (count - i) * sizeof(float));
  last = rounded(last * share);
  __builtin_memcpy(out + i, &last, (count - i) * sizeof(float));
}

}  // namespace
}  // namespace troupe::collectives::detail
