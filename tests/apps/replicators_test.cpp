// Every replicator trains the classifier as one device does, on made-up images: the small form of
// fashion_replicators_test.cpp.
#include <gtest/gtest.h>

#include <iostream>

#include <troupe/tests/apps/replicators.hpp>

namespace troupe::apps {
namespace {

const std::vector<std::string> kSmall = {"data=synthetic", "layers=[32]",        "batch_size=42",
                                         "steps=1500",     "learning_rate=3e-3", "evaluate_every_steps=1500"};

TEST(Replicators, AllReachTheAccuracyOfOneDevice) {
  const auto alone = accuracy_under({}, kSmall);
  ASSERT_TRUE(alone.ok()) << alone.error().message;
  EXPECT_GT(*alone, 0.9) << "guessing is right in 0.1";
  for (const ReplicatorCase& one : replicator_cases()) {
    const auto accuracy = accuracy_under(one, kSmall);
    ASSERT_TRUE(accuracy.ok()) << one << ": " << accuracy.error().message;
    // The same batches, but for backup workers (two thirds of each) and late gradients: of 1000 images some differ.
    std::cout << one << ": " << *accuracy << " of " << *alone << "\n";
    EXPECT_GT(*accuracy, *alone - 0.03) << one;
  }
}

}  // namespace
}  // namespace troupe::apps
