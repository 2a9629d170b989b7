// Convolutions: values and gradients of every back end and type against plain loops. Gradients against differences:
// gradient_test.cpp.
#include <troupe/learner/ops/convolution.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include <troupe/core/rng.hpp>
#include <troupe/learner/engine/cpu/kernels/kernel_table.hpp>
#include <troupe/learner/engine/program.hpp>
#include <troupe/learner/ops/pooling.hpp>
#include <troupe/learner/ops/reduce.hpp>
#include <troupe/learner/ops/resize.hpp>
#include <troupe/learner/ops/spectral_norm.hpp>

namespace troupe::learner {
namespace {

struct Case {
  std::int64_t batch, height, width, in, kernel_h, kernel_w, out, stride, padding;
};
// A first layer of few channels, sizes that fill vectors and such that do not, all strides and kernels of ResNets.
constexpr Case kCases[] = {
    {3, 8, 8, 16, 3, 3, 32, 1, 1},  {2, 9, 7, 3, 3, 3, 16, 1, 1},  {2, 8, 8, 1, 3, 3, 8, 1, 1},
    {3, 8, 8, 32, 3, 3, 16, 2, 1},  {2, 8, 8, 16, 1, 1, 48, 1, 0}, {2, 8, 8, 16, 1, 1, 32, 2, 0},
    {2, 20, 20, 3, 7, 7, 16, 2, 3}, {1, 5, 6, 5, 2, 3, 7, 1, 0},   {5, 4, 4, 64, 3, 3, 1, 1, 1},
};

struct Reference {
  std::vector<double> y, dx, dw, db;
};

/// y = x * w + b, with a slope below 0, and the gradients of sum(y * g).
Reference reference(const Case& c, double slope, const std::vector<float>& x, const std::vector<float>& w,
                    const std::vector<float>& b, const std::vector<float>& g) {
  const std::int64_t oh = (c.height + 2 * c.padding - c.kernel_h) / c.stride + 1;
  const std::int64_t ow = (c.width + 2 * c.padding - c.kernel_w) / c.stride + 1;
  Reference r;
  r.y.resize(static_cast<std::size_t>(c.batch * oh * ow * c.out));
  r.dx.resize(x.size());
  r.dw.resize(w.size());
  r.db.resize(b.size());
  const auto over_kernel = [&](std::int64_t n, std::int64_t i, std::int64_t j, auto&& f) {
    for (std::int64_t k = 0; k < c.kernel_h; ++k) {
      for (std::int64_t l = 0; l < c.kernel_w; ++l) {
        const std::int64_t row = i * c.stride - c.padding + k, col = j * c.stride - c.padding + l;
        if (row < 0 || row >= c.height || col < 0 || col >= c.width) continue;
        for (std::int64_t e = 0; e < c.in; ++e) {
          f(static_cast<std::size_t>(((n * c.height + row) * c.width + col) * c.in + e),
            static_cast<std::size_t>(((k * c.kernel_w + l) * c.in + e) * c.out));
        }
      }
    }
  };
  for (std::int64_t n = 0; n < c.batch; ++n) {
    for (std::int64_t i = 0; i < oh; ++i) {
      for (std::int64_t j = 0; j < ow; ++j) {
        for (std::size_t o = 0; o < static_cast<std::size_t>(c.out); ++o) {
          const std::size_t at = static_cast<std::size_t>(((n * oh + i) * ow + j) * c.out) + o;
          double sum = b[o];
          over_kernel(n, i, j, [&](std::size_t from, std::size_t weight) { sum += double{x[from]} * w[weight + o]; });
          r.y[at] = sum > 0 ? sum : slope * sum;
          const double d = g[at] * (sum > 0 ? 1 : slope);
          r.db[o] += d;
          over_kernel(n, i, j, [&](std::size_t from, std::size_t weight) {
            r.dx[from] += d * w[weight + o];
            r.dw[weight + o] += d * x[from];
          });
        }
      }
    }
  }
  return r;
}

/// The largest difference, in parts of the largest value.
double difference(std::span<const float> got, const std::vector<double>& expected) {
  EXPECT_EQ(got.size(), expected.size());
  double largest = 0, scale = 1e-30;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    largest = std::max(largest, std::abs(got[i] - expected[i]));
    scale = std::max(scale, std::abs(expected[i]));
  }
  return largest / scale;
}

/// With a bias, and an activation that may follow it, or with neither.
void check(const Case& c, bool bias, Activation activation, const CompileOptions& options, double tolerance) {
  SCOPED_TRACE(::testing::Message() << c.height << "x" << c.width << "x" << c.in << " kernel " << c.kernel_h << "x"
                                    << c.kernel_w << "x" << c.out << " stride " << c.stride << ", " << options.stripes
                                    << " stripes");
  Graph graph(c.batch);
  const Var x = graph.input("x", {c.height, c.width, c.in});
  const Var w = graph.shared_input("w", {c.kernel_h, c.kernel_w, c.in, c.out}), b = graph.shared_input("b", {c.out});
  const ConvOptions how{.stride = c.stride, .padding = c.padding, .activation = activation};
  const Var y = bias ? conv2d(x, w, b, how) : conv2d(x, w, how);
  const Shape shape = graph.spec(y).shape;
  const Var g = graph.input("g", {shape[1], shape[2], shape[3]});
  const Var wrt[] = {x, w, b};
  const std::vector<Var> grads = graph.gradients(sum(mul(y, g)), wrt);
  graph.output("y", y);
  graph.output("dx", grads[0]);
  graph.output("dw", grads[1]);
  graph.output("db", grads[2]);
  const auto program = Program::compile(graph, options).value();

  Rng rng(7);
  const auto random = [&](std::int64_t count) {
    std::vector<float> values(static_cast<std::size_t>(count));
    for (float& value : values) value = static_cast<float>(rng.normal());
    return values;
  };
  std::vector<float> xs = random(c.batch * c.height * c.width * c.in),
                     ws = random(c.kernel_h * c.kernel_w * c.in * c.out), bs = random(c.out),
                     gs = random(shape.elements());
  if (!bias) bs.assign(bs.size(), 0);
  program->bind("x", std::span<const float>(xs)).value();
  program->bind("w", std::span<const float>(ws)).value();
  program->bind("b", std::span<const float>(bs)).value();
  program->bind("g", std::span<const float>(gs)).value();
  const Reference expected = reference(c, activation == Activation::kNone ? 1 : 0.1, xs, ws, bs, gs);
  for (int run = 0; run < 2; ++run) {  // nothing is left over from the first one
    program->run().value();
    EXPECT_LT(difference(program->output("y"), expected.y), tolerance);
    EXPECT_LT(difference(program->output("dx"), expected.dx), tolerance);
    EXPECT_LT(difference(program->output("dw"), expected.dw), tolerance);
    if (bias) {
      EXPECT_LT(difference(program->output("db"), expected.db), tolerance);
    }
  }
}

TEST(Convolution, GivesWhatItsDefinitionSaysInEachBackEnd) {
  for (const ComputeBy by : {ComputeBy(GemmBackend::kAuto), ComputeBy(GemmBackend::kEigen),
                             ComputeBy(GemmBackend::kAuto, PlanChoice::kMeasured)}) {
    for (const Case& c : kCases) {
      // A sum of up to 600 products: 1e-5 is 200 roundings of float32.
      for (const int stripes : {1, 2}) {
        if (stripes > c.batch) continue;
        const CompileOptions options{.stripes = stripes, .gemm = by.backend, .plans = by.choice};
        check(c, true, Activation::kLeakyRelu, options, 1e-5);
        check(c, false, Activation::kNone, options, 1e-5);
      }
    }
  }
}

TEST(Convolution, ComputesInBfloat16WithSumsInFloat32) {
  // Operands have 8 bits, so has what is stored between: a few parts of 256 of the largest. Without an activation,
  // because where rounding changes a sign the slope is another one.
  for (const GemmBackend backend : {GemmBackend::kAuto, GemmBackend::kEigen}) {
    for (const Case& c : kCases) {
      check(c, true, Activation::kNone, {.compute = DType::kBF16, .gemm = backend}, 0.02);
      check(c, false, Activation::kNone, {.compute = DType::kBF16, .gemm = backend}, 0.02);
    }
  }
}

TEST(Convolution, RoundsItsOperandsToBfloat16BeforeItMultipliesThem) {
  // One weight for two layers, with and without a bias: one of them may want it packed and the other as it is.
  const auto results = [](const Case& c, GemmBackend backend, bool rounded) {
    Graph graph(c.batch);
    const Var x = graph.input("x", {c.height, c.width, c.in});
    const Var w = graph.shared_input("w", {c.kernel_h, c.kernel_w, c.in, c.out}), b = graph.shared_input("b", {c.out});
    const ConvOptions how{.stride = c.stride, .padding = c.padding};
    const Var plain = conv2d(x, w, how), biased = conv2d(x, w, b, how);
    const Var wrt[] = {x, w};
    const std::vector<Var> grads = graph.gradients(add(sum(square(plain)), sum(biased)), wrt);
    graph.output("plain", plain);
    graph.output("biased", biased);
    graph.output("dx", grads[0]);
    graph.output("dw", grads[1]);
    const auto program = Program::compile(graph, {.compute = DType::kBF16, .gemm = backend}).value();
    Rng rng(3);
    std::map<std::string, std::vector<float>> inputs;
    for (const auto& [name, count] : {std::pair{"x", c.batch * c.height * c.width * c.in},
                                      {"w", c.kernel_h * c.kernel_w * c.in * c.out},
                                      {"b", c.out}}) {
      std::vector<float>& values = inputs[name];
      for (std::int64_t i = 0; i < count; ++i) values.push_back(static_cast<float>(rng.normal()));
      if (rounded && name[0] != 'b') kernels_f32().round_bf16(values.data(), values.data(), 0, count);
      program->bind(name, std::span<const float>(values)).value();
    }
    program->run().value();
    std::vector<float> all;
    for (const char* name : {"plain", "biased", "dx", "dw"}) {
      const std::span<const float> values = program->output(name);
      all.insert(all.end(), values.begin(), values.end());
    }
    return all;
  };
  for (const GemmBackend backend : {GemmBackend::kAuto, GemmBackend::kEigen}) {
    for (const Case& c : kCases) {
      EXPECT_EQ(results(c, backend, false), results(c, backend, true)) << c.height << "x" << c.kernel_h << "x" << c.in;
    }
  }
}

TEST(Convolution, RefusesWhatDoesNotFit) {
  const auto message = [](std::initializer_list<std::int64_t> image, std::initializer_list<std::int64_t> weight,
                          const ConvOptions& options) {
    Graph graph(2);
    conv2d(graph.input("x", Shape(image)), graph.shared_input("w", Shape(weight)), options);
    return graph.status().ok() ? std::string() : graph.status().error().message;
  };
  EXPECT_EQ(message({4, 4, 3}, {3, 3, 3, 8}, {}), "");
  EXPECT_THAT(message({4, 4, 3}, {3, 3, 4, 8}, {}), ::testing::HasSubstr("got [2, 4, 4, 3] and [3, 3, 4, 8]"));
  EXPECT_THAT(message({4, 3}, {3, 3, 3, 8}, {}), ::testing::HasSubstr("[n, height, width, in]"));
  EXPECT_THAT(message({2, 4, 3}, {3, 3, 3, 8}, {}), ::testing::HasSubstr("no smaller than the kernel"));
  EXPECT_THAT(message({4, 4, 3}, {3, 3, 3, 8}, {.stride = 0}), ::testing::HasSubstr("stride 0"));
}

TEST(Convolution, AtAnotherSizeIsAConvolutionAndAResize) {
  for (const DType compute : {DType::kF32, DType::kBF16}) {
    Graph graph(3);
    const Shape row{6, 8, 5};
    const Var x = graph.input("x", row), w = graph.shared_input("w", {3, 3, 5, 7}), b = graph.shared_input("b", {7});
    const auto compare = [&](const std::string& name, Var fast, Var slow) {
      const Var wrt[] = {x, w};
      const std::vector<Var> of_fast = graph.gradients(sum(square(fast)), wrt);
      const std::vector<Var> of_slow = graph.gradients(sum(square(slow)), wrt);
      for (const auto& [what, a, c] :
           {std::tuple{"", fast, slow}, {"/dx", of_fast[0], of_slow[0]}, {"/dw", of_fast[1], of_slow[1]}}) {
        graph.output(name + what + "/fast", a);
        graph.output(name + what + "/slow", c);
      }
    };
    compare("up", upsampled_conv2d(x, w), conv2d(resize_nearest(x, 12, 16), w, {.padding = 1}));
    compare("down", downsampled_conv2d(x, w, b), average_pool(conv2d(x, w, b, {.padding = 1})));
    const auto program = Program::compile(graph, {.stripes = 2, .compute = compute}).value();
    Rng rng(5);
    std::map<std::string, std::vector<float>> values;
    for (const auto& [name, count] : {std::pair{"x", 3 * 6 * 8 * 5}, {"w", 3 * 3 * 5 * 7}, {"b", 7}}) {
      std::vector<float>& of = values[name];
      for (int i = 0; i < count; ++i) of.push_back(static_cast<float>(rng.normal()));
      program->bind(name, std::span<const float>(of)).value();
    }
    program->run().value();
    for (const char* what : {"up", "up/dx", "up/dw", "down", "down/dx", "down/dw"}) {
      const std::span<const float> slow = program->output(what + std::string("/slow"));
      const std::vector<double> expected(slow.begin(), slow.end());
      // Sums of 45 to 400 products; bfloat16 keeps 8 bits of what stands between.
      EXPECT_LT(difference(program->output(what + std::string("/fast")), expected),
                compute == DType::kF32 ? 1e-5 : 0.03)
          << what;
    }
  }
  Graph graph(2);
  downsampled_conv2d(graph.input("x", {5, 4, 3}), graph.shared_input("w", {3, 3, 3, 8}), graph.shared_input("b", {8}));
  EXPECT_THAT(graph.status().error().message, ::testing::HasSubstr("downsampled_conv2d: got [2, 5, 4, 3]"));
}

TEST(Convolution, PacksAWeightOnceForAllPassesOfAStep) {
  if (resolve(GemmBackend::kAuto) != GemmBackend::kOneDnn) GTEST_SKIP() << "only oneDNN packs";
  Graph graph(4);
  const Shape row{8, 8, 16};
  const Var weight = graph.param(graph.group("net"), "w", {3, 3, 16, 16}, Init::normal(0.1));
  const auto layer = [&](Var x) { return conv2d(x, weight, {.padding = 1, .activation = Activation::kRelu}); };
  graph.metric("loss", mean(layer(layer(graph.input("x", row)))));
  const auto program = Program::compile(graph, {}).value();
  program->set_timing(true);
  const std::vector<float> x(4 * 8 * 8 * 16, 1.0F);
  program->bind("x", std::span<const float>(x)).value();
  program->run().value();
  EXPECT_THAT(program->report(), ::testing::ContainsRegex("pack_weight +1 "));
}

}  // namespace
}  // namespace troupe::learner
