// All back ends against a plain product in float64, for the forms and sizes that learners and policies use.
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include <troupe/core/aligned.hpp>
#include <troupe/core/rng.hpp>
#include <troupe/learner/engine/cpu/gemm.hpp>
#include <troupe/learner/engine/cpu/kernels/kernel_table.hpp>

namespace troupe::learner {
namespace {

std::vector<float> draw(std::int64_t count, std::uint64_t seed) {
  Rng rng(seed);
  std::vector<float> values;
  for (std::int64_t i = 0; i < count; ++i) values.push_back(static_cast<float>(2 * rng.uniform() - 1));
  return values;
}

std::vector<double> plain_product(const GemmShape& s, const std::vector<float>& a, const std::vector<float>& b) {
  std::vector<double> c(static_cast<std::size_t>(s.m * s.n));
  for (std::int64_t i = 0; i < s.m; ++i) {
    for (std::int64_t j = 0; j < s.n; ++j) {
      double sum = 0;
      for (std::int64_t k = 0; k < s.k; ++k) {
        sum += static_cast<double>(a[static_cast<std::size_t>(s.transpose_a ? k * s.m + i : i * s.k + k)]) *
               b[static_cast<std::size_t>(s.transpose_b ? j * s.k + k : k * s.n + j)];
      }
      c[static_cast<std::size_t>(i * s.n + j)] = sum;
    }
  }
  return c;
}

const std::vector<GemmShape> kShapes{{1, 256, 17},
                                     {1, 6, 256},
                                     {2, 300, 9},
                                     {3, 51, 64},
                                     {4, 17, 5},
                                     {4, 256, 256},
                                     {16, 256, 17},
                                     {37, 51, 19},
                                     {64, 6, 256},
                                     {29, 16, 33},
                                     {15, 1, 40},
                                     {5, 1, 51},
                                     {64, 23, 51, false, true},
                                     {23, 51, 64, true},
                                     {9, 7, 12, true, true},
                                     {1, 64, 33, false, true},
                                     {128, 128, 128},
                                     {96, 80, 96, false, true}};

constexpr GemmBackend kBackends[] = {GemmBackend::kAuto, GemmBackend::kOneDnn, GemmBackend::kEigen};

bool built(GemmBackend backend) {
  return backend != GemmBackend::kOneDnn || resolve(GemmBackend::kAuto) == GemmBackend::kOneDnn;
}

template <typename T>
void run(const GemmPlan& plan, const T* a, const T* b, void* c) {
  const auto workspace = make_aligned<std::byte>(plan.workspace_bytes());
  plan.run(a, b, c, workspace.get());
}

void check_float32(const ComputeBy& by, const GemmShape& shape) {
  const std::vector<float> a = draw(shape.m * shape.k, 1), b = draw(shape.k * shape.n, 2);
  const std::vector<double> expected = plain_product(shape, a, b);
  std::vector<float> c(expected.size(), NAN);
  auto plan = make_gemm(by, shape, DType::kF32);
  ASSERT_TRUE(plan.ok()) << plan.error().message;
  run(**plan, a.data(), b.data(), c.data());
  for (std::size_t i = 0; i < c.size(); ++i) {
    ASSERT_NEAR(c[i], expected[i], 1e-6 * static_cast<double>(shape.k))  // k roundings of products below 1
        << to_string(by.backend) << " " << shape.m << "x" << shape.k << "x" << shape.n << " element " << i;
  }
}

TEST(Gemm, AgreesWithAPlainProductOnEveryBackEnd) {
  for (const GemmBackend backend : kBackends) {
    if (!built(backend)) continue;
    for (const GemmShape& shape : kShapes) check_float32(backend, shape);
  }
}

TEST(Gemm, DoesSoByWhateverIsMeasuredToBeFastest) {
  for (const GemmShape& shape : kShapes) check_float32({GemmBackend::kAuto, PlanChoice::kMeasured}, shape);
}

TEST(Gemm, MultipliesFloat64ToFullPrecision) {
  for (const GemmShape& shape : kShapes) {
    const std::vector<float> a = draw(shape.m * shape.k, 1), b = draw(shape.k * shape.n, 2);
    const std::vector<double> expected = plain_product(shape, a, b), a64(a.begin(), a.end()), b64(b.begin(), b.end());
    std::vector<double> c(expected.size(), NAN);
    auto plan = make_gemm(GemmBackend::kAuto, shape, DType::kF64);
    ASSERT_TRUE(plan.ok()) << plan.error().message;
    run(**plan, a64.data(), b64.data(), c.data());
    for (std::size_t i = 0; i < c.size(); ++i) ASSERT_NEAR(c[i], expected[i], 1e-13);
  }
}

TEST(Gemm, SumsBfloat16ProductsInFloat32OnEveryBackEnd) {
  for (const GemmBackend backend : kBackends) {
    if (!built(backend)) continue;
    for (const GemmShape& shape : kShapes) {
      const std::vector<float> a = draw(shape.m * shape.k, 1), b = draw(shape.k * shape.n, 2);
      std::vector<std::uint16_t> a16(a.size()), b16(b.size());
      const KernelTable& table = kernels_f32();
      table.to_bf16(a.data(), a16.data(), 0, static_cast<std::int64_t>(a.size()));
      table.to_bf16(b.data(), b16.data(), 0, static_cast<std::int64_t>(b.size()));
      const auto rounded = [](const std::vector<std::uint16_t>& values) {
        std::vector<float> wide;
        for (const std::uint16_t x : values) {
          const std::uint32_t bits = static_cast<std::uint32_t>(x) << 16;
          wide.push_back(std::bit_cast<float>(bits));
        }
        return wide;
      };
      const std::vector<double> expected = plain_product(shape, rounded(a16), rounded(b16));
      std::vector<float> c(expected.size(), NAN);
      auto plan = make_gemm(backend, shape, DType::kBF16);
      ASSERT_TRUE(plan.ok()) << plan.error().message;
      run(**plan, a16.data(), b16.data(), c.data());
      for (std::size_t i = 0; i < c.size(); ++i) ASSERT_NEAR(c[i], expected[i], 1e-6 * static_cast<double>(shape.k));
    }
  }
}

TEST(Gemm, RefusesABackEndThatIsNotBuiltIn) {
  if (built(GemmBackend::kOneDnn)) GTEST_SKIP() << "this build has oneDNN";
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    const auto plan = make_gemm(GemmBackend::kOneDnn, {8, 8, 8}, dtype);
    ASSERT_FALSE(plan.ok());
    EXPECT_EQ(plan.error().code, Code::kUnavailable);
  }
}

}  // namespace
}  // namespace troupe::learner
