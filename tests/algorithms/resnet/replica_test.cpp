// Residual networks against PyTorch (make_resnet_golden.py), several replicas against one, what decays, and the judge.
#include <troupe/algorithms/resnet/replica.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <troupe/algorithms/resnet/network.hpp>
#include <troupe/core/rng.hpp>
#include <troupe/learner/engine/cpu/gemm.hpp>
#include <troupe/tests/learner/models.hpp>

namespace troupe::learner::resnet {
namespace {

using testing::HasSubstr;

/// Narrow, and trained as make_resnet_golden.py does.
Options small(Options options) {
  options.classes = 7;
  options.label_smoothing = 0.1;
  options.optimizer.rule = Sgd{.learning_rate = 0.05, .momentum = 0.9, .nesterov = true, .weight_decay = 0.01};
  return options;
}
Options resnet20() {
  Options options = of_depth(20).value();
  options.filters = 3;
  options.height = options.width = 8;
  return small(options);
}
Options bottleneck(Variant variant) {
  Options options = of_depth(50).value();
  options.variant = variant;
  options.blocks = {2, 1};
  options.filters = 2;
  options.height = options.width = 16;
  return small(options);
}

MakeReplica maker(const Options& options) {
  return [options](InputFn input) { return training(options, std::move(input)); };
}

void load(Program& program, const State& state) {
  const auto copy = [&](ParamBuffer& buffer) {
    for (const ParamEntry& entry : buffer.layout().entries) {
      std::ranges::copy(state.at(entry.name), buffer.tensor(entry).begin());
    }
  };
  for (std::size_t i = 0; i < program.group_count(); ++i) copy(program.group(i));
  copy(program.state());
  program.parameters_changed();
}

TEST(Resnet, TakesTheStepsThatPyTorchTakes) {
  const Golden golden("resnet.safetensors");
  for (const auto& [prefix, options] :
       std::map<std::string, Options>{{"resnet20", resnet20()},
                                      {"bottleneck_v1", bottleneck(Variant::kV1)},
                                      {"bottleneck_v1_5", bottleneck(Variant::kV1_5)}}) {
    const Signature signature = batch_signature(options);
    const BatchView batch{&signature, 6, {golden.find(prefix + "/image").bytes, golden.find(prefix + "/label").bytes}};
    for (const int stripes : {1, 2}) {
      const State state = train(
          maker(options), {batch, batch}, {6}, stripes,
          [&](Program& program) { load_initial(program, golden, prefix + "/initial"); },
          [&](std::size_t step, Program& program) {
            EXPECT_THAT(program.metric_names(), testing::ElementsAre("loss", "accuracy"));
            EXPECT_NEAR(program.metrics()[0], golden.values<double>(prefix + "/loss/" + std::to_string(step))[0], 2e-5)
                << prefix << " step " << step;
          });
      std::size_t tensors = 0;
      for (const auto& [name, values] : state) {
        if (name.ends_with(".momentum")) continue;  // shows in the second step
        ++tensors;
        const auto expected = golden.values<float>(prefix + "/final/" + name);
        ASSERT_EQ(values.size(), expected.size()) << name;
        for (std::size_t i = 0; i < values.size(); ++i) {
          // float32 through two steps and up to twenty batch norms, some over 24 values with a small deviation.
          EXPECT_NEAR(values[i], expected[i], 2e-4 * (1 + std::abs(expected[i])))
              << prefix << ' ' << name << '[' << i << ']';
        }
      }
      EXPECT_GE(tensors, 40U);

      BatchSlot slot(signature);
      const auto judge = evaluation(options, [&](const InputContext&) { return slot.pipeline(); });
      const auto device = OneDevice::make(*judge, {.batch = 6, .compile = {.stripes = stripes}}).value();
      load(device->program(), state);
      slot.offer(batch).value();
      device->step().value();
      EXPECT_THAT(device->program().metric_names(), testing::ElementsAre("loss", "accuracy", "top5_accuracy"));
      for (std::size_t metric = 0; metric < 3; ++metric) {
        const std::string name = device->program().metric_names()[metric];
        const double expected = golden.values<double>(prefix + "/evaluation/" + name)[0];
        EXPECT_NEAR(device->program().metrics()[metric], expected, 1e-3 * (1 + std::abs(expected))) << prefix << name;
      }
    }
  }
}

struct Data {
  Signature signature;
  std::vector<std::unique_ptr<BatchBuffer>> buffers;
  std::vector<BatchView> batches;

  explicit Data(const Options& options) : signature(batch_signature(options)) {
    Rng rng(4);
    for (int step = 0; step < 3; ++step) {
      buffers.push_back(std::make_unique<BatchBuffer>(signature, 12));
      const MutableBatchView view = buffers.back()->mutable_view();
      for (float& x : view.as<float>(0)) x = static_cast<float>(rng.normal());
      for (std::int32_t& label : view.as<std::int32_t>(1)) label = static_cast<std::int32_t>(rng.below(7));
      batches.push_back(buffers.back()->view());
    }
  }
};

TEST(Resnet, SeveralReplicasWithBatchNormAcrossThemTrainAsOne) {
  for (Options options : {resnet20(), bottleneck(Variant::kV1_5)}) {
    options.sync_batch_norm = true;
    options.zero_init = false;
    const Data data(options);
    const State one = train(maker(options), data.batches, {12}, 1);
    for (const std::vector<std::int64_t>& shares : {std::vector<std::int64_t>{6, 6}, {5, 7}}) {
      // The same sums in another order: float32 through three steps of many batch norms.
      EXPECT_LT(largest_difference(train(maker(options), data.batches, shares, 1), one), 2e-3);
    }
    options.sync_batch_norm = false;
    EXPECT_GT(largest_difference(train(maker(options), data.batches, {6, 6}, 1), one), 1e-2);
  }
}

TEST(Resnet, StagesOnSeveralDevicesChangeNoBit) {
  const Options options = bottleneck(Variant::kV1_5);
  const Data data(options);
  EXPECT_EQ(train(maker(options), data.batches, {12}, 2, {}, {}, 2), train(maker(options), data.batches, {12}, 2));
}

TEST(Resnet, TrainsAsWellWithImagesStoredAsBfloat16) {
  for (const Options& options : {resnet20(), bottleneck(Variant::kV1_5)}) {
    const Data data(options);
    const auto losses = [&](DType compute) {
      BatchSlot slot(data.signature);
      const auto replica = training(options, [&](const InputContext&) { return slot.pipeline(); });
      const auto device =
          OneDevice::make(*replica, {.batch = 12, .compile = {.stripes = 2, .compute = compute, .seed = 11}}).value();
      std::vector<double> made;
      for (int step = 0; step < 12; ++step) {
        slot.offer(data.batches[0]).value();
        device->step().value();
        made.push_back(device->program().metrics()[0]);
      }
      return made;
    };
    const std::vector<double> f32 = losses(DType::kF32), bf16 = losses(DType::kBF16);
    EXPECT_NE(bf16, f32);
    // The first: three digits through twenty layers; the last: both have begun to learn the twelve rows.
    EXPECT_NEAR(bf16.front(), f32.front(), 0.03);
    EXPECT_LT(f32.back(), 0.95 * f32.front());
    EXPECT_NEAR(bf16.back(), f32.back(), 0.15);
  }
}

TEST(Resnet, HasTheLayersOfThePaper) {
  const auto parameters = [](const Options& options) {
    Graph graph(1);
    const ParamGroup group = graph.group(kGroup);
    graph.output("y", network(graph, group, options,
                              graph.input("image", {options.height, options.width, options.channels}), {}));
    const auto program = Program::compile(graph, {}).value();
    std::int64_t count = 0, decayed = 0;
    for (const ParamEntry& entry : program->params(kGroup)->layout().entries) {
      count += entry.shape.elements();
      if (entry.decays) decayed += entry.shape.elements();
      EXPECT_EQ(entry.decays, entry.name.ends_with("weight")) << entry.name;
    }
    return std::pair(count, decayed);
  };
  // torchvision's counts for 1000 classes; He et al. 2015, Table 6: 0.27 million.
  for (const auto& [depth, count] : {std::pair{18, 11'689'512}, {50, 25'557'032}}) {
    Options options = of_depth(depth).value();
    options.height = options.width = 32;  // fully convolutional, and quick
    EXPECT_EQ(parameters(options).first, count) << depth;
  }
  Options options = of_depth(20).value();
  options.channels = 1;
  const auto [count, decayed] = parameters(options);
  EXPECT_EQ(count, 269'434);
  EXPECT_EQ(count - decayed, 2 * (7 * 16 + 6 * 32 + 6 * 64) + 10);
}

TEST(Resnet, BlocksStartAsIdentitiesWhenAsked) {
  for (const bool zero : {false, true}) {
    Options options = bottleneck(Variant::kV1);
    options.zero_init = zero;
    Graph graph(1);
    network(graph, graph.group(kGroup), options, graph.input("image", {16, 16, 3}), {});
    graph.output("y", graph.input("x", {}));
    const auto program = Program::compile(graph, {}).value();
    ParamBuffer& params = *program->params(kGroup);
    for (const ParamEntry& entry : params.layout().entries) {
      if (!entry.name.ends_with("/gain")) continue;
      const bool last = entry.name.ends_with("conv3/gain");
      EXPECT_THAT(params.tensor(entry), testing::Each(zero && last ? 0 : 1)) << entry.name;
    }
  }
}

TEST(Resnet, RefusesWhatMakesNoSenseAndNamesTheOption) {
  EXPECT_THAT(of_depth(21).error().message, HasSubstr("depth is 21, expected 18, 34, 50"));
  const auto said = [](const std::function<void(Options&)>& change) {
    Options options;
    change(options);
    const Status valid = validate(options);
    return valid.ok() ? std::string() : valid.error().message;
  };
  EXPECT_EQ(said([](Options&) {}), "");
  EXPECT_EQ(said([](Options& o) { o.label_smoothing = 1; }),
            "resnet: label_smoothing is 1, expected at least 0 and below 1");
  EXPECT_THAT(said([](Options& o) { o.blocks = {}; }), HasSubstr("blocks"));
  EXPECT_THAT(said([](Options& o) { o.blocks = {2, 0}; }), HasSubstr("blocks is 0"));
  EXPECT_THAT(said([](Options& o) { o.classes = 1; }), HasSubstr("classes is 1"));
  EXPECT_THAT(said([](Options& o) { o.filters = 0; }), HasSubstr("filters is 0"));
  EXPECT_THAT(said([](Options& o) { o.batch_norm_momentum = 0; }), HasSubstr("batch_norm_momentum"));
  Graph graph(2);
  network(graph, graph.group(kGroup), resnet20(), graph.input("image", {8, 8, 1}), {});
  EXPECT_THAT(graph.status().error().message, HasSubstr("resnet: images of [2, 8, 8, 1], expected rows of [8, 8, 3]"));
}

}  // namespace
}  // namespace troupe::learner::resnet
