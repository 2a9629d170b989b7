// Every replicator trains the classifier, and the SN-GAN's residual networks, as one device does, on made-up images:
// the small form of fashion_replicators_test.cpp.
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

const std::vector<std::string> kSmallGan = {"data=synthetic",
                                            "width=8",
                                            "discriminator_width=8",
                                            "noise_size=8",
                                            "batch_size=30",
                                            "steps=150",
                                            "threads=1",
                                            "n_dis=1",
                                            "evaluation_images=500",
                                            "evaluate_every_steps=150",
                                            "ema_decay=0",
                                            "learning_rate=1e-3"};

TEST(Replicators, AllTrainTheGanToTheDistanceOfOneDevice) {
  const auto distance = [](const ReplicatorCase& one, const std::vector<std::string>& more) {
    std::vector<std::string> keys = kSmallGan;
    keys.insert(keys.end(), more.begin(), more.end());
    if (!one.meets) keys.push_back("sync_batch_norm=false");
    const auto evaluation = evaluation_under("sngan_fashion", "sngan", one, keys);
    EXPECT_TRUE(evaluation.ok()) << one << ": " << evaluation.error().message;
    for (const Scalar& scalar : evaluation.ok() ? *evaluation : std::vector<Scalar>{}) {
      if (scalar.name == "frechet_distance") return scalar.value;
    }
    return -1.0;
  };
  const double begun = distance({}, {"steps=1"}), alone = distance({}, {});
  EXPECT_GT(alone, 0);
  EXPECT_LT(alone, 0.7 * begun) << "it learns";
  for (const ReplicatorCase& one : replicator_cases()) {
    const double reached = distance(one, {});
    std::cout << one << ": " << reached << " of " << alone << ", begun at " << begun << "\n";
    EXPECT_GT(reached, 0) << one;
    // Late gradients, and two thirds of a batch, cost something; rounding, in a game of two networks, a little.
    EXPECT_LT(reached, 0.8 * begun) << one;
  }
}

}  // namespace
}  // namespace troupe::apps
