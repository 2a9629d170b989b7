// Every op that has a mapping computes the same in onnxruntime, to 1e-5, for two sizes of the batch.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <string>

#include <troupe/core/atomic_file.hpp>
#include <troupe/learner/export/examples.hpp>
#include <troupe/learner/export/onnx.hpp>
#include <troupe/learner/ops/batch_norm.hpp>
#include <troupe/learner/ops/broadcast.hpp>
#include <troupe/learner/ops/categorical.hpp>
#include <troupe/learner/ops/choice.hpp>
#include <troupe/learner/ops/convolution.hpp>
#include <troupe/learner/ops/embedding.hpp>
#include <troupe/learner/ops/gradient.hpp>
#include <troupe/learner/ops/image.hpp>
#include <troupe/learner/ops/linear.hpp>
#include <troupe/learner/ops/math.hpp>
#include <troupe/learner/ops/norm.hpp>
#include <troupe/learner/ops/pooling.hpp>
#include <troupe/learner/ops/reduce.hpp>
#include <troupe/learner/ops/resize.hpp>
#include <troupe/learner/ops/shaping.hpp>
#include <troupe/tests/paths.hpp>

namespace troupe::learner {
namespace {

constexpr std::int64_t kRows = 4;

/// A graph whose parameters are all of a size of 1, exported and run by onnxruntime.
class OnnxRuntime : public ::testing::Test {
 protected:
  OnnxRuntime() : folder_(std::filesystem::path(testing::TempDir()) / "onnx") {
    std::filesystem::create_directories(folder_);
  }
  ~OnnxRuntime() override { std::filesystem::remove_all(folder_); }

  Var param(const char* name, const Shape& shape, double deviation = 0.5) {
    return graph_.param(graph_.group("net"), name, shape, Init::normal(deviation));
  }
  Var out(const std::string& name, Var value) {
    graph_.output(name, value);
    return value;
  }

  void expect_the_same() {
    const char* python = std::getenv("TROUPE_TEST_PYTHON");
    if (python == nullptr || *python == '\0') {
      GTEST_SKIP() << "TROUPE_TEST_PYTHON is not set (tools/python_env.sh test)";
    }
    const auto program = Program::compile(graph_, {}).value();
    const std::string model = to_onnx(graph_, *program, {.name = "ops"}).value();
    const auto examples = encode_example(run_example(graph_, *program, 1).value()).value();
    const std::string model_file = folder_ / "ops.onnx", example_file = folder_ / "ops.safetensors";
    write_file_atomic(model_file, model).value();
    write_file_atomic(example_file, examples).value();
    const std::string command = std::string(python) + " -IB " + source_dir() + "/tests/learner/export/onnx_peer.py " +
                                model_file + " " + example_file + " 2>&1";
    std::string said;
    FILE* const pipe = popen(command.c_str(), "r");
    ASSERT_NE(pipe, nullptr);
    for (int c = 0; (c = std::fgetc(pipe)) != EOF;) said += static_cast<char>(c);
    const int status = pclose(pipe);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 77) GTEST_SKIP() << said;
    EXPECT_EQ(status, 0) << said;
  }

  std::filesystem::path folder_;
  Graph graph_{kRows};
};

TEST_F(OnnxRuntime, ComputesWhatLayersDo) {
  const Var x = graph_.input("x", {6});
  for (const auto kind : {Activation::kNone, Activation::kTanh, Activation::kElu, Activation::kRelu,
                          Activation::kSigmoid, Activation::kLeakyRelu}) {
    out("activation" + std::to_string(static_cast<int>(kind)), activation(x, kind));
  }
  const Var hidden = out("linear", linear(x, param("w", {6, 5}), param("b", {5}), Activation::kTanh));
  out("transposed", matmul(hidden, param("v", {7, 5}), false, true));
  out("biased", bias_activation(hidden, param("c", {5}), Activation::kElu));
  out("layer_norm", layer_norm(hidden, param("d", {5}), param("e", {5}), param("f", {5}), Activation::kRelu));
  const Var mean = graph_.state("mean", {5}, Init::normal(1)),
            variance = graph_.state("variance", {5}, Init::constant(2));
  out("batch_norm", batch_norm(hidden, param("g", {5}), param("h", {5}), mean, variance,
                               {.training = false, .activation = Activation::kLeakyRelu}));
  out("softmax", softmax(hidden));
  out("log_softmax", log_softmax(hidden));
  const Var label = graph_.input("label", {}, DType::kI32);
  out("embedding", embedding(param("table", {10, 5}), label));
  expect_the_same();
}

TEST_F(OnnxRuntime, ComputesWhatElementwiseOpsAndShapesDo) {
  const Var x = graph_.input("x", {6}), y = graph_.input("y", {6});
  out("add", add(x, y));
  out("sub", sub(x, y));
  out("mul", mul(x, y));
  out("affine", affine(x, 2, -1));
  out("scale", scale(x, 3));
  out("clip", clip(x, -0.5, 0.25));
  out("concat", concat(x, slice(y, 1, 4)));
  out("reshape", reshape(x, {kRows, 3, 2}));
  out("more_rows", reshape(x, {kRows * 2, 3}));
  out("sum_last", sum_last(stop_gradient(x)));
  expect_the_same();
}

TEST_F(OnnxRuntime, ComputesWhatFunctionsAndChoicesDo) {
  const Var x = graph_.input("x", {6}), y = graph_.input("y", {6}), deep = graph_.input("deep", {3, 4});
  const Var positive = out("exp", exp(x));
  out("log", log(positive));
  out("sqrt", sqrt(positive));
  out("abs", abs(x));
  out("softplus", softplus(x));
  out("div", div(y, positive));
  out("minimum", minimum(x, y));
  out("maximum", maximum(x, y));
  out("greater", greater(x, y));
  out("where", where(greater(x, y), y, x));
  const Var index = graph_.input("label", {}, DType::kI32);
  out("gather", gather(graph_.input("choices", {10}), index));
  out("gather_rows", gather(graph_.input("deep_choices", {10, 2}), index));
  out("row", add(x, param("row", {6})));
  out("scalar", mul(x, param("scalar", {})));
  out("column", sub(deep, reshape(sum_last(x), {kRows, 1, 1})));
  out("spread", reshape(concat(broadcast(param("b", {6}), x), x), {kRows, 3, 4}));
  out("sum_to", sum_to(deep, {kRows, 1, 4}));
  out("log_sum_exp", log_sum_exp(deep));
  expect_the_same();
}

TEST_F(OnnxRuntime, ComputesWhatIsMadeOfBytes) {
  const Var image = graph_.input("image", {9, 7, 3}, DType::kU8);
  out("plain", from_bytes(image));
  out("scaled", from_bytes(image, 1.0 / 255, -0.5));
  expect_the_same();
}

TEST_F(OnnxRuntime, ComputesWhatConvolutionsDo) {
  const Var image = graph_.input("image", {9, 7, 3});
  const Var first = out("conv", conv2d(image, param("w", {3, 3, 3, 8}), param("b", {8}),
                                       {.padding = 1, .activation = Activation::kRelu}));
  out("strided", conv2d(first, param("v", {3, 1, 8, 4}), {.stride = 2, .activation = Activation::kTanh}));
  out("upsampled", upsampled_conv2d(image, param("u", {3, 3, 3, 5})));
  out("downsampled", downsampled_conv2d(resize_nearest(image, 18, 14), param("d", {3, 3, 3, 5}), param("e", {5})));
  const Var mean = graph_.state("mean", {8}, Init::normal(1)),
            variance = graph_.state("variance", {8}, Init::constant(2));
  out("batch_norm", batch_norm(first, param("g", {8}), param("h", {8}), mean, variance, {.training = false}));
  expect_the_same();
}

TEST_F(OnnxRuntime, ComputesWhatImageOpsDo) {
  const Var image = graph_.input("image", {9, 7, 3}), other = graph_.input("other", {9, 7, 3});
  out("added", add_activation(image, other, Activation::kRelu));
  const Var gain = graph_.input("gain", {3}), offset = graph_.input("offset", {3});
  out("modulated", modulate(image, gain, offset, Activation::kTanh));
  out("modulated_row", modulate(gain, offset, gain));
  out("average", average_pool(image, {.kernel = 3, .stride = 2, .padding = 1}));
  out("halves", average_pool(image));
  out("maximum", max_pool(image, {.kernel = 3, .stride = 2, .padding = 1}));
  out("mean", global_mean(image));
  out("sum", global_sum(image));
  out("twice", resize_nearest(image, 18, 14));
  out("other_size", resize_nearest(image, 5, 11));
  out("smooth", resize_bilinear(image, 18, 14));
  out("smooth_other_size", resize_bilinear(image, 5, 11));
  expect_the_same();
}

}  // namespace
}  // namespace troupe::learner
