// The classifier against PyTorch (make_replicas_golden.py), several replicas against one, and its judge.
#include <troupe/algorithms/classifier/replica.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <troupe/core/rng.hpp>
#include <troupe/tests/learner/models.hpp>

namespace troupe::learner::classifier {
namespace {

using testing::HasSubstr;

Options options(bool sync = true) {
  return {.features = 6,
          .classes = 4,
          .sizes = {9, 7},
          .batch_norm = true,
          .sync_batch_norm = sync,
          .label_smoothing = 0.1,
          .optimizer = {.rule = Sgd{.learning_rate = 0.1, .momentum = 0.9, .nesterov = true, .weight_decay = 1e-2},
                        .schedule = {.kind = Schedule::Kind::kCosine, .total_steps = 10}}};
}

MakeReplica maker(const Options& options) {
  return [options](InputFn input) { return training(options, std::move(input)); };
}

TEST(Classifier, TakesTheStepsThatPyTorchTakes) {
  const Golden golden("replicas.safetensors");
  const Signature signature = batch_signature(options());
  const BatchView batch{&signature, 12, {golden.find("classifier/image").bytes, golden.find("classifier/label").bytes}};
  const std::vector<BatchView> batches(4, batch);
  for (const int stripes : {1, 3}) {
    const State state = train(
        maker(options()), batches, {12}, stripes,
        [&](Program& program) { load_initial(program, golden, "classifier/initial"); },
        [&](std::size_t step, Program& program) {
          EXPECT_THAT(program.metric_names(), testing::ElementsAre("loss", "accuracy"));
          const auto expected = [&](const std::string& name) {
            return golden.values<double>("classifier/" + name + "/" + std::to_string(step))[0];
          };
          EXPECT_NEAR(program.metrics()[0], expected("loss"), 1e-5) << step;
          EXPECT_NEAR(program.metrics()[1], expected("accuracy"), 1e-6) << step;
        });
    for (const auto& [name, values] : state) {
      const std::vector<double> expected = golden.values<double>("classifier/final/" + name);
      ASSERT_EQ(values.size(), expected.size()) << name;
      for (std::size_t i = 0; i < values.size(); ++i) {
        // float32 through four steps and two batch norms over 12 rows, which divide by small deviations.
        EXPECT_NEAR(values[i], expected[i], 2e-5 * (1 + std::abs(expected[i]))) << name << '[' << i << ']';
      }
    }
  }
}

struct Data {
  Signature signature = batch_signature(options());
  std::vector<std::unique_ptr<BatchBuffer>> buffers;
  std::vector<BatchView> batches;

  Data() {
    Rng rng(4);
    for (int step = 0; step < 5; ++step) {
      buffers.push_back(std::make_unique<BatchBuffer>(signature, 24));
      const MutableBatchView view = buffers.back()->mutable_view();
      for (float& x : view.as<float>(0)) x = static_cast<float>(rng.normal());
      for (std::int32_t& label : view.as<std::int32_t>(1)) label = static_cast<std::int32_t>(rng.below(4));
      batches.push_back(buffers.back()->view());
    }
  }
};

TEST(Classifier, SeveralReplicasWithBatchNormAcrossThemTrainAsOne) {
  const Data data;
  const State one = train(maker(options()), data.batches, {24}, 1);
  for (const std::vector<std::int64_t>& shares : {std::vector<std::int64_t>{24}, {12, 12}, {7, 17}, {5, 11, 8}}) {
    for (const int stripes : {1, 2}) {
      // The same sums in another order: float32 through five steps, running statistics included.
      EXPECT_LT(largest_difference(train(maker(options()), data.batches, shares, stripes), one), 5e-5)
          << shares.size() << " replicas of " << stripes << " stripes";
    }
  }
  const State local = train(maker(options(false)), data.batches, {12, 12}, 1);
  EXPECT_GT(largest_difference(local, one), 1e-2) << "statistics of half a batch are others";
}

TEST(Classifier, AShortBatchTrainsAsOneOfItsRows) {
  const Data data;
  const auto train_on_17_rows = [&](std::int64_t graph_rows) {
    BatchSlot slot(data.signature);
    const auto replica = training(options(), [&](const InputContext&) { return slot.pipeline(); });
    const auto device = OneDevice::make(*replica, {.batch = graph_rows, .compile = {.stripes = 2, .seed = 11}}).value();
    for (const BatchView& batch : data.batches) {
      slot.offer(rows_of(batch, 0, 17)).value();
      device->step().value();
    }
    return state_of(device->program());
  };
  // The rows fall on other stripes: float32 sums in another order.
  EXPECT_LT(largest_difference(train_on_17_rows(24), train_on_17_rows(17)), 5e-5);
}

TEST(Classifier, TheActivationIsThatOfItsOptions) {
  const Data data;
  const auto with = [&](Activation activation) {
    Options made = options();
    made.activation = activation;
    return train(maker(made), data.batches, {24}, 2);
  };
  EXPECT_EQ(with(Activation::kRelu), with(options().activation));
  EXPECT_GT(largest_difference(with(Activation::kTanh), with(Activation::kRelu)), 1e-2);
}

TEST(Classifier, StagesOnSeveralDevicesChangeNoBit) {
  const Data data;
  EXPECT_EQ(train(maker(options()), data.batches, {24}, 2, {}, {}, 2), train(maker(options()), data.batches, {24}, 2));
}

TEST(Classifier, ItsJudgeSeesTheAverageAndTheRunningStatisticsAndMovesNothing) {
  const Data data;
  Options averaged = options();
  averaged.average_decay = 0.9;
  State trained;
  trained = train(maker(averaged), data.batches, {24}, 1);
  EXPECT_NE(trained.at("classifier.average/layer0/weight"), trained.at("classifier/layer0/weight"));

  BatchSlot slot(data.signature);
  const auto judge = evaluation(averaged, [&](const InputContext&) { return slot.pipeline(); });
  const auto device = OneDevice::make(*judge, {.batch = 24}).value();
  Program& program = device->program();
  const auto load = [&](ParamBuffer& buffer) {
    for (const ParamEntry& entry : buffer.layout().entries) {
      std::ranges::copy(trained.at(entry.name), buffer.tensor(entry).begin());
    }
  };
  for (std::size_t i = 0; i < program.group_count(); ++i) load(program.group(i));
  load(program.state());
  program.parameters_changed();
  const auto loss = [&] {
    slot.offer(data.batches[0]).value();
    device->step().value();
    return program.metrics()[0];
  };
  const double before = loss();
  EXPECT_EQ(loss(), before);
  EXPECT_EQ(program.step(), 0);
  for (float& x : program.params("classifier")->values()) x = 0;
  EXPECT_EQ(loss(), before) << "the newest parameters do not matter";
  for (float& x : program.state().values()) x += 1;
  EXPECT_NE(loss(), before) << "the running statistics do";
}

TEST(Classifier, RefusesOptionsThatMakeNoSense) {
  const auto message = [](auto change) {
    Options changed = options();
    change(changed);
    const Status status = validate(changed);
    return status.ok() ? std::string("valid") : status.error().message;
  };
  EXPECT_EQ(message([](Options&) {}), "valid");
  EXPECT_EQ(message([](Options& o) { o.sizes.clear(); }), "valid") << "a linear classifier";
  EXPECT_THAT(message([](Options& o) { o.features = 0; }), HasSubstr("features is 0, expected at least 1"));
  EXPECT_THAT(message([](Options& o) { o.classes = 1; }), HasSubstr("classes is 1"));
  EXPECT_THAT(message([](Options& o) { o.sizes = {8, 0}; }), HasSubstr("sizes is 0"));
  EXPECT_THAT(message([](Options& o) { o.label_smoothing = 1; }), HasSubstr("label_smoothing is 1"));
  EXPECT_THAT(message([](Options& o) { o.pipeline_parts = 0; }), HasSubstr("pipeline_parts is 0, expected at least 1"));
  EXPECT_THAT(message([](Options& o) {
                o.pipeline_parts = 2;
                o.layer_split = Split::kHidden;
              }),
              HasSubstr("pipeline_parts is 2, expected 1"));
  EXPECT_THAT(message([](Options& o) { o.average_decay = 1; }), HasSubstr("average_decay is 1"));
  EXPECT_THAT(message([](Options& o) { o.optimizer.rule = Sgd{.learning_rate = -1}; }), HasSubstr("learning_rate"));
}

}  // namespace
}  // namespace troupe::learner::classifier
