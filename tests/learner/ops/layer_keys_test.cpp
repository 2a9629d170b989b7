#include <troupe/learner/ops/layer_keys.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <variant>

#include <troupe/tests/run/section.hpp>

namespace troupe::learner {
namespace {

TEST(LayerKeys, EveryChoiceIsReadAsItself) {
  const ConfigSchema keys = layer_keys("critic_", {7, 8}, Activation::kElu, " of the critic");
  ASSERT_EQ(keys.size(), 2u);
  EXPECT_EQ(keys[0].path, "critic_layers");
  EXPECT_EQ(keys[0].doc, "Hidden layers of the critic");
  EXPECT_EQ(troupe::testing::section(keys).get_ints("critic_layers"), (std::vector<std::int64_t>{7, 8}));
  EXPECT_EQ(read_activation(troupe::testing::section(keys), "critic_"), Activation::kElu);
  EXPECT_THAT(keys[1].choices, ::testing::ElementsAre("relu", "leaky_relu", "elu", "tanh", "sigmoid"));
  const Activation expected[] = {Activation::kRelu, Activation::kLeakyRelu, Activation::kElu, Activation::kTanh,
                                 Activation::kSigmoid};
  for (std::size_t i = 0; i < keys[1].choices.size(); ++i) {
    const ConfigSection section = troupe::testing::section(keys, {{"critic_activation", keys[1].choices[i]}});
    EXPECT_EQ(read_activation(section, "critic_"), expected[i]) << keys[1].choices[i];
  }
}

}  // namespace
}  // namespace troupe::learner
