// The kernels of images of every instruction set that this machine runs, stored as float32 and as bfloat16, against the
// float64 body, with channels around the vector widths. Outputs lie between guards, because tails are written apart.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <vector>

#include <troupe/core/rng.hpp>
#include <troupe/learner/engine/cpu/kernels/kernel_table.hpp>

namespace troupe::learner {
namespace {

// [n, h, w, c], the same after pooling or resizing, [n, c], [c], [2 c + 1]
enum class Extent { kImage, kOther, kExample, kColumn, kSums };
bool is_image(Extent extent) { return extent == Extent::kImage || extent == Extent::kOther; }

struct ImageCase {
  const char* name;
  KernelFn ImageTable::*kernel;
  std::vector<Extent> in;
  std::vector<Extent> out;
  std::vector<std::int64_t> integer;  ///< behind h and w where it has more than 2 entries
  double factor = 1;
  double low = -3, high = 3;
};
void PrintTo(const ImageCase& c, std::ostream* out) { *out << c.name; }

constexpr std::int64_t kImages = 2, kHeight = 6, kWidth = 10, kOtherHeight = 3, kOtherWidth = 5;

Operand operand(Extent extent, std::int64_t channels, void* data) {
  switch (extent) {
    case Extent::kImage:
      return {data, kImages * kHeight * kWidth, channels, nullptr};
    case Extent::kOther:
      return {data, kImages * kOtherHeight * kOtherWidth, channels, nullptr};
    case Extent::kExample:
      return {data, kImages, channels, nullptr};
    case Extent::kColumn:
      return {data, 1, channels, nullptr};
    case Extent::kSums:
      return {data, 1, 2 * channels + 1, nullptr};
  }
  return {};
}
std::size_t elements(Extent extent, std::int64_t channels) {
  return static_cast<std::size_t>(operand(extent, channels, nullptr).elements());
}

std::uint16_t to_bf16(float x) {
  const auto bits = std::bit_cast<std::uint32_t>(x);
  return static_cast<std::uint16_t>((bits + 0x7fffU + ((bits >> 16) & 1U)) >> 16);
}
float from_bf16(std::uint16_t x) { return std::bit_cast<float>(static_cast<std::uint32_t>(x) << 16); }

constexpr std::size_t kGuard = 32;
constexpr double kGuardValue = 4096;

/// T: of columns; S: of images.
template <typename T, typename S>
std::vector<std::vector<double>> run(KernelFn kernel, const ImageCase& c, std::int64_t channels,
                                     const std::vector<std::vector<double>>& inputs) {
  const auto put = [](double x, auto* to) {
    if constexpr (sizeof(*to) == 2) {
      *to = to_bf16(static_cast<float>(x));
    } else {
      *to = static_cast<std::remove_pointer_t<decltype(to)>>(x);
    }
  };
  const auto get = [](auto x) -> double {
    if constexpr (sizeof(x) == 2) {
      return from_bf16(x);
    } else {
      return x;
    }
  };
  std::vector<std::vector<T>> columns(c.in.size() + c.out.size());
  std::vector<std::vector<S>> images(c.in.size() + c.out.size());
  std::vector<Operand> operands;
  for (std::size_t i = 0; i < columns.size(); ++i) {
    const bool input = i < c.in.size();
    const Extent extent = input ? c.in[i] : c.out[i - c.in.size()];
    const std::size_t size = elements(extent, channels);
    const auto fill = [&](auto& values) -> void* {
      values.resize(size + 2 * kGuard);
      for (auto& value : values) put(kGuardValue, &value);
      for (std::size_t e = 0; input && e < size; ++e) put(inputs[i][e], &values[kGuard + e]);
      return values.data() + kGuard;
    };
    operands.push_back(operand(extent, channels, is_image(extent) ? fill(images[i]) : fill(columns[i])));
  }
  Attr attr{.real = {c.factor}};
  std::size_t next = 0;
  if (c.integer.size() > 1) attr.integer = {kHeight, kWidth}, next = 2;
  for (const std::int64_t value : c.integer) attr.integer[next++] = value;
  kernel({operands.data(), operands.data() + c.in.size(), &attr, nullptr, 0});
  std::vector<std::vector<double>> out;
  for (std::size_t i = c.in.size(); i < columns.size(); ++i) {
    const auto take = [&](const auto& values) {
      for (std::size_t e = 0; e < kGuard; ++e) {
        EXPECT_EQ(get(values[e]), kGuardValue) << c.name << ": wrote before its output";
        EXPECT_EQ(get(values[values.size() - 1 - e]), kGuardValue) << c.name << ": wrote behind its output";
      }
      auto& made = out.emplace_back();
      for (std::size_t e = kGuard; e < values.size() - kGuard; ++e) made.push_back(get(values[e]));
    };
    is_image(c.out[i - c.in.size()]) ? take(images[i]) : take(columns[i]);
  }
  return out;
}

std::vector<ImageCase> image_cases() {
  using E = Extent;
  using I = ImageTable;
  return {
      {"add", &I::add, {E::kImage, E::kImage}, {E::kImage}, {}},
      {"add_relu", &I::add_activation, {E::kImage, E::kImage}, {E::kImage}, {3}},
      {"activation_grad_leaky", &I::activation_grad, {E::kImage, E::kImage}, {E::kImage}, {5}},
      {"bias_relu", &I::bias_activation, {E::kImage, E::kColumn}, {E::kImage}, {3}},
      {"tanh", &I::bias_activation, {E::kImage}, {E::kImage}, {1}},
      {"bias_grad_relu", &I::bias_activation_grad, {E::kImage, E::kImage}, {E::kImage, E::kColumn}, {3}},
      {"batch_sums", &I::batch_sums, {E::kImage, E::kColumn}, {E::kSums}, {}},
      {"batch_sums_grad", &I::batch_sums_grad, {E::kSums, E::kImage, E::kColumn}, {E::kImage}, {0}},
      {"batch_sums_grad_more", &I::batch_sums_grad, {E::kSums, E::kImage, E::kColumn, E::kImage}, {E::kImage}, {1}},
      {"normalise_relu", &I::normalise, {E::kImage, E::kColumn, E::kColumn, E::kColumn, E::kColumn}, {E::kImage}, {3}},
      {"normalise_grad_tanh",
       &I::normalise_grad,
       {E::kImage, E::kImage, E::kImage, E::kColumn, E::kColumn, E::kColumn},
       {E::kImage, E::kColumn, E::kColumn},
       {1},
       1,
       -0.9,
       0.9},
      {"modulate_relu", &I::modulate, {E::kImage, E::kExample, E::kExample}, {E::kImage}, {3}},
      {"modulate_grad_elu",
       &I::modulate_grad,
       {E::kImage, E::kImage, E::kImage, E::kExample},
       {E::kImage, E::kExample, E::kExample},
       {2},
       1,
       -0.9,
       0.9},
      {"global_sum", &I::global_sum, {E::kImage}, {E::kExample}, {}, 0.25},
      {"global_sum_grad", &I::global_sum_grad, {E::kExample}, {E::kImage}, {}, 0.25},
      {"average_pool", &I::average_pool, {E::kImage}, {E::kOther}, {2, 2, 0}},
      {"average_pool_3x3", &I::average_pool, {E::kImage}, {E::kOther}, {3, 2, 1}},
      {"average_pool_grad", &I::average_pool_grad, {E::kOther}, {E::kImage}, {3, 2, 1}},
      {"max_pool", &I::max_pool, {E::kImage}, {E::kOther, E::kOther}, {3, 2, 1}},
      {"resize_nearest", &I::resize_nearest, {E::kImage}, {E::kOther}, {kOtherHeight, kOtherWidth}},
      {"resize_nearest_grad", &I::resize_nearest_grad, {E::kOther}, {E::kImage}, {kOtherHeight, kOtherWidth}},
      {"resize_bilinear", &I::resize_bilinear, {E::kImage}, {E::kOther}, {kOtherHeight, kOtherWidth}},
      {"resize_bilinear_grad", &I::resize_bilinear_grad, {E::kOther}, {E::kImage}, {kOtherHeight, kOtherWidth}},
  };
}

class ImageKernelOf : public testing::TestWithParam<ImageCase> {};

TEST_P(ImageKernelOf, AgreesWithFloat64InEachStorageOnEveryInstructionSet) {
  const ImageCase& c = GetParam();
  std::vector<const KernelTable*> tables{&kernels_f32_generic()};
  for (const KernelTable* table : {kernels_f32_avx2(), kernels_f32_avx512()}) {
    if (table != nullptr) tables.push_back(table);
  }
  Rng rng(3);
  for (const std::int64_t channels : {1, 3, 4, 16, 17, 35, 300}) {
    std::vector<std::vector<double>> inputs;
    for (const Extent extent : c.in) {
      auto& values = inputs.emplace_back(elements(extent, channels));
      for (double& value : values) {  // the same in all types
        value = from_bf16(to_bf16(static_cast<float>(c.low + (c.high - c.low) * rng.uniform())));
      }
    }
    const auto expected = run<double, double>(kernels_f64().image.*c.kernel, c, channels, inputs);
    for (const KernelTable* table : tables) {
      const auto compare = [&](const std::vector<std::vector<double>>& got, bool bf16) {
        for (std::size_t o = 0; o < got.size(); ++o) {
          // float32: sums of 120 terms of size 3 to 30. bfloat16: half of its last digit more, where it is stored.
          const double tolerance = bf16 && is_image(c.out[o]) ? 0x1p-8 : 2e-5;
          for (std::size_t i = 0; i < got[o].size(); ++i) {
            ASSERT_NEAR(got[o][i], expected[o][i], tolerance * (1 + std::abs(expected[o][i])))
                << table->instruction_set << (bf16 ? " bf16 " : " ") << channels << " channels, output " << o
                << " element " << i;
          }
        }
      };
      compare(run<float, float>(table->image.*c.kernel, c, channels, inputs), false);
      compare(run<float, std::uint16_t>(table->bf16.*c.kernel, c, channels, inputs), true);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Kernels, ImageKernelOf, testing::ValuesIn(image_cases()),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace troupe::learner
