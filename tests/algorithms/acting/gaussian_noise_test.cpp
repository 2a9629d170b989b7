// Gaussian noise whose deviation goes from one number to another. As fixed noise: actors/roles/env_actor_test.cpp.
#include <troupe/algorithms/acting/gaussian_noise.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>

namespace troupe {
namespace {

TEST(GaussianNoise, GoesLinearlyToItsLastDeviationAndOnFromItsState) {
  // An action of 0 and bounds that nothing reaches: each action is the deviation times a normal number.
  const acting::MakeExploration make = acting::gaussian_noise({.low = {-1000},
                                                               .high = {1000},
                                                               .sigma = 0.03,
                                                               .sigma_env_steps = 1000,
                                                               .final_sigma = 0.01,
                                                               .env_steps_before = 500});
  const acting::MakeExploration steady = acting::gaussian_noise({.low = {-1000}, .high = {1000}, .sigma = 0.01});
  const Signature columns{{"action", DType::kF32, Shape{1}}};
  const BatchBuffer outputs(columns, 1);
  const auto act = [&](acting::Exploration& exploration) {
    float action = 0;
    exploration.choose({outputs.view(), outputs.view(), 0}, std::as_writable_bytes(std::span(&action, 1))).value();
    return static_cast<double>(action);
  };
  const auto annealed = make({.seed = 1, .count = 5}).value(), plain = steady({.seed = 1, .count = 5}).value();
  auto other = make({.seed = 2, .count = 5}).value();
  for (int step = 0; step < 150; ++step) {
    if (step == 40) {
      ASSERT_TRUE(other->restore_state(annealed->save_state()).ok());
    }
    const double share = std::min(1.0, (500 + 5.0 * step) / 1000), sigma = 0.03 - share * 0.02;
    const double action = act(*annealed);
    EXPECT_NEAR(action, act(*plain) * sigma / 0.01, 1e-5) << step;
    if (step >= 40) {
      EXPECT_EQ(action, act(*other)) << step;
    }
  }
  EXPECT_EQ(other->restore_state(plain->save_state()).error().code, Code::kCorrupt);
  EXPECT_EQ(acting::gaussian_noise({.low = {0}, .high = {1}, .sigma_env_steps = -1})({}).error().code,
            Code::kInvalidArgument);
}

}  // namespace
}  // namespace troupe
