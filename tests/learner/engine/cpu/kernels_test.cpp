// Every kernel of every instruction set that this machine runs, against the float64 body, on sizes around the vector
// widths. Outputs lie between guards, because tails are written with masks.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <vector>

#include <troupe/core/rng.hpp>
#include <troupe/learner/engine/cpu/kernels/kernel_table.hpp>

namespace troupe::learner {
namespace {

std::vector<const KernelTable*> tables() {
  std::vector<const KernelTable*> list{&kernels_f32_generic()};
  for (const KernelTable* table : {kernels_f32_avx2(), kernels_f32_avx512()}) {
    if (table != nullptr) list.push_back(table);
  }
  return list;
}

struct Size {
  std::int64_t rows, cols;
};

// [rows, cols], [cols], [rows], one element, [rows, 2 cols], [2 cols + 1]
enum class Extent { kFull, kRow, kColumn, kOne, kDouble, kSums };

struct KernelCase {
  const char* name;
  KernelFn KernelTable::*kernel;
  std::vector<Extent> in;
  std::vector<Extent> out;
  Attr attr;
  double low = -3, high = 3;
};

void PrintTo(const KernelCase& c, std::ostream* out) { *out << c.name; }

Size size_of(Extent extent, Size size) {
  switch (extent) {
    case Extent::kFull:
      return size;
    case Extent::kRow:
      return {1, size.cols};
    case Extent::kColumn:
      return {size.rows, 1};
    case Extent::kOne:
      return {1, 1};
    case Extent::kDouble:
      return {size.rows, 2 * size.cols};
    case Extent::kSums:
      return {1, 2 * size.cols + 1};
  }
  return size;
}

constexpr std::size_t kGuard = 32;
constexpr double kGuardValue = 12345;

template <typename T>
std::vector<std::vector<T>> run(KernelFn kernel, const KernelCase& c, Size size,
                                const std::vector<std::vector<double>>& inputs) {
  std::vector<std::vector<T>> in, out;
  std::vector<Operand> operands;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    in.emplace_back(inputs[i].begin(), inputs[i].end());
    const Size s = size_of(c.in[i], size);
    operands.push_back({in.back().data(), s.rows, s.cols, nullptr});
  }
  for (const Extent extent : c.out) {
    const Size s = size_of(extent, size);
    out.emplace_back(static_cast<std::size_t>(s.rows * s.cols) + 2 * kGuard, static_cast<T>(kGuardValue));
    operands.push_back({out.back().data() + kGuard, s.rows, s.cols, nullptr});
  }
  kernel({operands.data(), operands.data() + c.in.size(), &c.attr, nullptr, 0});
  for (auto& values : out) {
    for (std::size_t i = 0; i < kGuard; ++i) {
      EXPECT_EQ(values[i], static_cast<T>(kGuardValue)) << c.name << ": wrote before its output";
      EXPECT_EQ(values[values.size() - 1 - i], static_cast<T>(kGuardValue)) << c.name << ": wrote behind its output";
    }
    values.erase(values.end() - kGuard, values.end());
    values.erase(values.begin(), values.begin() + kGuard);
  }
  return out;
}

std::vector<KernelCase> kernel_cases() {
  using E = Extent;
  using K = KernelTable;
  std::vector<KernelCase> list{
      {"add", &K::add, {E::kFull, E::kFull}, {E::kFull}},
      {"sub", &K::sub, {E::kFull, E::kFull}, {E::kFull}},
      {"mul", &K::mul, {E::kFull, E::kFull}, {E::kFull}, {.real = {0.7}}},
      {"affine", &K::affine, {E::kFull}, {E::kFull}, {.real = {1.5, -0.25}}},
      {"clip", &K::clip, {E::kFull}, {E::kFull}, {.real = {-1, 0.5}}},
      {"clip_grad", &K::clip_grad, {E::kFull, E::kFull}, {E::kFull}, {.real = {-1, 0.5}}},
      {"concat", &K::concat, {E::kFull, E::kFull}, {E::kDouble}},
      {"slice", &K::slice, {E::kDouble}, {E::kFull}, {.integer = {1}}},
      {"pad", &K::pad, {E::kFull}, {E::kDouble}, {.integer = {1}}},
      {"copy", &K::copy, {E::kFull}, {E::kFull}},
      {"fill", &K::fill, {E::kOne}, {E::kFull}},
      {"as_partial", &K::as_partial, {E::kFull}, {E::kFull}},
      {"sum_all", &K::sum_all, {E::kFull}, {E::kOne}, {.real = {0.1}}},
      {"greatest", &K::greatest, {E::kFull}, {E::kOne}},
      {"sum_last", &K::sum_last, {E::kFull}, {E::kColumn}},
      {"exp", &K::exp, {E::kFull}, {E::kFull}},
      {"log", &K::log, {E::kFull}, {E::kFull}, {}, 1e-3},
      {"sqrt", &K::sqrt, {E::kFull}, {E::kFull}, {}, 0},
      {"abs", &K::abs, {E::kFull}, {E::kFull}},
      {"sign", &K::sign, {E::kFull}, {E::kFull}},
      {"softplus", &K::softplus, {E::kFull}, {E::kFull}},
      {"div", &K::div, {E::kFull, E::kFull}, {E::kFull}, {}, 0.5},
      {"minimum", &K::minimum, {E::kFull, E::kFull}, {E::kFull}},
      {"maximum", &K::maximum, {E::kFull, E::kFull}, {E::kFull}},
      {"greater", &K::greater, {E::kFull, E::kFull}, {E::kFull}, {.real = {0.5}}},
      {"where", &K::where, {E::kFull, E::kFull, E::kFull}, {E::kFull}},
      {"keep_where", &K::keep_where, {E::kFull, E::kFull}, {E::kFull}},
      {"log_sum_exp", &K::log_sum_exp, {E::kFull}, {E::kColumn}},
      {"softmax", &K::softmax, {E::kFull}, {E::kFull}},
      {"softmax_grad", &K::softmax_grad, {E::kFull, E::kFull}, {E::kFull}},
      {"log_softmax", &K::log_softmax, {E::kFull}, {E::kFull}},
      {"log_softmax_grad", &K::log_softmax_grad, {E::kFull, E::kFull}, {E::kFull}},
      {"softmax_cross_entropy", &K::softmax_cross_entropy, {E::kFull, E::kFull}, {E::kColumn, E::kFull}},
      {"softmax_cross_entropy_grad", &K::softmax_cross_entropy_grad, {E::kColumn, E::kFull, E::kFull}, {E::kFull}},
      {"categorical_mean", &K::categorical_mean, {E::kFull}, {E::kColumn, E::kFull}, {.real = {-10, 0.5}}},
      {"categorical_mean_grad",
       &K::categorical_mean_grad,
       {E::kColumn, E::kFull, E::kColumn},
       {E::kFull},
       {.real = {-10, 0.5}}},
      {"categorical_td",
       &K::categorical_td,
       {E::kFull, E::kFull, E::kColumn, E::kColumn},
       {E::kColumn, E::kFull},
       {.real = {-10, 0.5}}},
      {"categorical_td_grad", &K::categorical_td_grad, {E::kColumn, E::kFull}, {E::kFull}},
      {"clip_row_norm", &K::clip_row_norm, {E::kFull}, {E::kFull}, {.real = {2}}},
      {"batch_moments",
       &K::batch_moments,
       {E::kSums, E::kRow, E::kRow},
       {E::kRow, E::kRow, E::kRow, E::kRow},
       {.real = {0.1, 0.2}},
       0.5},
      {"batch_moments_grad", &K::batch_moments_grad, {E::kRow, E::kRow, E::kSums, E::kRow}, {E::kSums}, {}, 0.5},
      {"inverse_root", &K::inverse_root, {E::kRow}, {E::kRow}, {.real = {0.1}}, 0},
      {"direction", &K::direction, {E::kFull, E::kRow}, {E::kColumn}, {.real = {1e-12}}, 0.5},
      {"direction_transposed",
       &K::direction,
       {E::kFull, E::kColumn},
       {E::kRow},
       {.real = {1e-12}, .integer = {1}},
       0.5},
      {"spectral_scale", &K::spectral_scale, {E::kFull, E::kColumn, E::kRow}, {E::kFull, E::kOne}, {}, 0.5},
      {"spectral_scale_grad",
       &K::spectral_scale_grad,
       {E::kFull, E::kFull, E::kColumn, E::kRow, E::kOne},
       {E::kFull},
       {},
       0.5,
       1.5},
  };
  const char* const names[][3] = {{"bias_none", "bias_grad_none", "layer_norm_none"},
                                  {"bias_tanh", "bias_grad_tanh", "layer_norm_tanh"},
                                  {"bias_elu", "bias_grad_elu", "layer_norm_elu"},
                                  {"bias_relu", "bias_grad_relu", "layer_norm_relu"},
                                  {"bias_sigmoid", "bias_grad_sigmoid", "layer_norm_sigmoid"},
                                  {"bias_leaky", "bias_grad_leaky", "layer_norm_leaky"}};
  for (std::int64_t kind = 0; kind < 6; ++kind) {
    const auto& name = names[kind];
    const Attr attr{.real = {1e-5}, .integer = {kind, 1}};
    list.push_back({name[0], &K::bias_activation, {E::kFull, E::kRow}, {E::kFull}, attr});
    list.push_back({name[1], &K::bias_activation_grad, {E::kFull, E::kFull}, {E::kFull, E::kRow}, attr, -0.9, 0.9});
    list.push_back(
        {name[2], &K::layer_norm, {E::kFull, E::kRow, E::kRow, E::kRow}, {E::kFull, E::kFull, E::kColumn}, attr});
  }
  list.push_back({"layer_norm_grad",
                  &K::layer_norm_grad,
                  {E::kFull, E::kFull, E::kFull, E::kColumn, E::kRow},
                  {E::kFull, E::kRow, E::kRow, E::kRow},
                  {.integer = {1}},
                  -0.9,
                  0.9});
  return list;
}

class KernelOf : public testing::TestWithParam<KernelCase> {};

TEST_P(KernelOf, AgreesWithFloat64OnEveryInstructionSet) {
  const KernelCase& c = GetParam();
  Rng rng(3);
  for (const Size size : {Size{1, 2}, {3, 4}, {2, 6}, {5, 16}, {4, 17}, {3, 33}, {2, 51}, {2, 256}}) {
    std::vector<std::vector<double>> inputs;
    for (const Extent extent : c.in) {
      const Size s = size_of(extent, size);
      for (auto& values = inputs.emplace_back(); static_cast<std::int64_t>(values.size()) < s.rows * s.cols;) {
        values.push_back(static_cast<float>(c.low + (c.high - c.low) * rng.uniform()));  // the same in both types
      }
    }
    const auto expected = run<double>(kernels_f64().*c.kernel, c, size, inputs);
    for (const KernelTable* table : tables()) {
      const auto got = run<float>(table->*c.kernel, c, size, inputs);
      for (std::size_t o = 0; o < got.size(); ++o) {
        for (std::size_t i = 0; i < got[o].size(); ++i) {
          // float32 sums of up to 512 terms of size 3 to 30: a few hundred rounding errors of 6e-8 each at most.
          ASSERT_NEAR(got[o][i], expected[o][i], 2e-5 * (1 + std::abs(expected[o][i])))
              << c.name << " " << table->instruction_set << " " << size.rows << "x" << size.cols << " output " << o
              << " element " << i;
        }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Kernels, KernelOf, testing::ValuesIn(kernel_cases()),
                         [](const auto& info) { return info.param.name; });

/// The atoms' places follow from data, so what data might say must not lead out of a row.
TEST(CategoricalTd, StaysWithinItsRowsWhateverRewardAndDiscountAre) {
  const double values[] = {0, 1, -1, 3.3e38, -3.3e38, 1e-40, INFINITY, -INFINITY, NAN};
  constexpr auto kValues = static_cast<std::int64_t>(std::size(values));
  for (const Size size : {Size{kValues * kValues, 2}, {kValues * kValues, 17}, {kValues * kValues, 51}}) {
    std::vector<std::vector<double>> inputs(4);
    Rng rng(3);
    for (std::size_t i = 0; i < 2; ++i) {
      for (std::int64_t k = 0; k < size.rows * size.cols; ++k) inputs[i].push_back(static_cast<float>(rng.normal()));
    }
    for (const double reward : values) {
      for (const double discount : values) {
        inputs[2].push_back(reward);
        inputs[3].push_back(discount);
      }
    }
    const KernelCase c{"categorical_td",
                       nullptr,
                       {Extent::kFull, Extent::kFull, Extent::kColumn, Extent::kColumn},
                       {Extent::kColumn, Extent::kFull},
                       {.real = {-10, 0.5}}};
    for (const KernelTable* table : tables()) {
      const auto got = run<float>(table->categorical_td, c, size, inputs);  // which looks at the guards
      for (std::size_t row = 0; row < got[0].size(); ++row) {
        const double reward = inputs[2][row], discount = inputs[3][row];
        const bool known = !std::isnan(reward) && std::isfinite(static_cast<float>(discount * 1e3));
        const std::string which = fmt::format("{} atoms, reward {}, discount {}", size.cols, reward, discount);
        EXPECT_TRUE(!known || got[0][row] >= 0) << which;
        EXPECT_TRUE((std::isfinite(discount) && !std::isnan(reward)) || std::isnan(got[0][row])) << which;
        double sum = 0;
        for (std::size_t i = 0; i < static_cast<std::size_t>(size.cols); ++i) {
          const float gradient = got[1][row * static_cast<std::size_t>(size.cols) + i];
          EXPECT_EQ(std::isnan(gradient), std::isnan(got[0][row])) << which;
          sum += gradient;
        }
        EXPECT_TRUE(!known || std::abs(sum) < 5e-6) << which << ": two distributions, a rounding for each atom";
      }
    }
  }
}

double cos_of_turn(double u) { return std::cos(2 * M_PI * u); }

TEST(KernelMath, StaysWithinTheStatedErrorBounds) {
  struct Function {
    const char* name;
    double (*exact)(double);
    double low, high, bound;
  };
  const Function functions[] = {{"exp", std::exp, -87, 88, 2e-7},
                                {"expm1", std::expm1, -20, 88, 4e-7},
                                {"tanh", std::tanh, -20, 20, 1e-6},
                                {"log", std::log, 1e-30, 0.9, 2e-7},
                                {"cos_of_turn", cos_of_turn, 0, 0.2, 4e-7}};
  for (const KernelTable* table : tables()) {
    for (int f = 0; f < 5; ++f) {
      const Function& function = functions[f];
      std::vector<float> x;
      constexpr int kPoints = 200'000;
      for (int i = 0; i <= kPoints; ++i) {
        x.push_back(static_cast<float>(function.low + (function.high - function.low) * i / kPoints));
      }
      for (float small = 1e-30F; small < 1; small *= 1.7F) {
        for (const float each : {small, -small}) {
          if (each >= function.low && each <= function.high) x.push_back(each);
        }
      }
      std::vector<float> y(x.size());
      table->math(f, x.data(), y.data(), static_cast<std::int64_t>(x.size()));
      double worst = 0;
      for (std::size_t i = 0; i < x.size(); ++i) {
        const double exact = function.exact(x[i]);
        if (exact != 0) worst = std::max(worst, std::abs(y[i] - exact) / std::abs(exact));
      }
      EXPECT_LT(worst, function.bound) << function.name << " " << table->instruction_set;
    }
  }
}

TEST(KernelMath, ConvertsToTheNearestBfloat16) {
  const std::vector<float> x{
      1,  -2, 1.00390625F, 1.01171875F, 3.3895314e38F, 1e-40F, NAN, INFINITY, 0.1F, -0.0F, 5, 6, 7, 8, 9,
      10, 11, 12,          13};
  for (const KernelTable* table : tables()) {
    std::vector<std::uint16_t> y(x.size());
    table->to_bf16(x.data(), y.data(), 0, static_cast<std::int64_t>(x.size()));
    EXPECT_EQ(y[0], 0x3f80);
    EXPECT_EQ(y[1], 0xc000);
    EXPECT_EQ(y[2], 0x3f80) << "ties go to the even neighbour below";
    EXPECT_EQ(y[3], 0x3f82) << "and above";
    EXPECT_EQ(y[6] & 0x7f80, 0x7f80);
    EXPECT_NE(y[6] & 0x7f, 0) << "NaN stays NaN";
    EXPECT_EQ(y[7], 0x7f80);
    EXPECT_EQ(y[9], 0x8000);
    EXPECT_EQ(y[18], 0x4150);
  }
}

/// One update of values that lie one float past a vector's boundary, and lie apart from what they were or not.
struct Updated {
  std::vector<float> values, slot0, slot1;
  std::vector<std::uint16_t> shadow;
  friend bool operator==(const Updated&, const Updated&) = default;
};
using UpdatePass = void (*KernelTable::*)(const UpdateArgs&);
Updated update(const KernelTable& table, UpdatePass pass, bool apart, std::int64_t begin, std::int64_t end) {
  const auto count = static_cast<std::size_t>(end) + kGuard;
  Rng rng(7);
  const auto draw = [&](double low) {
    std::vector<float> some(count);
    for (float& x : some) x = static_cast<float>(low + (1 - low) * rng.uniform());
    return some;
  };
  const std::vector<float> before = draw(-1), gradient = draw(-1);
  Updated result{apart ? std::vector<float>(count, -7.0f) : before, draw(0), draw(0),
                 std::vector<std::uint16_t>(count)};
  const float* gradients = gradient.data();
  const UpdateArgs args{.values = result.values.data() + 1,
                        .before = apart ? before.data() + 1 : nullptr,
                        .slot0 = result.slot0.data(),
                        .slot1 = result.slot1.data(),
                        .gradients = &gradients,
                        .gradient_count = 1,
                        .shadow = result.shadow.data(),
                        .begin = begin,
                        .end = end,
                        .gradient_scale = 0.5f,
                        .step_size = 0.1f,
                        .beta1 = 0.9f,
                        .beta2 = 0.99f,
                        .epsilon = 1e-8f,
                        .inverse_sqrt_correction = 1.1f,
                        .momentum = 0.9f,
                        .nesterov = true,
                        .weight_decay = 0.01f,
                        .inner_rate = 0.3f,
                        .inside_root = 0.02f};
  (table.*pass)(args);
  for (std::size_t i = 0; i < count; ++i) {
    const bool changed = i > static_cast<std::size_t>(begin) && i <= static_cast<std::size_t>(end);
    if (changed || !apart) continue;
    EXPECT_EQ(result.values[i], -7) << "outside, at " << i;
    result.values[i] = before[i];
  }
  return result;
}

TEST(UpdateKernels, ValuesApartBecomeWhatTheyWouldHaveInPlace) {
  constexpr std::int64_t kLarge = (std::int64_t{8} << 20) + 41;  // written past the caches
  for (const KernelTable* table : tables()) {
    for (const UpdatePass pass : {&KernelTable::adam, &KernelTable::sgd, &KernelTable::rms_prop}) {
      for (const std::int64_t end : {std::int64_t{5}, std::int64_t{16}, std::int64_t{1000}, kLarge}) {
        EXPECT_TRUE(update(*table, pass, true, 3, end) == update(*table, pass, false, 3, end))
            << table->instruction_set << " " << end;
      }
    }
  }
}

TEST(UpdateKernels, AgreeForAllInstructionSets) {
  const auto near = [](const std::vector<float>& expected) {
    // Products that are fused with sums or not: roundings of values of size 1, which Adam divides by a root of 0.1.
    return ::testing::Pointwise(::testing::FloatNear(2e-6f), expected);
  };
  for (const UpdatePass pass : {&KernelTable::adam, &KernelTable::sgd, &KernelTable::rms_prop}) {
    const Updated expected = update(kernels_f32_generic(), pass, false, 3, 1000);
    for (const KernelTable* table : tables()) {
      const Updated got = update(*table, pass, false, 3, 1000);
      EXPECT_THAT(got.values, near(expected.values)) << table->instruction_set;
      EXPECT_THAT(got.slot0, near(expected.slot0)) << table->instruction_set;
      EXPECT_THAT(got.slot1, near(expected.slot1)) << table->instruction_set;
    }
  }
}

}  // namespace
}  // namespace troupe::learner
