// The structure of ONNX models: what each op becomes, and the bytes around it, read back by a few lines of their own.
// That runtimes compute the same is shown by tests/apps/export_test.py.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <map>
#include <string>
#include <vector>

#include <troupe/core/proto_writer.hpp>
#include <troupe/learner/export/onnx.hpp>
#include <troupe/learner/ops/batch_norm.hpp>
#include <troupe/learner/ops/categorical.hpp>
#include <troupe/learner/ops/convolution.hpp>
#include <troupe/learner/ops/embedding.hpp>
#include <troupe/learner/ops/gradient.hpp>
#include <troupe/learner/ops/linear.hpp>
#include <troupe/learner/ops/norm.hpp>
#include <troupe/learner/ops/reduce.hpp>
#include <troupe/learner/ops/shaping.hpp>

namespace troupe::learner {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::UnorderedElementsAre;

/// The fields of a message, in the order of the bytes.
struct Field {
  int number = 0;
  std::uint64_t value = 0;  ///< of whole numbers, and the bits of floats
  std::string bytes;        ///< of strings and messages
};

std::uint64_t read_varint(const std::string& bytes, std::size_t& at) {
  std::uint64_t value = 0;
  for (int shift = 0;; shift += 7) {
    const auto byte = static_cast<unsigned char>(bytes.at(at++));
    value |= static_cast<std::uint64_t>(byte & 0x7f) << shift;
    if (byte < 0x80) return value;
  }
}

std::vector<Field> fields(const std::string& bytes) {
  std::vector<Field> all;
  for (std::size_t at = 0; at < bytes.size();) {
    const std::uint64_t tag = read_varint(bytes, at);
    Field& field = all.emplace_back();
    field.number = static_cast<int>(tag >> 3);
    if ((tag & 7) == 0) {
      field.value = read_varint(bytes, at);
    } else if ((tag & 7) == 5) {
      std::uint32_t bits = 0;
      std::memcpy(&bits, bytes.data() + at, 4);
      field.value = bits;
      at += 4;
    } else {
      const std::uint64_t size = read_varint(bytes, at);
      field.bytes = bytes.substr(at, size);
      at += size;
    }
  }
  return all;
}

std::vector<std::string> strings(const std::string& message, int number) {
  std::vector<std::string> found;
  for (const Field& field : fields(message)) {
    if (field.number == number) found.push_back(field.bytes);
  }
  return found;
}

/// What the tests look at, by the field numbers of onnx.proto.
struct Model {
  std::vector<std::string> ops;                           ///< of the nodes, in order
  std::vector<std::vector<std::string>> in;               ///< names of their operands
  std::vector<std::string> out;                           ///< and of their results
  std::map<std::string, std::vector<std::int64_t>> dims;  ///< of the initialisers
  std::map<std::string, std::string> raw;                 ///< and their bytes
  std::vector<std::string> inputs, outputs;               ///< "observation[batch,3]"
};

std::string port(const std::string& info) {
  std::string text = strings(info, 1).at(0) + "[";
  const std::string shape = strings(strings(strings(info, 2).at(0), 1).at(0), 2).at(0);
  for (const std::string& dimension : strings(shape, 1)) {
    const Field size = fields(dimension).at(0);
    text += (text.back() == '[' ? "" : ",") + (size.number == 2 ? size.bytes : std::to_string(size.value));
  }
  return text + "]";
}

Model parse(const std::string& file) {
  Model model;
  const std::string graph = strings(file, 7).at(0);
  for (const std::string& node : strings(graph, 1)) {
    model.ops.push_back(strings(node, 4).at(0));
    model.in.push_back(strings(node, 1));
    model.out.push_back(strings(node, 2).at(0));
  }
  for (const std::string& tensor : strings(graph, 5)) {
    std::vector<std::int64_t> dims;
    for (const Field& field : fields(tensor)) {
      if (field.number == 1) dims.push_back(static_cast<std::int64_t>(field.value));
    }
    const std::string name = strings(tensor, 8).at(0);
    model.dims[name] = dims;
    model.raw[name] = strings(tensor, 9).at(0);
  }
  for (const std::string& info : strings(graph, 11)) model.inputs.push_back(port(info));
  for (const std::string& info : strings(graph, 12)) model.outputs.push_back(port(info));
  return model;
}

/// A graph for two rows with an input x of [rows, 3] and a group "net".
class Onnx : public ::testing::Test {
 protected:
  Var param(const char* name, const Shape& shape) {
    return graph_.param(graph_.group("net"), name, shape, Init::normal(1));
  }
  Result<std::string> file() {
    TROUPE_ASSIGN(const auto program, Program::compile(graph_, {}));
    return to_onnx(graph_, *program, {.name = "net", .producer_version = "1", .metadata = {{"step", "7"}}});
  }
  Model model() { return parse(file().value()); }
  /// The ops that `value` becomes.
  std::vector<std::string> ops(Var value) {
    graph_.output("y", value);
    return model().ops;
  }

  Graph graph_{2};
  Var x_ = graph_.input("x", {3});
};

TEST(ProtoWriter, WritesTheBytesOfTheSpecification) {
  ProtoWriter inner;
  inner.add_int(1, 150);
  EXPECT_EQ(inner.bytes(), "\x08\x96\x01");
  ProtoWriter outer;
  outer.add_string(2, "testing");
  outer.add_message(3, inner);
  EXPECT_EQ(outer.bytes(), std::string("\x12\x07testing\x1a\x03\x08\x96\x01"));
  ProtoWriter odd;
  odd.add_int(20, -1);  // ten bytes, the tag two
  odd.add_float(2, 1);
  EXPECT_EQ(odd.bytes(), std::string("\xa0\x01\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01\x15\x00\x00\x80\x3f", 17));
}

TEST_F(Onnx, ModelSaysItsVersionsAndWhatElseReadersAreTold) {
  graph_.output("y", tanh(x_));
  const std::string bytes = file().value();
  std::map<int, Field> by_number;
  for (const Field& field : fields(bytes)) by_number[field.number] = field;
  EXPECT_EQ(by_number[1].value, 8U);
  EXPECT_EQ(by_number[2].bytes, "troupe");
  const auto opset = fields(by_number[8].bytes);
  ASSERT_EQ(opset.size(), 1U) << "no domain but ai.onnx";
  EXPECT_EQ(opset[0].value, 18U);
  EXPECT_THAT(strings(by_number[14].bytes, 1), ElementsAre("step"));
  EXPECT_THAT(strings(by_number[14].bytes, 2), ElementsAre("7"));
}

TEST_F(Onnx, LinearLayerIsAProductWithNamedParametersForAnyNumberOfRows) {
  const Var weight = param("layer0/weight", {3, 4}), bias = param("layer0/bias", {4});
  graph_.output("action", linear(x_, weight, bias, Activation::kTanh));
  const Model model = this->model();
  EXPECT_THAT(model.inputs, ElementsAre("x[batch,3]"));
  EXPECT_THAT(model.outputs, ElementsAre("action[batch,4]"));
  EXPECT_THAT(model.ops, ElementsAre("Gemm", "Tanh"));
  EXPECT_THAT(model.in[0], ElementsAre("x", "net/layer0/weight", "net/layer0/bias"));
  EXPECT_EQ(model.out[1], "action");
  EXPECT_EQ(model.dims.at("net/layer0/weight"), (std::vector<std::int64_t>{3, 4}));
  EXPECT_EQ(model.raw.at("net/layer0/weight").size(), 12 * sizeof(float));
}

TEST_F(Onnx, ActivationsAreNodesOfTheirOwn) {
  const std::map<Activation, std::string> names = {{Activation::kTanh, "Tanh"},
                                                   {Activation::kElu, "Elu"},
                                                   {Activation::kRelu, "Relu"},
                                                   {Activation::kSigmoid, "Sigmoid"},
                                                   {Activation::kLeakyRelu, "LeakyRelu"}};
  std::vector<std::string> expected;
  for (const auto& [kind, name] : names) {
    graph_.output(name, activation(x_, kind));
    expected.push_back(name);
  }
  EXPECT_EQ(model().ops, expected);
}

TEST_F(Onnx, BiasAndNoActivationIsASum) {
  EXPECT_THAT(ops(bias_activation(x_, param("bias", {3}))), ElementsAre("Add"));
}

TEST_F(Onnx, LayerNormTakesTheBiasBefore) {
  EXPECT_THAT(ops(layer_norm(x_, param("b", {3}), param("g", {3}), param("o", {3}), Activation::kTanh)),
              ElementsAre("Add", "LayerNormalization", "Tanh"));
}

TEST_F(Onnx, BatchNormUsesTheRunningStatistics) {
  const Var mean = graph_.state("net/mean", {3}, Init::constant(0)),
            variance = graph_.state("net/variance", {3}, Init::constant(1));
  EXPECT_THAT(ops(batch_norm(x_, param("g", {3}), param("o", {3}), mean, variance, {.training = false})),
              ElementsAre("Add", "Sqrt", "Reciprocal", "Mul", "Sub", "Mul", "Add"));
  const Model model = this->model();
  EXPECT_TRUE(model.dims.contains("state/net/mean") && model.dims.contains("state/net/variance"));
}

TEST_F(Onnx, ElementwiseOps) {
  const Var sum = add(x_, mul(x_, x_));
  EXPECT_THAT(ops(clip(affine(sub(sum, x_), 2, 1), -1, 1)), ElementsAre("Mul", "Add", "Sub", "Mul", "Add", "Clip"));
}

TEST_F(Onnx, ShapesKeepTheBatchOpen) {
  const Var wide = concat(x_, slice(x_, 1, 3));  // [rows, 5]
  graph_.output("cube", reshape(reshape(wide, {2, 5}), {2, 5, 1}));
  const Model model = this->model();
  EXPECT_THAT(model.ops, ElementsAre("Slice", "Concat", "Reshape")) << "the same shape is no node";
  EXPECT_THAT(model.outputs, ElementsAre("cube[batch,5,1]"));
  const std::vector<std::int64_t> expected = {-1, 5, 1};
  const std::string& shape = model.raw.at(model.in[2].at(1));
  ASSERT_EQ(shape.size(), expected.size() * sizeof(std::int64_t));
  EXPECT_EQ(std::memcmp(shape.data(), expected.data(), shape.size()), 0);
}

TEST_F(Onnx, ConvolutionTransposesToChannelsFirstAndBack) {
  const Var image = graph_.input("image", {6, 6, 2});
  graph_.output("y", conv2d(image, param("weight", {3, 3, 2, 4}), param("bias", {4}),
                            {.stride = 2, .padding = 1, .activation = Activation::kRelu}));
  const Model model = this->model();
  EXPECT_THAT(model.ops, ElementsAre("Transpose", "Transpose", "Conv", "Relu", "Transpose"));
  EXPECT_THAT(model.in[2], ElementsAre(model.out[0], model.out[1], "net/bias"));
  EXPECT_THAT(model.outputs, ElementsAre("y[batch,3,3,4]"));
}

TEST_F(Onnx, EmbeddingSoftmaxAndSums) {
  const Var label = graph_.input("label", {}, DType::kI32);
  const Var rows = embedding(param("table", {10, 3}), label);
  graph_.output("y", sum_last(softmax(rows)));
  graph_.output("z", log_softmax(x_));
  const Model model = this->model();
  EXPECT_THAT(model.ops, ElementsAre("Gather", "Softmax", "ReduceSum", "LogSoftmax"));
  EXPECT_THAT(model.inputs, ElementsAre("x[batch,3]", "label[batch]"));
  EXPECT_THAT(model.outputs, ElementsAre("y[batch]", "z[batch,3]"));
}

TEST_F(Onnx, LeavesOutWhatNoOutputDependsOn) {
  linear(x_, param("unused", {3, 4}), param("unused_bias", {4}));
  EXPECT_THAT(ops(matmul(x_, param("used", {3, 2}))), ElementsAre("Gemm"));
  const Model model = this->model();
  ASSERT_EQ(model.dims.size(), 1U);
  EXPECT_EQ(model.dims.begin()->first, "net/used");
}

TEST_F(Onnx, OutputsMayBeInputsOrShareAValue) {
  const Var y = tanh(stop_gradient(x_));
  graph_.output("same", x_);
  graph_.output("a", y);
  graph_.output("b", y);
  const Model model = this->model();
  EXPECT_THAT(model.ops, UnorderedElementsAre("Tanh", "Identity", "Identity"));
  EXPECT_THAT(model.outputs, ElementsAre("same[batch,3]", "a[batch,3]", "b[batch,3]"));
}

TEST_F(Onnx, NamesTheOpThatHasNoMapping) {
  graph_.output("y", softmax_cross_entropy(x_, x_));
  const auto written = file();
  ASSERT_FALSE(written.ok());
  EXPECT_EQ(written.error().code, Code::kInvalidArgument);
  EXPECT_EQ(written.error().message, "onnx: the op \"softmax_cross_entropy\" has no mapping (its result is [2])");
}

TEST_F(Onnx, BatchNormInTrainingIsRefused) {
  const Var mean = graph_.state("net/mean", {3}, Init::constant(0)),
            variance = graph_.state("net/variance", {3}, Init::constant(1));
  graph_.output("y", batch_norm(x_, param("g", {3}), param("o", {3}), mean, variance));
  EXPECT_THAT(file().error().message, HasSubstr("onnx: the op \"batch_sums\" has no mapping"));
}

TEST_F(Onnx, GraphWithoutOutputsIsRefused) { EXPECT_EQ(file().error().message, "onnx: the graph has no output"); }

}  // namespace
}  // namespace troupe::learner
