// The end of a step on a GPU against the processor's passes: norms, whether the step counts, optimisers, averages.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <functional>
#include <span>

#include <troupe/core/rng.hpp>
#include <troupe/learner/engine/cpu/kernels/kernel_table.hpp>
#include <troupe/learner/engine/kept_length.hpp>
#include <troupe/learner/engine/lars.hpp>
#include <troupe/tests/gpu/gpu_under_test.hpp>

namespace troupe::learner {
namespace {

using testing::Each;
using testing::ElementsAre;

/// Around packs of four, blocks of 256 threads and of 4096 elements, and above what one grid takes in a pass.
const std::int64_t kCounts[] = {1, 3, 4, 7, 255, 4095, 4096, 4097, 12'345, 1'200'003};

std::vector<float> numbers(std::int64_t count, std::uint64_t seed, double low = -1, double high = 2) {
  Rng rng(seed);
  std::vector<float> values(static_cast<std::size_t>(count));
  for (float& value : values) value = static_cast<float>(low + (high - low) * rng.uniform());
  return values;
}

/// Values on a GPU, `shift` elements behind an aligned address.
template <typename T>
class OnGpu {
 public:
  OnGpu(gpu::GpuUnderTest& gpu, std::vector<T> values, std::size_t shift = 0)
      : gpu_(gpu), count_(values.size()), shift_(shift), memory_(upload(std::move(values))) {}
  T* get() const { return static_cast<T*>(memory_.get()) + shift_; }
  std::vector<T> read() const {
    const std::vector<std::byte> bytes = gpu_.download(get(), count_ * sizeof(T));
    std::vector<T> values(count_);
    std::memcpy(values.data(), bytes.data(), bytes.size());
    return values;
  }

 private:
  gpu::DeviceBytes upload(std::vector<T> values) {
    values.insert(values.begin(), shift_, T{});
    return gpu_.upload(std::as_bytes(std::span(values)));
  }
  gpu::GpuUnderTest& gpu_;
  std::size_t count_, shift_;
  gpu::DeviceBytes memory_;
};

TroupeCudaControl control(bool skip, std::int32_t taken = 0) {
  TroupeCudaControl made{.skip = skip, .taken = taken};
  std::ranges::fill(made.scale, 1.0F);
  return made;
}

class UpdateKernels : public testing::Test {
 protected:
  void each(const std::function<void(gpu::GpuUnderTest&)>& test) {
    for (const auto& gpu : gpu::gpus_under_test()) {
      SCOPED_TRACE(gpu->name());
      test(*gpu);
      gpu->wait();
      EXPECT_TRUE(gpu->good()) << gpu->why();
      gpu->restart();
    }
  }
};

TEST_F(UpdateKernels, AddUpSquaresByBlocks) {
  each([](gpu::GpuUnderTest& gpu) {
    for (const std::int64_t count : kCounts) {
      for (const std::size_t shift : {0, 1}) {
        const std::vector<float> x = numbers(count, 1);
        const OnGpu<float> gradient(gpu, x, shift);
        const auto blocks = static_cast<std::size_t>((count + TROUPE_CUDA_NORM_BLOCK - 1) / TROUPE_CUDA_NORM_BLOCK);
        const OnGpu<double> squares(gpu, std::vector<double>(blocks, NAN));
        const TroupeCudaSquares part{gradient.get(), count, squares.get()};
        gpu.check(gpu.api().sum_squares(&part, 1, gpu.stream()), "sum_squares");
        const std::vector<double> got = squares.read();
        for (std::size_t b = 0; b < blocks; ++b) {
          double expected = 0;
          const auto end = std::min<std::size_t>(x.size(), (b + 1) * TROUPE_CUDA_NORM_BLOCK);
          for (std::size_t i = b * TROUPE_CUDA_NORM_BLOCK; i < end; ++i) expected += double{x[i]} * x[i];
          ASSERT_NEAR(got[b], expected, 1e-5 * expected) << count << " elements, block " << b;  // float32 sums
        }
      }
    }
    std::vector<float> x = numbers(10'000, 1);
    x[5000] = NAN;
    x[9999] = 1e30F;  // its square is too large
    const OnGpu<float> gradient(gpu, x);
    const OnGpu<double> squares(gpu, std::vector<double>(3));
    const TroupeCudaSquares part{gradient.get(), 10'000, squares.get()};
    gpu.check(gpu.api().sum_squares(&part, 1, gpu.stream()), "sum_squares");
    const std::vector<double> got = squares.read();
    EXPECT_TRUE(std::isfinite(got[0]));
    EXPECT_TRUE(std::isnan(got[1]));
    EXPECT_TRUE(std::isinf(got[2]));
  });
}

TEST_F(UpdateKernels, DecideWhetherAStepCounts) {
  each([](gpu::GpuUnderTest& gpu) {
    const auto decide = [&](const std::vector<std::vector<double>>& squares, std::int64_t norm_blocks, float limit,
                            std::int32_t taken) {
      TroupeCudaRule none{}, rule{};
      rule.max_global_norm = limit;
      std::vector<TroupeCudaRule> rows(static_cast<std::size_t>(taken) + 1, none);
      rows.back() = rule;
      const OnGpu<TroupeCudaRule> rules(gpu, rows);
      const OnGpu<TroupeCudaControl> state(gpu, {control(true, taken)});
      std::vector<OnGpu<double>> buffers;
      std::vector<TroupeCudaGradient> groups;
      for (const auto& each : squares) {
        buffers.emplace_back(gpu, each);
        groups.push_back({.squares = buffers.back().get(),
                          .blocks = static_cast<std::int64_t>(each.size()),
                          .norm_blocks = std::min(norm_blocks, static_cast<std::int64_t>(each.size())),
                          .rules = rules.get()});
      }
      gpu.check(gpu.api().decide(groups.data(), static_cast<std::int32_t>(groups.size()), state.get(), gpu.stream()),
                "decide");
      groups.assign(groups.size(), {});  // host memory may go at once
      return state.read()[0];
    };
    TroupeCudaControl got = decide({{9, 16, 100}, {1}}, 2, 2.5F, 3);
    EXPECT_EQ(got.skip, 0);
    EXPECT_FLOAT_EQ(got.scale[0], 0.5F) << "2.5 of a norm of 5: the third block is not of the norm";
    EXPECT_FLOAT_EQ(got.scale[1], 1);
    EXPECT_EQ(got.taken, 3);
    got = decide({{9, 16}}, 2, 0, 0);
    EXPECT_FLOAT_EQ(got.scale[0], 1) << "no limit";
    got = decide({{1}, {9, INFINITY}}, 1, 0, 0);
    EXPECT_EQ(got.skip, 1) << "a block beside the norm";
    got = decide({{NAN}, {9}}, 1, 1, 0);
    EXPECT_EQ(got.skip, 1);
    got = decide({std::vector<double>(3000, 1.0)}, 3000, 1, 0);
    EXPECT_EQ(got.skip, 0);
    EXPECT_NEAR(got.scale[0], 1 / std::sqrt(3000.0), 1e-7);
    std::vector<double> last(3000, 1.0);
    last.back() = NAN;
    EXPECT_EQ(decide({last}, 10, 0, 0).skip, 1);
    EXPECT_EQ(decide({}, 0, 0, 0).skip, 0);
  });
}

TEST_F(UpdateKernels, DecideCountsTheStepBefore) {
  each([](gpu::GpuUnderTest& gpu) {
    const OnGpu<double> good(gpu, {4}), bad(gpu, {NAN});
    std::vector<TroupeCudaRule> rows(3);
    for (std::size_t row = 0; row < rows.size(); ++row) rows[row].max_global_norm = row == 1 ? 1.0F : 0.5F;
    const OnGpu<TroupeCudaRule> rules(gpu, rows);
    const OnGpu<TroupeCudaControl> state(gpu, {control(false, -1)});
    const auto decide = [&](const OnGpu<double>& squares) {
      const TroupeCudaGradient group{.squares = squares.get(), .blocks = 1, .norm_blocks = 1, .rules = rules.get()};
      gpu.check(gpu.api().decide(&group, 1, state.get(), gpu.stream()), "decide");
      const TroupeCudaControl got = state.read()[0];
      return std::vector<float>{static_cast<float>(got.taken), static_cast<float>(got.skip), got.scale[0]};
    };
    EXPECT_THAT(decide(good), ElementsAre(0, 0, 0.25F));
    EXPECT_THAT(decide(good), ElementsAre(1, 0, 0.5F)) << "the rule of row 1";
    EXPECT_EQ(decide(bad)[0], 2);
    EXPECT_THAT(decide(good), ElementsAre(2, 0, 0.25F)) << "the skipped step has used no row";
  });
}

struct RuleCase {
  const char* name;
  TroupeCudaRule rule;
  bool slots[2];
  bool decays;
  float rate = 1;
};

constexpr void (*KernelTable::*kPasses[])(const UpdateArgs&) = {&KernelTable::sgd, &KernelTable::adam,
                                                                &KernelTable::rms_prop};

TEST_F(UpdateKernels, LarsFindsTheRateOfAVariable) {
  const Lars lars{.weight_decay = 0.25, .trust_coefficient = 0.125};
  const TroupeCudaRule rule{.weight_decay = 0.25F, .trust_coefficient = 0.125F};
  each([&](gpu::GpuUnderTest& gpu) {
    for (const std::size_t blocks : {1, 3, 700}) {
      for (const bool skip : {false, true}) {
        const std::vector<double> values(blocks, 2.25), gradient(blocks, 0.5), none(blocks, 0.0);
        const OnGpu<double> on_values(gpu, values), on_gradient(gpu, gradient), on_none(gpu, none);
        const OnGpu<TroupeCudaRule> rules(gpu, {TroupeCudaRule{}, rule});
        TroupeCudaControl state = control(skip, 1);
        state.scale[2] = 0.75F;
        const OnGpu<TroupeCudaControl> on_state(gpu, {state});
        const auto rate = [&](const OnGpu<double>& value_squares, const OnGpu<double>& gradient_squares) {
          const OnGpu<float> found(gpu, {-1.0F});
          const TroupeCudaLars variable{.value_squares = value_squares.get(),
                                        .gradient_squares = gradient_squares.get(),
                                        .blocks = static_cast<std::int64_t>(blocks),
                                        .minimized = 2,
                                        .rules = rules.get(),
                                        .control = on_state.get()};
          gpu.check(gpu.api().lars_rate(&variable, found.get(), gpu.stream()), "lars_rate");
          return found.read()[0];
        };
        const auto count = static_cast<double>(blocks);
        const double expected = lars_rate(lars, std::sqrt(2.25 * count), 0.75 * std::sqrt(0.5 * count));
        EXPECT_NEAR(rate(on_values, on_gradient), skip ? -1 : expected, 1e-7 * expected) << blocks << " blocks";
        EXPECT_EQ(rate(on_none, on_gradient), skip ? -1 : 1);
        EXPECT_EQ(rate(on_values, on_none), skip ? -1 : 1);
      }
    }
  });
}

TEST_F(UpdateKernels, UpdateAsTheProcessorsDo) {
  const RuleCase cases[] = {
      {"Adam",
       {.pass = TROUPE_CUDA_ADAM,
        .gradient_scale = 1,
        .step_size = 1e-3F,
        .beta1 = 0.9F,
        .beta2 = 0.999F,
        .epsilon = 1e-8F,
        .inverse_sqrt_correction = 2},
       {true, true},
       true},
      {"AdamW",
       {.pass = TROUPE_CUDA_ADAM,
        .gradient_scale = 1,
        .step_size = 1e-3F,
        .beta1 = 0.9F,
        .beta2 = 0.999F,
        .epsilon = 1e-8F,
        .inverse_sqrt_correction = 2,
        .weight_decay = 0.01F},
       {true, true},
       true},
      {"AdamW exempt",
       {.pass = TROUPE_CUDA_ADAM,
        .gradient_scale = 1,
        .step_size = 1e-3F,
        .beta1 = 0.9F,
        .beta2 = 0.999F,
        .epsilon = 1e-8F,
        .inverse_sqrt_correction = 2,
        .weight_decay = 0.01F},
       {true, true},
       false},
      {"SGD", {.gradient_scale = 1, .step_size = 0.1F, .weight_decay = 0.02F}, {false, false}, true},
      {"SGD exempt", {.gradient_scale = 1, .step_size = 0.1F, .weight_decay = 0.02F}, {false, false}, false},
      {"momentum",
       {.gradient_scale = 1, .step_size = 0.1F, .momentum = 0.9F, .weight_decay = 0.02F},
       {true, false},
       true},
      {"Nesterov", {.nesterov = 1, .gradient_scale = 1, .step_size = 0.1F, .momentum = 0.9F}, {true, false}, true},
      {"LARS",
       {.gradient_scale = 0.5F, .step_size = 1, .momentum = 0.9F, .weight_decay = 0.02F},
       {true, false},
       true,
       0.125F},
      {"RMSProp",
       {.pass = TROUPE_CUDA_RMS_PROP,
        .gradient_scale = 1,
        .step_size = 0.01F,
        .beta2 = 0.9F,
        .epsilon = 0.01F,
        .inner_rate = 1},
       {true, false},
       true},
      {"RMSProp of TensorFlow, with momentum",
       {.pass = TROUPE_CUDA_RMS_PROP,
        .gradient_scale = 1,
        .step_size = 1,
        .beta2 = 0.9F,
        .momentum = 0.5F,
        .weight_decay = 0.02F,
        .inner_rate = 0.01F,
        .inside_root = 0.01F},
       {true, true},
       true},
  };
  each([&](gpu::GpuUnderTest& gpu) {
    for (const RuleCase& c : cases) {
      for (const std::int64_t count : kCounts) {
        for (const bool skip : {false, true}) {
          for (const std::size_t shift : {0, 1}) {
            if (count > 100'000 && (&c != &cases[0] || skip || shift != 0)) continue;  // once is enough there
            const bool squares = c.rule.pass == TROUPE_CUDA_RMS_PROP;
            std::vector<float> values = numbers(count, 1), slot1 = numbers(count, 3, 0, 1);
            std::vector<float> slot0 = squares ? numbers(count, 2, 0, 1) : numbers(count, 2);
            const std::vector<float> gradient = numbers(count, 4);
            std::vector<std::uint16_t> shadow(values.size(), 0x4242);
            const OnGpu<float> on_values(gpu, values, shift), on_slot0(gpu, slot0, shift), on_slot1(gpu, slot1, shift);
            const OnGpu<float> on_gradient(gpu, gradient, shift);
            const OnGpu<std::uint16_t> on_shadow(gpu, shadow, shift);
            const OnGpu<TroupeCudaRule> rules(gpu, {TroupeCudaRule{}, c.rule});
            const OnGpu<float> rate(gpu, {c.rate});
            TroupeCudaControl state = control(skip, 1);
            state.scale[2] = 0.75F;
            const OnGpu<TroupeCudaControl> on_state(gpu, {state});
            TroupeCudaUpdate update{.values = on_values.get(),
                                    .slot0 = c.slots[0] ? on_slot0.get() : nullptr,
                                    .slot1 = c.slots[1] ? on_slot1.get() : nullptr,
                                    .gradient = on_gradient.get(),
                                    .shadow = shift == 0 ? on_shadow.get() : nullptr,
                                    .count = count,
                                    .decays = c.decays,
                                    .minimized = 2,
                                    .rate = c.rate == 1 ? nullptr : rate.get(),
                                    .rules = rules.get(),
                                    .control = on_state.get()};
            gpu.check(gpu.api().update(&update, 1, gpu.stream()), "update");
            update = {};  // host memory may go at once

            const float* gradients[] = {gradient.data()};
            const UpdateArgs args{.values = values.data(),
                                  .slot0 = c.slots[0] ? slot0.data() : nullptr,
                                  .slot1 = c.slots[1] ? slot1.data() : nullptr,
                                  .gradients = gradients,
                                  .gradient_count = 1,
                                  .shadow = shift == 0 ? shadow.data() : nullptr,
                                  .begin = 0,
                                  .end = count,
                                  .gradient_scale = 0.75F * c.rule.gradient_scale * c.rate,
                                  .step_size = c.rule.step_size,
                                  .beta1 = c.rule.beta1,
                                  .beta2 = c.rule.beta2,
                                  .epsilon = c.rule.epsilon,
                                  .inverse_sqrt_correction = c.rule.inverse_sqrt_correction,
                                  .momentum = c.rule.momentum,
                                  .nesterov = c.rule.nesterov != 0,
                                  .weight_decay = c.decays ? c.rule.weight_decay * c.rule.gradient_scale * c.rate : 0,
                                  .inner_rate = c.rule.inner_rate,
                                  .inside_root = c.rule.inside_root};
            if (!skip) (kernels_f32().*kPasses[c.rule.pass])(args);
            // A few roundings in another order; steps are as long as values, at most.
            const auto near = [&](const std::vector<float>& got, const std::vector<float>& expected, const char* what) {
              for (std::size_t i = 0; i < got.size(); ++i) {
                ASSERT_NEAR(got[i], expected[i], skip ? 0 : 2e-6)
                    << c.name << " " << what << " " << i << " of " << count << (skip ? ", skipped" : "");
              }
            };
            near(on_values.read(), values, "value");
            near(on_slot0.read(), slot0, "slot 0 of");
            near(on_slot1.read(), slot1, "slot 1 of");
            if (testing::Test::HasFatalFailure()) return;
            const std::vector<float> new_values = on_values.read();
            std::vector<std::uint16_t> expected_shadow = shadow;
            if (!skip && shift == 0) {
              kernels_f32().to_bf16(new_values.data(), expected_shadow.data(), 0, count);
            }
            ASSERT_EQ(on_shadow.read(), expected_shadow) << c.name << ", " << count << " elements";
          }
        }
      }
    }
  });
}

TEST_F(UpdateKernels, AveragesAndTargetsFollow) {
  each([](gpu::GpuUnderTest& gpu) {
    for (const std::int64_t count : kCounts) {
      for (const double decay : {0.99, 0.0}) {
        for (const auto& [skip, due] : {std::pair{false, true}, {true, true}, {false, false}}) {
          const bool stays = skip || !due;
          for (const std::size_t shift : {0, 1}) {
            if (count > 100'000 && (stays || shift != 0)) continue;  // once is enough there
            const std::vector<float> values = numbers(count, 1);
            std::vector<float> average = numbers(count, 2);
            std::vector<std::uint16_t> shadow(values.size(), 0x4242);
            const OnGpu<float> on_values(gpu, values, shift), on_average(gpu, average, shift);
            const OnGpu<std::uint16_t> on_shadow(gpu, shadow, shift);
            const OnGpu<TroupeCudaControl> state(gpu, {control(skip, 1)});
            const OnGpu<std::int32_t> flags(gpu, {due ? 0 : 1, due ? 1 : 0});
            gpu.check(gpu.api().follow(on_values.get(), on_average.get(), shift == 0 ? on_shadow.get() : nullptr, decay,
                                       count, flags.get(), state.get(), gpu.stream()),
                      "follow");
            if (!stays) {
              kernels_f32().average(values.data(), average.data(), nullptr, decay, 0, count);
              if (decay == 0) average = values;  // every bit
            }
            const std::vector<float> got = on_average.read();
            for (std::size_t i = 0; i < got.size(); ++i) {
              ASSERT_NEAR(got[i], average[i], stays || decay == 0 ? 0 : 5e-7) << i << " of " << count;
            }
            if (!stays && shift == 0) kernels_f32().to_bf16(got.data(), shadow.data(), 0, count);
            ASSERT_EQ(on_shadow.read(), shadow) << count << " elements";
          }
        }
      }
    }
  });
}

TEST_F(UpdateKernels, AnUpdateMovesWhatFollowsInTheSamePass) {
  const TroupeCudaRule adam{.pass = TROUPE_CUDA_ADAM,
                            .gradient_scale = 1,
                            .step_size = 1e-2F,
                            .beta1 = 0.9F,
                            .beta2 = 0.999F,
                            .epsilon = 1e-8F,
                            .inverse_sqrt_correction = 2};
  const TroupeCudaRule sgd{.gradient_scale = 1, .step_size = 0.1F};
  struct Case {
    TroupeCudaRule rule;
    double decay;
    bool skip, due, shadowed;
    std::size_t shift;  // of the follower: its address allows no packs
  };
  const Case cases[] = {{adam, 0, false, true, true, 0},     {adam, 0.99, false, true, true, 0},
                        {adam, 0.99, false, true, false, 1}, {sgd, 0, false, true, false, 0},
                        {adam, 0, true, true, true, 0},      {adam, 0, false, false, true, 0}};
  each([&](gpu::GpuUnderTest& gpu) {
    for (const std::int64_t count : kCounts) {
      for (const Case& c : cases) {
        if (count > 100'000 && &c != &cases[1]) continue;  // once is enough there
        const auto size = static_cast<std::size_t>(count);
        const std::vector<float> old = numbers(count, 5);
        const OnGpu<float> values(gpu, numbers(count, 1)), gradient(gpu, numbers(count, 4));
        const OnGpu<float> slot0(gpu, numbers(count, 2)), slot1(gpu, numbers(count, 3, 0, 1));
        const OnGpu<std::uint16_t> shadow(gpu, std::vector<std::uint16_t>(size, 0x4242), c.shift);
        const OnGpu<float> follower(gpu, old, c.shift);
        const OnGpu<TroupeCudaRule> rules(gpu, {TroupeCudaRule{}, c.rule});
        const OnGpu<TroupeCudaControl> state(gpu, {control(c.skip, 1)});
        const OnGpu<std::int32_t> due(gpu, {c.due ? 0 : 1, c.due ? 1 : 0});
        const TroupeCudaUpdate update{.values = values.get(),
                                      .slot0 = c.rule.pass == TROUPE_CUDA_ADAM ? slot0.get() : nullptr,
                                      .slot1 = c.rule.pass == TROUPE_CUDA_ADAM ? slot1.get() : nullptr,
                                      .gradient = gradient.get(),
                                      .count = count,
                                      .follower = follower.get(),
                                      .follower_shadow = c.shadowed ? shadow.get() : nullptr,
                                      .decay = c.decay,
                                      .due = due.get(),
                                      .rules = rules.get(),
                                      .control = state.get()};
        gpu.check(gpu.api().update(&update, 1, gpu.stream()), "update");
        const std::vector<float> now = values.read(), got = follower.read();
        EXPECT_EQ(now == numbers(count, 1), c.skip) << "the update itself";
        const bool moves = !c.skip && c.due;
        std::vector<float> expected = old;
        if (moves && c.decay == 0) expected = now;
        if (moves && c.decay > 0) kernels_f32().average(now.data(), expected.data(), nullptr, c.decay, 0, count);
        for (std::size_t i = 0; i < size; ++i) {
          ASSERT_NEAR(got[i], expected[i], moves && c.decay > 0 ? 5e-7 : 0) << i << " of " << count;
        }
        std::vector<std::uint16_t> expected_shadow(size, 0x4242);
        if (moves && c.shadowed) kernels_f32().to_bf16(got.data(), expected_shadow.data(), 0, count);
        ASSERT_EQ(shadow.read(), expected_shadow) << count << " elements";
      }
    }
  });
}

TEST_F(UpdateKernels, StatesAreAssignedUnlessTheStepIsSkipped) {
  each([](gpu::GpuUnderTest& gpu) {
    for (const std::int64_t count : kCounts) {
      for (const bool skip : {false, true}) {
        const std::vector<float> from = numbers(count, 1), to = numbers(count, 2);
        const OnGpu<float> on_from(gpu, from, 1), on_to(gpu, to);
        const OnGpu<TroupeCudaControl> state(gpu, {control(skip)});
        const TroupeCudaAssign part{on_from.get(), on_to.get(), count};
        gpu.check(gpu.api().assign(&part, 1, state.get(), gpu.stream()), "assign");
        ASSERT_EQ(on_to.read(), skip ? to : from) << count;
      }
    }
  });
}

TEST_F(UpdateKernels, AnyNumberOfPartsAreEachAsAlone) {
  each([](gpu::GpuUnderTest& gpu) {
    for (const std::size_t count : {0, 1, 15, 16, 17, 40}) {
      const OnGpu<TroupeCudaControl> state(gpu, {control(false)});
      std::vector<std::vector<float>> values;
      std::vector<std::unique_ptr<OnGpu<float>>> from, to;
      std::vector<std::unique_ptr<OnGpu<double>>> squares;
      std::vector<TroupeCudaAssign> assigned;
      std::vector<TroupeCudaSquares> squared;
      for (std::size_t i = 0; i < count; ++i) {
        const std::int64_t size = i % 5 == 3 ? 0 : static_cast<std::int64_t>(i % 7 * 1000 + 1);
        values.push_back(numbers(size, static_cast<int>(i)));
        from.push_back(std::make_unique<OnGpu<float>>(gpu, values.back(), i % 2));
        to.push_back(std::make_unique<OnGpu<float>>(gpu, numbers(size, 99)));
        squares.push_back(std::make_unique<OnGpu<double>>(gpu, std::vector<double>(2, -1)));
        assigned.push_back({from.back()->get(), to.back()->get(), size});
        squared.push_back({from.back()->get(), size, squares.back()->get()});
      }
      const auto parts = static_cast<std::int32_t>(count);
      gpu.check(gpu.api().assign(assigned.data(), parts, state.get(), gpu.stream()), "assign");
      gpu.check(gpu.api().sum_squares(squared.data(), parts, gpu.stream()), "sum_squares");
      gpu.wait();
      for (std::size_t i = 0; i < count; ++i) {
        ASSERT_EQ(to[i]->read(), values[i]) << i << " of " << count;
        const std::vector<double> got = squares[i]->read();
        double sum = 0, expected = 0;
        for (std::size_t b = 0; b * TROUPE_CUDA_NORM_BLOCK < values[i].size(); ++b) sum += got[b];
        for (const float x : values[i]) expected += double{x} * x;
        ASSERT_NEAR(sum, expected, 1e-5 * expected) << i << " of " << count;
        if (values[i].size() <= TROUPE_CUDA_NORM_BLOCK) {
          ASSERT_EQ(got[1], -1) << i << " of " << count;
        }
      }
    }
  });
}

TEST_F(UpdateKernels, GradientsOfSeveralRunsAreAddedUp) {
  each([](gpu::GpuUnderTest& gpu) {
    for (const std::int64_t count : kCounts) {
      const std::vector<float> first = numbers(count, 1), second = numbers(count, 2);
      const OnGpu<float> sum(gpu, std::vector<float>(first.size(), 0.0F));
      const OnGpu<float> gradient(gpu, first), last(gpu, second, 1);
      const auto accumulate = [&](float* of, float weight, bool ends) {
        gpu.check(gpu.api().accumulate(of, sum.get(), count, weight, 0.125F, ends, gpu.stream()), "accumulate");
      };
      accumulate(gradient.get(), 5, false);
      EXPECT_EQ(gradient.read(), first);
      accumulate(last.get(), 3, true);
      const std::vector<float> got = last.read();
      for (std::size_t i = 0; i < got.size(); ++i) {
        ASSERT_NEAR(got[i], (5 * first[i] + 3 * second[i]) * 0.125F, 1e-6) << i << " of " << count;
      }
    }
  });
}

TEST_F(UpdateKernels, ColumnsKeepTheirLengthAsOnTheProcessor) {
  struct Sizes {
    std::int64_t rows, more, columns;
  };
  each([](gpu::GpuUnderTest& gpu) {
    for (const auto& [rows, more, columns] : {Sizes{1, 0, 1}, {700, 300, 1}, {5, 0, 31}, {33, 0, 32}, {300, 2, 65}}) {
      for (const bool skip : {false, true}) {
        ParamLayout layout{.group = "net"};
        layout.add("net/first", {rows, columns});
        layout.add("net/second", {more, columns});
        layout.kept.push_back({.entries = {0, 1}, .columns = columns, .length = 2.5});
        std::vector<float> values = numbers(layout.elements, 5);
        for (std::int64_t row = 0; row < rows && columns > 1; ++row)
          values[static_cast<std::size_t>(row * columns)] = 0;
        const std::int64_t second = layout.entries[1].offset;
        if (more > 0 && columns > 1) {
          for (std::int64_t row = 0; row < more; ++row) values[static_cast<std::size_t>(second + row * columns)] = 0;
        }
        const OnGpu<float> on_values(gpu, values);
        const OnGpu<std::uint16_t> on_shadow(gpu, std::vector<std::uint16_t>(values.size(), 7));
        const OnGpu<TroupeCudaControl> on_state(gpu, {control(skip, 0)});
        const TroupeCudaKept kept{.values = {on_values.get(), on_values.get() + second},
                                  .shadow = {on_shadow.get(), on_shadow.get() + second},
                                  .rows = {rows, more},
                                  .columns = columns,
                                  .length = 2.5,
                                  .control = on_state.get()};
        gpu.check(gpu.api().keep_length(&kept, 1, gpu.stream()), "keep_length");
        std::vector<float> expected = values;
        std::vector<std::uint16_t> shadow(values.size(), 7);
        if (!skip) KeptLengths(layout).restore(expected.data(), shadow.data());
        const std::vector<float> got = on_values.read();
        const std::vector<std::uint16_t> got_shadow = on_shadow.read();
        for (std::size_t i = 0; i < got.size(); ++i) {
          ASSERT_NEAR(got[i], expected[i], 1e-6) << i << " of " << rows << " and " << more << " by " << columns;
          ASSERT_NEAR(got_shadow[i], shadow[i], 1) << i;
        }
      }
    }
  });
}

TEST_F(UpdateKernels, ShadowsAreRoundedToTheNearest) {
  each([](gpu::GpuUnderTest& gpu) {
    for (const std::int64_t count : kCounts) {
      for (const std::size_t shift : {0, 1}) {
        const std::vector<float> x = numbers(count, 1);
        const OnGpu<float> from(gpu, x, shift);
        const OnGpu<std::uint16_t> to(gpu, std::vector<std::uint16_t>(x.size()));
        gpu.check(gpu.api().to_bf16(from.get(), to.get(), count, gpu.stream()), "to_bf16");
        std::vector<std::uint16_t> expected(x.size());
        kernels_f32_generic().to_bf16(x.data(), expected.data(), 0, count);
        ASSERT_EQ(to.read(), expected) << count;
      }
    }
  });
}

}  // namespace
}  // namespace troupe::learner
