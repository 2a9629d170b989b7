// Pooling, resizing and modulation: forward values against plain loops and known numbers. Gradients: gradient_test.cpp;
// instruction sets and storage: image_kernels_test.cpp.
#include <troupe/learner/ops/image.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include <troupe/core/rng.hpp>
#include <troupe/learner/engine/program.hpp>
#include <troupe/learner/ops/pooling.hpp>
#include <troupe/learner/ops/reduce.hpp>
#include <troupe/learner/ops/resize.hpp>

namespace troupe::learner {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr std::int64_t kBatch = 3;

std::vector<float> run(const std::function<Var(Var)>& build, const Shape& image, const std::vector<float>& x,
                       std::int64_t batch, int stripes = 1) {
  Graph graph(batch);
  graph.output("y", build(graph.input("x", image)));
  const auto program = Program::compile(graph, {.stripes = stripes}).value();
  program->bind("x", std::span<const float>(x)).value();
  program->run().value();
  const auto y = program->output("y");
  return {y.begin(), y.end()};
}

std::vector<float> random(std::int64_t count) {
  Rng rng(4);
  std::vector<float> values(static_cast<std::size_t>(count));
  for (float& value : values) value = static_cast<float>(rng.normal());
  return values;
}

TEST(Pooling, AgreesWithPlainLoops) {
  const std::int64_t h = 7, w = 6, c = 5;
  const std::vector<float> x = random(kBatch * h * w * c);
  for (const PoolOptions& options :
       {PoolOptions{}, {.kernel = 3, .stride = 2, .padding = 1}, {.kernel = 4, .stride = 1}}) {
    const std::int64_t oh = (h + 2 * options.padding - options.kernel) / options.stride + 1;
    const std::int64_t ow = (w + 2 * options.padding - options.kernel) / options.stride + 1;
    for (const bool maximum : {false, true}) {
      const auto y = run([&](Var v) { return maximum ? max_pool(v, options) : average_pool(v, options); }, {h, w, c}, x,
                         kBatch, 2);
      ASSERT_EQ(std::ssize(y), kBatch * oh * ow * c);
      for (std::int64_t at = 0; at < std::ssize(y); ++at) {
        const std::int64_t channel = at % c, column = at / c % ow, row = at / c / ow % oh, image = at / c / ow / oh;
        double sum = 0, best = -std::numeric_limits<double>::infinity();
        for (std::int64_t i = 0; i < options.kernel * options.kernel; ++i) {
          const std::int64_t r = row * options.stride - options.padding + i / options.kernel;
          const std::int64_t s = column * options.stride - options.padding + i % options.kernel;
          if (r < 0 || r >= h || s < 0 || s >= w) continue;
          const float value = x[static_cast<std::size_t>(((image * h + r) * w + s) * c + channel)];
          sum += value;
          best = std::max<double>(best, value);
        }
        const double expected = maximum ? best : sum / static_cast<double>(options.kernel * options.kernel);
        EXPECT_NEAR(y[static_cast<std::size_t>(at)], expected, 1e-6) << at;
      }
    }
  }
}

TEST(Pooling, SendsTheGradientToTheFirstMaximumAndLetsNaNPass) {
  Graph graph(1);
  const Var x = graph.input("x", {2, 3, 1});
  const Var y = max_pool(x, {.kernel = 2, .stride = 1});
  graph.output("y", y);
  graph.output("gradient", graph.gradients(sum(y), std::array{x})[0]);
  const auto program = Program::compile(graph, {}).value();
  const std::vector<float> ties{5, 5, 1, 5, 0, 5};
  program->bind("x", std::span<const float>(ties)).value();
  program->run().value();
  EXPECT_THAT(program->output("y"), ElementsAre(5, 5));
  EXPECT_THAT(program->output("gradient"), ElementsAre(1, 1, 0, 0, 0, 0));
  const std::vector<float> broken{5, 5, 1, std::nanf(""), 0, 7};
  program->bind("x", std::span<const float>(broken)).value();
  program->run().value();
  EXPECT_TRUE(std::isnan(program->output("y")[0]));
  EXPECT_EQ(program->output("y")[1], 7);
}

TEST(Pooling, OverWholeImages) {
  const std::vector<float> x{1, 10, 2, 20, 3, 30, 4, 40};
  EXPECT_THAT(run([](Var v) { return global_mean(v); }, {2, 2, 2}, x, 1), ElementsAre(2.5F, 25));
  EXPECT_THAT(run([](Var v) { return global_sum(v); }, {2, 1, 2}, x, 2), ElementsAre(3, 30, 7, 70));
}

TEST(Resize, GivesWhatPyTorchGives) {
  // torch.nn.functional.interpolate of [[0, 1, 2], [3, 4, 5]].
  const std::vector<float> x{0, 1, 2, 3, 4, 5};
  EXPECT_THAT(run([](Var v) { return resize_nearest(v, 4, 6); }, {2, 3, 1}, x, 1),
              ElementsAre(0, 0, 1, 1, 2, 2, 0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 3, 3, 4, 4, 5, 5));
  EXPECT_THAT(run([](Var v) { return resize_nearest(v, 1, 2); }, {2, 3, 1}, x, 1), ElementsAre(0, 1));
  EXPECT_THAT(run([](Var v) { return resize_bilinear(v, 4, 3); }, {2, 3, 1}, x, 1),
              ElementsAre(0, 1, 2, 0.75F, 1.75F, 2.75F, 2.25F, 3.25F, 4.25F, 3, 4, 5));
  EXPECT_THAT(run([](Var v) { return resize_bilinear(v, 1, 1); }, {2, 3, 1}, x, 1), ElementsAre(2.5F));
  EXPECT_THAT(run([](Var v) { return resize_bilinear(v, 2, 6); }, {2, 3, 1}, x, 1),
              ElementsAre(0, 0.25F, 0.75F, 1.25F, 1.75F, 2, 3, 3.25F, 3.75F, 4.25F, 4.75F, 5));
}

TEST(Modulate, HasAGainAndAnOffsetForEachExampleAndChannel) {
  Graph graph(2);
  graph.output("y", modulate(graph.input("x", {1, 2, 2}), graph.input("gain", {2}), graph.input("offset", {2}),
                             Activation::kRelu));
  const auto program = Program::compile(graph, {}).value();
  const std::vector<float> x{1, 2, 3, 4, 5, 6, 7, 8}, gain{1, -1, 2, 0}, offset{0, 3, -11, 4};
  program->bind("x", std::span<const float>(x)).value();
  program->bind("gain", std::span<const float>(gain)).value();
  program->bind("offset", std::span<const float>(offset)).value();
  program->run().value();
  EXPECT_THAT(program->output("y"), ElementsAre(1, 1, 3, 0, 0, 4, 3, 4));
}

TEST(AddActivation, IsTheEndOfAResidualBlock) {
  EXPECT_THAT(run([](Var v) { return add_activation(v, v); }, {2}, {-1, 2}, 1), ElementsAre(0, 4));
}

TEST(ImageOps, SayWhatTheyExpected) {
  const auto said = [](const std::function<void(Var, Var)>& build) {
    Graph graph(2);
    build(graph.input("image", {4, 4, 3}), graph.input("row", {3}));
    return graph.status().ok() ? std::string() : graph.status().error().message;
  };
  EXPECT_EQ(said([](Var, Var row) { average_pool(row); }),
            "average_pool: got [2, 3], expected an image [n, h, w, c], not a sum over stripes");
  EXPECT_THAT(said([](Var image, Var) { max_pool(image, {.kernel = 17, .stride = 1}); }),
              HasSubstr("max_pool: kernel 17, stride 1 and padding 0, expected a kernel from 1 to 16"));
  EXPECT_THAT(said([](Var image, Var) { max_pool(image, {.kernel = 2, .stride = 1, .padding = 2}); }),
              HasSubstr("at most half a kernel of padding"));
  EXPECT_THAT(said([](Var image, Var) { average_pool(image, {.kernel = 5, .stride = 1}); }),
              HasSubstr("at least 5x5 pixels with padding 0"));
  EXPECT_THAT(said([](Var image, Var) { resize_nearest(image, 0, 3); }), HasSubstr("to 0x3, expected"));
  EXPECT_THAT(said([](Var image, Var row) { modulate(image, row, image); }),
              HasSubstr("a gain and an offset [n, c], all split by rows"));
  EXPECT_THAT(said([](Var image, Var row) { add_activation(image, row); }), HasSubstr("one shape, split alike"));
  EXPECT_EQ(said([](Var image, Var row) { modulate(image, row, row); }), "");
}

}  // namespace
}  // namespace troupe::learner
