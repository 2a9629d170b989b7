// A whole replica under the model-parallel replicator, which is OneDevice compiled for several devices: the same bits.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <memory>

#include <troupe/algorithms/classifier/network.hpp>
#include <troupe/algorithms/classifier/replica.hpp>
#include <troupe/core/rng.hpp>
#include <troupe/learner/engine/program_state.hpp>
#include <troupe/learner/replicate/make_replicator.hpp>
#include <troupe/learner/replicate/replicator.hpp>

namespace troupe::learner {
namespace {

constexpr std::int64_t kSplitBatch = 24;

classifier::Options options() {
  return {.features = 8,
          .classes = 4,
          .sizes = {16, 12, 9},
          .batch_norm = true,
          .optimizer = {.rule = Adam{.learning_rate = 1e-2}, .max_global_norm = 0.5},
          .average_decay = 0.9};
}

/// Seven steps; every tensor of the state, one after the other, and the last metrics.
std::vector<float> train(int devices, int stripes) {
  BatchSlot slot(classifier::batch_signature(options()));
  const auto replica = classifier::training(options(), [&](const InputContext& context) {
    EXPECT_EQ(context.devices, devices);
    return slot.pipeline();
  });
  const auto made =
      OneDevice::make(*replica, {.batch = kSplitBatch, .compile = {.stripes = stripes, .devices = devices, .seed = 2}})
          .value();
  Program& program = made->program();
  EXPECT_EQ(program.devices(), devices);
  Rng rng(5);
  BatchBuffer batch(classifier::batch_signature(options()), kSplitBatch);
  for (int step = 0; step < 7; ++step) {
    for (float& x : batch.mutable_view().as<float>(0)) x = static_cast<float>(rng.normal());
    for (std::int32_t& label : batch.mutable_view().as<std::int32_t>(1))
      label = static_cast<std::int32_t>(rng.below(4));
    slot.offer(batch.view()).value();
    made->step().value();
  }
  std::vector<float> all;
  for (const messages::TensorBytes& tensor : save_state(program)) {
    const auto* values = reinterpret_cast<const float*>(tensor.bytes.data());
    all.insert(all.end(), values, values + tensor.bytes.size() / sizeof(float));
  }
  for (const double metric : program.metrics()) all.push_back(static_cast<float>(metric));
  return all;
}

TEST(ModelParallel, AClassifierTrainsToTheBitsOfOneDevice) {
  for (const int stripes : {1, 2}) {
    const std::vector<float> one = train(1, stripes);
    EXPECT_THAT(one, testing::Each(testing::Truly([](float x) { return std::isfinite(x); })));
    for (const int devices : {2, 3, 4}) EXPECT_EQ(train(devices, stripes), one) << devices << " devices";
  }
}

struct SharedLayers {
  Split split = Split::kNone;
  std::int64_t parts = 1;
  int replicas = 1;
};

/// All parameters after five steps on 17 and 24 rows in turn, of two devices for each replica.
std::vector<float> train_shared(const SharedLayers& how) {
  classifier::Options shared = options();
  shared.batch_norm = false;
  shared.layer_split = how.split;
  shared.pipeline_parts = how.parts;
  BatchSlot slot(classifier::batch_signature(shared));
  const auto replica =
      classifier::training(shared, [&](const InputContext& context) { return slot.pipeline(context); });
  const auto made = make_replicator(*replica, {.kind = ReplicatorKind::kMultiDevice,
                                               .global_batch = kSplitBatch,
                                               .replicas = how.replicas,
                                               .compile = {.stripes = 1, .devices = 2, .seed = 2}})
                        .value();
  EXPECT_EQ(made->program().devices(), 2);
  Rng rng(5);
  BatchBuffer batch(slot.pipeline()->signature(), kSplitBatch);
  for (int step = 0; step < 5; ++step) {
    for (float& x : batch.mutable_view().as<float>(0)) x = static_cast<float>(rng.normal());
    for (std::int32_t& label : batch.mutable_view().as<std::int32_t>(1))
      label = static_cast<std::int32_t>(rng.below(4));
    BatchView view = batch.view();
    if (step % 2 == 0) {
      view.rows = 17;
      for (std::size_t c = 0; c < view.columns.size(); ++c) {
        view.columns[c] = view.columns[c].first(17 * (*view.signature)[c].bytes());
      }
    }
    slot.offer(view).value();
    made->step().value();
  }
  const auto values = made->program().params(classifier::kGroup)->values();
  return {values.begin(), values.end()};
}

TEST(ModelParallel, EveryWayToShareTheLayersTrainsAsOneAlsoInSeveralReplicas) {
  const std::vector<float> stages = train_shared({});
  for (const SharedLayers& how :
       {SharedLayers{.replicas = 2}, SharedLayers{.parts = 4}, SharedLayers{.parts = 3, .replicas = 2},
        SharedLayers{.split = Split::kBatch}, SharedLayers{.split = Split::kBatch, .replicas = 2},
        SharedLayers{.split = Split::kHidden}, SharedLayers{.split = Split::kHidden, .replicas = 2}}) {
    const std::vector<float> got = train_shared(how);
    // Float32 sums in another order, and Adam's steps of 1e-2 in whatever direction small gradients have.
    EXPECT_THAT(got, testing::Pointwise(testing::FloatNear(1e-4F), stages))
        << static_cast<int>(how.split) << ", " << how.parts << " parts, " << how.replicas << " replicas";
    EXPECT_NE(got, stages) << "nothing was shared in another way";
  }
}

}  // namespace
}  // namespace troupe::learner
