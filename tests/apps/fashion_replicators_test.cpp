// The classifier of apps/configs/classifier.toml reaches 89 % on the test images of Fashion-MNIST under every
// replicator.
#include <gtest/gtest.h>

#include <iostream>

#include <troupe/data/images.hpp>
#include <troupe/tests/apps/replicators.hpp>

namespace troupe::apps {
namespace {

class FashionReplicators : public ::testing::TestWithParam<ReplicatorCase> {};

TEST_P(FashionReplicators, Reaches89Percent) {
  if (!data::load_fashion_mnist(data::Split::kTest).ok()) GTEST_SKIP() << "needs the package dataset-fashion-mnist";
  const auto accuracy = accuracy_under(GetParam());
  ASSERT_TRUE(accuracy.ok()) << accuracy.error().message;
  std::cout << GetParam() << ": " << *accuracy << '\n';
  EXPECT_GE(*accuracy, 0.89);
}

INSTANTIATE_TEST_SUITE_P(All, FashionReplicators, ::testing::ValuesIn(replicator_cases()),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace troupe::apps
