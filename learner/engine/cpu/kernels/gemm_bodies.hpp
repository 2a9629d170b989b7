#pragma once
// Products with at most four rows on the left: acting, one or a few environments at a time. Every weight is used m
// times only, so what counts is to stream them from the cache once, with enough independent sums in registers.
#include <troupe/learner/engine/cpu/kernels/simd.hpp>

namespace {

template <class V>
struct Skinny {
  using T = typename V::T;

  /// Columns [0, kVectors vectors) of all kRows rows. The last vector has `lanes` lanes.
  template <int kRows, int kVectors, bool kWhole>
  static void block(std::int64_t n, std::int64_t k, const T* a, const T* b, T* c, int lanes) {
    // Few sums in flight would wait for each other's latency: then even and odd steps get their own.
    constexpr int kSplit = kRows * kVectors <= 2 ? 4 : kRows * kVectors <= 4 ? 2 : 1;
    V sum[kSplit][kRows][kVectors];
    for (auto& part : sum) {
      for (auto& row : part) {
        for (V& x : row) x = V::set(0);
      }
    }
    const auto step = [&](std::int64_t i, V(&part)[kRows][kVectors]) {
      const T* from = b + i * n;
      V weight[kVectors];
      for (int j = 0; j < kVectors; ++j) {
        weight[j] = kWhole || j + 1 < kVectors || lanes == V::kLanes ? V::load(from + j * V::kLanes)
                                                                     : V::load(from + j * V::kLanes, lanes);
      }
      for (int row = 0; row < kRows; ++row) {
        const V x = V::set(a[row * k + i]);
        for (int j = 0; j < kVectors; ++j) part[row][j] = part[row][j] + x * weight[j];
      }
    };
    std::int64_t i = 0;
    for (; i + kSplit <= k; i += kSplit) {
      for (int part = 0; part < kSplit; ++part) step(i + part, sum[part]);
    }
    for (; i < k; ++i) step(i, sum[0]);
    for (int row = 0; row < kRows; ++row) {
      for (int j = 0; j < kVectors; ++j) {
        V total = sum[0][row][j];
        for (int part = 1; part < kSplit; ++part) total = total + sum[part][row][j];
        T* to = c + row * n + j * V::kLanes;
        if (kWhole || j + 1 < kVectors || lanes == V::kLanes) {
          total.store(to);
        } else {
          total.store(to, lanes);
        }
      }
    }
  }

  template <int kRows>
  static void rows(std::int64_t n, std::int64_t k, const T* a, const T* b, T* c) {
    constexpr int kWide = kRows == 1 ? 8 : kRows == 2 ? 8 : 4;
    constexpr int kFour = kWide > 4 ? 4 : 2;
    std::int64_t done = 0;
    for (; done + kWide * V::kLanes <= n; done += kWide * V::kLanes) {
      block<kRows, kWide, true>(n, k, a, b + done, c + done, V::kLanes);
    }
    for (; done + kFour * V::kLanes <= n; done += kFour * V::kLanes) {
      block<kRows, kFour, true>(n, k, a, b + done, c + done, V::kLanes);
    }
    for (; done < n; done += V::kLanes) {
      const std::int64_t left = n - done;
      block<kRows, 1, false>(n, k, a, b + done, c + done, left < V::kLanes ? static_cast<int>(left) : V::kLanes);
    }
  }

  static void run(std::int64_t m, std::int64_t n, std::int64_t k, const void* a, const void* b, void* c) {
    const T *left = static_cast<const T*>(a), *right = static_cast<const T*>(b);
    T* out = static_cast<T*>(c);
    switch (m) {
      case 1:
        return rows<1>(n, k, left, right, out);
      case 2:
        return rows<2>(n, k, left, right, out);
      case 3:
        return rows<3>(n, k, left, right, out);
      default:
        return rows<4>(n, k, left, right, out);
    }
  }
};

}  // namespace
