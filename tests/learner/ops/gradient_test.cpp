// Every operation's gradient against central differences in float64. The list below is explicit, and a test compares it
// with the operations that the ops' headers declare, so that a new one without a case fails.
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <functional>
#include <regex>
#include <set>

#include <troupe/core/rng.hpp>
#include <troupe/learner/engine/program.hpp>
#include <troupe/learner/ops/batch_norm.hpp>
#include <troupe/learner/ops/broadcast.hpp>
#include <troupe/learner/ops/categorical.hpp>
#include <troupe/learner/ops/choice.hpp>
#include <troupe/learner/ops/convolution.hpp>
#include <troupe/learner/ops/embedding.hpp>
#include <troupe/learner/ops/gradient.hpp>
#include <troupe/learner/ops/image.hpp>
#include <troupe/learner/ops/joint.hpp>
#include <troupe/learner/ops/linear.hpp>
#include <troupe/learner/ops/losses.hpp>
#include <troupe/learner/ops/math.hpp>
#include <troupe/learner/ops/norm.hpp>
#include <troupe/learner/ops/pooling.hpp>
#include <troupe/learner/ops/random_shift.hpp>
#include <troupe/learner/ops/reduce.hpp>
#include <troupe/learner/ops/resize.hpp>
#include <troupe/learner/ops/shaping.hpp>
#include <troupe/learner/ops/spectral_norm.hpp>
#include <troupe/tests/paths.hpp>

namespace troupe::learner {
namespace {

constexpr std::int64_t kBatch = 5;

/// One operand of a case: split by rows (shape without the batch) or shared, with values in [low, high).
struct OperandSpec {
  Shape shape;
  bool shared = false;
  double low = -2, high = 2;
  bool differentiated = true;
  std::int64_t classes = 0;  ///< above 0: integers below this instead
};

struct GradientCase {
  std::string name;
  std::string operation;  ///< the declared function that it covers
  std::vector<OperandSpec> operands;
  std::function<Var(const std::vector<Var>&)> build;
};

void PrintTo(const GradientCase& c, std::ostream* out) { *out << c.name; }

const Support kGradientSupport{-1, 1.5, 7};

Var batch_norm_case(const std::vector<Var>& v, const BatchNormOptions& options) {
  Graph& graph = *v[0].graph;
  const Shape columns = graph.spec(v[1]).shape;
  return batch_norm(v[0], v[1], v[2], graph.state("mean", columns, Init::normal(0.3)),
                    graph.state("variance", columns, Init::constant(1.5)), options);
}

/// Differences see how u and v follow the weight, which the gradient by definition does not. At the singular vectors
/// sigma does not depend on them to first order, so there both are the same.
Var converged_spectral_norm(const std::vector<Var>& v) {
  const Var u = v[0].graph->state("u", {3}, Init::normal(1));
  for (int i = 0; i < 200; ++i) spectral_norm(v[0], u);
  return spectral_norm(v[0], u);
}

/// Images as rows of numbers, which weigh() takes.
Var flat(Var image) {
  const Shape& shape = image.graph->spec(image).shape;
  return reshape(image, {kBatch, shape.elements() / kBatch});
}

std::vector<GradientCase> cases() {
  const OperandSpec row{{7}}, weight{{7, 3}, true}, bias{{3}, true}, column{{7}, true},
      label{{}, false, 0, 0, false, 7}, image{{4, 5, 3}}, channels{{3}};
  std::vector<GradientCase> list{
      {"Add", "add", {row, row}, [](auto& v) { return add(v[0], v[1]); }},
      {"Sub", "sub", {row, row}, [](auto& v) { return sub(v[0], v[1]); }},
      {"Mul", "mul", {row, row}, [](auto& v) { return mul(v[0], v[1]); }},
      {"MulShared", "mul", {column, column}, [](auto& v) { return mul(v[0], v[1]); }},
      {"Affine", "affine", {row}, [](auto& v) { return affine(v[0], -1.5, 0.25); }},
      {"Scale", "scale", {row}, [](auto& v) { return scale(v[0], 3); }},
      {"Square", "square", {row}, [](auto& v) { return square(v[0]); }},
      {"Clip", "clip", {row}, [](auto& v) { return clip(v[0], -0.7, 1.1); }},
      {"Tanh", "tanh", {row}, [](auto& v) { return tanh(v[0]); }},
      {"Elu", "elu", {row}, [](auto& v) { return elu(v[0]); }},
      {"Relu", "relu", {row}, [](auto& v) { return relu(v[0]); }},
      {"Sigmoid", "sigmoid", {row}, [](auto& v) { return sigmoid(v[0]); }},
      {"LeakyRelu", "leaky_relu", {row}, [](auto& v) { return leaky_relu(v[0]); }},
      {"ActivationOfVector", "activation", {{{}}}, [](auto& v) { return activation(v[0], Activation::kElu); }},
      {"BiasActivation",
       "bias_activation",
       {row, column},
       [](auto& v) { return bias_activation(v[0], v[1], Activation::kTanh); }},
      {"Matmul", "matmul", {row, weight}, [](auto& v) { return matmul(v[0], v[1]); }},
      {"MatmulTransposedRight",
       "matmul",
       {row, {{3, 7}, true}},
       [](auto& v) { return matmul(v[0], v[1], false, true); }},
      {"MatmulTransposedLeft",
       "matmul",
       {{{7, 4}, true}, weight},
       [](auto& v) { return matmul(v[0], v[1], true, false); }},
      {"MatmulTransposedBoth",
       "matmul",
       {{{7, 4}, true}, {{3, 7}, true}},
       [](auto& v) { return matmul(v[0], v[1], true, true); }},
      {"MatmulOverRows", "matmul", {row, {{2}}}, [](auto& v) { return matmul(v[0], v[1], true, false); }},
      {"Conv2d",
       "conv2d",
       {{{5, 6, 3}}, {{3, 3, 3, 4}, true}},
       [](auto& v) { return conv2d(v[0], v[1], {.padding = 1}); }},
      {"Conv2dStrideBiasLeakyRelu",
       "conv2d",
       {{{6, 5, 2}}, {{3, 2, 2, 3}, true}, bias},
       [](auto& v) {
         return conv2d(v[0], v[1], v[2], {.stride = 2, .padding = 1, .activation = Activation::kLeakyRelu});
       }},
      {"UpsampledConv2d",
       "upsampled_conv2d",
       {{{3, 2, 2}}, {{3, 3, 2, 4}, true}},
       [](auto& v) { return upsampled_conv2d(v[0], v[1]); }},
      {"DownsampledConv2d",
       "downsampled_conv2d",
       {{{4, 6, 2}}, {{3, 3, 2, 3}, true}, bias},
       [](auto& v) { return downsampled_conv2d(v[0], v[1], v[2]); }},
      {"Conv2dTanh",
       "conv2d",
       {{{3, 3, 2}}, {{1, 1, 2, 3}, true}, bias},
       [](auto& v) { return conv2d(v[0], v[1], v[2], {.activation = Activation::kTanh}); }},
      {"Exp", "exp", {row}, [](auto& v) { return exp(v[0]); }},
      {"Log", "log", {{{7}, false, 0.2, 3}}, [](auto& v) { return log(v[0]); }},
      {"Sqrt", "sqrt", {{{7}, false, 0.2, 3}}, [](auto& v) { return sqrt(v[0]); }},
      {"Abs", "abs", {row}, [](auto& v) { return abs(v[0]); }},
      {"Softplus", "softplus", {row}, [](auto& v) { return softplus(v[0]); }},
      {"Div", "div", {row, {{7}, false, 0.5, 2}}, [](auto& v) { return div(v[0], v[1]); }},
      {"DivOfOneValue", "div", {{{7}, false, 0.5, 2}}, [](auto& v) { return div(square(v[0]), v[0]); }},
      {"Minimum", "minimum", {row, row}, [](auto& v) { return minimum(v[0], v[1]); }},
      {"MinimumOfRowAndShared", "minimum", {row, column}, [](auto& v) { return minimum(v[0], v[1]); }},
      {"Maximum", "maximum", {row, row}, [](auto& v) { return maximum(v[0], v[1]); }},
      {"Where", "where", {row, row, row}, [](auto& v) { return where(greater(v[0], v[1]), v[1], square(v[2])); }},
      {"Gather", "gather", {row, label}, [](auto& v) { return gather(v[0], v[1]); }},
      {"GatherOfRows", "gather", {{{7, 2}}, label}, [](auto& v) { return gather(v[0], v[1]); }},
      {"AddOfRowsAndShared", "add", {row, column}, [](auto& v) { return square(add(v[0], v[1])); }},
      {"SubOfSharedAndRows", "sub", {column, row}, [](auto& v) { return square(sub(v[0], v[1])); }},
      {"MulByScalar", "mul", {row, {{}, true}}, [](auto& v) { return mul(v[0], v[1]); }},
      {"MulByColumn", "mul", {row, {{1}}}, [](auto& v) { return mul(v[0], v[1]); }},
      {"DivByShared", "div", {row, {{7}, true, 0.5, 2}}, [](auto& v) { return div(v[0], v[1]); }},
      {"MulOfSharedBothWays", "mul", {{{4, 1}, true}, {{3}, true}}, [](auto& v) { return mul(v[0], v[1]); }},
      {"AddInTheMiddle", "add", {{{3, 4}}, {{1, 4}}}, [](auto& v) { return flat(square(add(v[0], v[1]))); }},
      {"Broadcast", "broadcast", {column, row}, [](auto& v) { return mul(broadcast(v[0], v[1]), v[1]); }},
      {"SumToMiddle",
       "sum_to",
       {{{3, 4}}},
       [](auto& v) {
         return flat(sum_to(v[0], {kBatch, 1, 4}));
       }},
      {"SumToLast",
       "sum_to",
       {{{3, 4}}},
       [](auto& v) {
         return flat(sum_to(v[0], {kBatch, 3, 1}));
       }},
      {"SumToShared", "sum_to", {row}, [](auto& v) { return sum_to(square(v[0]), {7}); }},
      {"SumOfSharedTo",
       "sum_to",
       {weight},
       [](auto& v) {
         return square(sum_to(v[0], {7, 1}));
       }},
      {"LogSumExp", "log_sum_exp", {row}, [](auto& v) { return log_sum_exp(v[0]); }},
      {"SumLast", "sum_last", {row}, [](auto& v) { return sum_last(v[0]); }},
      {"Sum", "sum", {row}, [](auto& v) { return sum(square(v[0])); }},
      {"Mean", "mean", {row}, [](auto& v) { return mean(square(v[0])); }},
      {"MeanShared", "mean", {column}, [](auto& v) { return mean(square(v[0])); }},
      {"Concat", "concat", {row, {{2}}}, [](auto& v) { return concat(v[0], v[1]); }},
      {"Slice", "slice", {row}, [](auto& v) { return slice(v[0], 2, 6); }},
      {"Reshape",
       "reshape",
       {{{6}}},
       [](auto& v) {
         return square(reshape(v[0], {kBatch * 3, 2}));
       }},
      {"Softmax", "softmax", {row}, [](auto& v) { return softmax(v[0]); }},
      {"LogSoftmax", "log_softmax", {row}, [](auto& v) { return log_softmax(v[0]); }},
      {"SoftmaxCrossEntropy",
       "softmax_cross_entropy",
       {row, {{7}, false, 0, 1, false}},
       [](auto& v) { return softmax_cross_entropy(v[0], v[1]); }},
      {"CategoricalMean", "categorical_mean", {row}, [](auto& v) { return categorical_mean(v[0], kGradientSupport); }},
      {"CategoricalTd",
       "categorical_td",
       {row, {{7}, false, -2, 2, false}, {{}, false, -1, 1, false}, {{}, false, 0, 1, false}},
       [](auto& v) { return categorical_td(v[0], v[1], v[2], v[3], kGradientSupport); }},
      {"LabelCrossEntropy",
       "label_cross_entropy",
       {row, label},
       [](auto& v) { return label_cross_entropy(v[0], v[1]); }},
      {"LabelSmoothing",
       "label_cross_entropy",
       {row, label},
       [](auto& v) { return label_cross_entropy(v[0], v[1], 0.2); }},
      {"HingeDiscriminator",
       "hinge_discriminator",
       {row, row},
       [](auto& v) { return hinge_discriminator(v[0], v[1]); }},
      {"HingeGenerator", "hinge_generator", {row}, [](auto& v) { return hinge_generator(square(v[0])); }},
      {"Embedding", "embedding", {weight, label}, [](auto& v) { return embedding(v[0], v[1]); }},
      {"EmbeddingOfMatrix",
       "embedding",
       {weight, {{2}, false, 0, 0, false, 7}},
       [](auto& v) {
         return reshape(embedding(v[0], v[1]), {kBatch, 6});
       }},
      {"SpectralNorm", "spectral_norm", {weight}, converged_spectral_norm},
      {"BatchNormOfRunningStatistics",
       "batch_norm",
       {row, column, column},
       [](auto& v) { return batch_norm_case(v, {.training = false}); }},
      {"BatchNormFolded",
       "batch_norm",
       {{{4, 3}}, bias, bias},
       [](auto& v) {
         return reshape(batch_norm_case(v, {}), {kBatch, 12});
       }},
      {"BatchNormOfImages",
       "batch_norm",
       {image, bias, bias},
       [](auto& v) { return flat(batch_norm_case(v, {.activation = Activation::kRelu})); }},
      {"BatchNormBesideASkip",
       "batch_norm",
       {{{4, 3}}, bias, bias},
       [](auto& v) { return flat(add(batch_norm_case(v, {}), square(v[0]))); }},
      {"AveragePool", "average_pool", {image}, [](auto& v) { return flat(average_pool(v[0])); }},
      {"AveragePoolOverlapping",
       "average_pool",
       {image},
       [](auto& v) { return flat(average_pool(v[0], {.kernel = 3, .stride = 2, .padding = 1})); }},
      {"MaxPool", "max_pool", {image}, [](auto& v) { return flat(max_pool(v[0])); }},
      {"MaxPoolOverlapping",
       "max_pool",
       {image},
       [](auto& v) { return flat(max_pool(v[0], {.kernel = 3, .stride = 2, .padding = 1})); }},
      {"GlobalMean", "global_mean", {image}, [](auto& v) { return global_mean(v[0]); }},
      {"GlobalSum", "global_sum", {image}, [](auto& v) { return global_sum(v[0]); }},
      {"ResizeNearestUp", "resize_nearest", {image}, [](auto& v) { return flat(resize_nearest(v[0], 8, 10)); }},
      {"ResizeNearestDown", "resize_nearest", {image}, [](auto& v) { return flat(resize_nearest(v[0], 2, 3)); }},
      {"ResizeBilinearUp", "resize_bilinear", {image}, [](auto& v) { return flat(resize_bilinear(v[0], 8, 10)); }},
      {"ResizeBilinearDown", "resize_bilinear", {image}, [](auto& v) { return flat(resize_bilinear(v[0], 2, 3)); }},
      {"ResizeBilinearFar", "resize_bilinear", {image}, [](auto& v) { return flat(resize_bilinear(v[0], 17, 1)); }},
      {"Shift", "shift", {image, {{2}, false, 0, 1, false}}, [](auto& v) { return flat(shift(v[0], v[1], 2)); }},
      {"ShiftFar", "shift", {image, {{2}, false, 0, 1, false}}, [](auto& v) { return flat(shift(v[0], v[1], 9)); }},
      {"SumStripes", "sum_stripes", {row}, [](auto& v) { return square(sum_stripes(mean(v[0]))); }},
      {"SquareOfShared", "square", {weight}, [](auto& v) { return square(v[0]); }},
      {"SumOfPartialAndShared",
       "add",
       {row, {{}, true}},
       [](auto& v) { return add(mean(square(v[0])), square(v[1])); }},
  };
  for (const auto& [name, kind] : {std::pair{"None", Activation::kNone},
                                   {"Tanh", Activation::kTanh},
                                   {"Elu", Activation::kElu},
                                   {"Relu", Activation::kRelu},
                                   {"Sigmoid", Activation::kSigmoid},
                                   {"LeakyRelu", Activation::kLeakyRelu}}) {
    list.push_back({std::string("Modulate") + name, "modulate", {image, channels, channels}, [kind = kind](auto& v) {
                      return flat(modulate(v[0], v[1], v[2], kind));
                    }});
    list.push_back({std::string("AddActivation") + name, "add_activation", {row, row}, [kind = kind](auto& v) {
                      return add_activation(v[0], v[1], kind);
                    }});
    list.push_back({std::string("BatchNorm") + name, "batch_norm", {row, column, column}, [kind = kind](auto& v) {
                      return batch_norm_case(v, {.epsilon = 1e-3, .activation = kind});
                    }});
    list.push_back({std::string("Linear") + name, "linear", {row, weight, bias}, [kind = kind](auto& v) {
                      return linear(v[0], v[1], v[2], kind);
                    }});
    list.push_back(
        {std::string("LayerNorm") + name, "layer_norm", {row, column, column, column}, [kind = kind](auto& v) {
           return layer_norm(v[0], v[1], v[2], v[3], kind, 1e-3);
         }});
  }
  list.push_back({"RmsNorm", "rms_norm", {row, column}, [](auto& v) { return rms_norm(v[0], v[1], 1e-3); }});
  return list;
}

/// Declared operations that cannot be compared with differences, and where they are tested instead.
const std::set<std::string> kElsewhere{
    "stop_gradient",              // StopGradient.*
    "clip_gradient_by_row_norm",  // ClipGradient.*
    "count_rows",                 // has no gradient; program_test.cpp
    "joint",                      // joint_test.cpp: its function is the caller's
    "is_correct",                 // has no gradient; losses_test.cpp
    "is_in_top",                  // the same
    "greater",                    // has no gradient; choice_test.cpp
    "greatest",                   // the same
    "dropout",                    // draws anew each time; random_test.cpp
    "from_bytes",                 // bytes have no gradient; random_shift_test.cpp
    "random_shift",               // draws anew each time; random_shift_test.cpp
    "random_uniform",             // has no input; random_test.cpp
    "random_normal",              // the same
};

/// Loss with unequal weights for all elements, so that transposed or permuted gradients show.
Var weigh(Graph& graph, Var y) {
  const ValueSpec spec = graph.spec(y);
  if (spec.shape.rank() == 0) return y;
  const Var column = spec.shape.rank() == 1 ? y : reshape(y, {spec.shape[0], spec.shape.elements() / spec.shape[0]});
  const ValueSpec flat = graph.spec(column);
  if (flat.place == Place::kPartial) return weigh(graph, sum_stripes(column));
  if (flat.place == Place::kReplicated) {
    std::vector<float> weights;
    for (std::int64_t i = 0; i < flat.shape.elements(); ++i) weights.push_back(std::sin(static_cast<float>(i) + 1));
    return sum(mul(column, graph.constant(flat.shape, weights)));
  }
  if (flat.shape.rank() == 1) return sum(square(affine(column, 1, 0.3)));
  std::vector<float> weights;
  for (std::int64_t i = 0; i < flat.shape[1]; ++i) weights.push_back(std::sin(static_cast<float>(i) + 1));
  return sum(square(affine(matmul(column, graph.constant({flat.shape[1], 1}, weights)), 1, 0.3)));
}

class GradientOf : public testing::TestWithParam<GradientCase> {};

TEST_P(GradientOf, AgreesWithCentralDifferencesForOneAndTwoStripes) {
  const GradientCase& c = GetParam();
  for (const int stripes : {1, 2}) {
    Graph graph(kBatch);
    std::vector<Var> operands, wrt;
    std::vector<std::vector<double>> values;
    std::vector<std::vector<std::int32_t>> integers(c.operands.size());
    Rng rng(7);
    for (const OperandSpec& spec : c.operands) {
      const std::string name = "operand" + std::to_string(operands.size());
      if (spec.classes > 0) {
        operands.push_back(graph.input(name, spec.shape, DType::kI32));
        values.emplace_back();
        for (std::int64_t i = 0; i < graph.spec(operands.back()).shape.elements(); ++i) {
          integers[values.size() - 1].push_back(
              static_cast<std::int32_t>(rng.below(static_cast<std::uint64_t>(spec.classes))));
        }
        continue;
      }
      operands.push_back(spec.shared ? graph.shared_input(name, spec.shape) : graph.input(name, spec.shape));
      if (spec.differentiated) wrt.push_back(operands.back());
      std::vector<double>& data = values.emplace_back();
      for (std::int64_t i = 0; i < graph.spec(operands.back()).shape.elements(); ++i) {
        data.push_back(spec.low + (spec.high - spec.low) * rng.uniform());
      }
    }
    const Var loss = weigh(graph, c.build(operands));
    ASSERT_TRUE(graph.status().ok()) << graph.status().error().message;
    const std::vector<Var> gradients = graph.gradients(loss, wrt);
    graph.output("loss", loss);
    for (std::size_t i = 0; i < gradients.size(); ++i) graph.output("gradient" + std::to_string(i), gradients[i]);
    auto program = Program::compile(graph, {.stripes = stripes, .compute = DType::kF64});
    ASSERT_TRUE(program.ok()) << program.error().message;

    const auto run = [&] {
      for (std::size_t i = 0; i < values.size(); ++i) {
        const std::string name = "operand" + std::to_string(i);
        if (integers[i].empty()) {
          (*program)->bind(name, std::span<const double>(values[i])).value();
        } else {
          (*program)->bind(name, std::span<const std::int32_t>(integers[i])).value();
        }
      }
      (*program)->run().value();
      return (*program)->output_f64("loss")[0];
    };
    run();
    std::vector<std::vector<double>> exact;
    for (std::size_t i = 0; i < gradients.size(); ++i) {
      const auto got = (*program)->output_f64("gradient" + std::to_string(i));
      exact.emplace_back(got.begin(), got.end());
    }
    std::size_t slot = 0;
    double largest = 0;
    for (std::size_t operand = 0; operand < values.size(); ++operand) {
      if (!c.operands[operand].differentiated) continue;
      ASSERT_EQ(exact[slot].size(), values[operand].size());
      for (std::size_t i = 0; i < values[operand].size(); ++i) {
        // Central differences: error h^2 f''' / 6 + 1e-16 f / h, least near h = 1e-5.
        constexpr double kStep = 1e-5;
        const double at = values[operand][i];
        values[operand][i] = at + kStep;
        const double above = run();
        values[operand][i] = at - kStep;
        const double below = run();
        values[operand][i] = at;
        const double difference = (above - below) / (2 * kStep);
        EXPECT_NEAR(exact[slot][i], difference, 1e-7 * (1 + std::abs(difference)))
            << c.name << ", " << stripes << " stripes, operand " << operand << " element " << i;
        largest = std::max(largest, std::abs(difference));
      }
      ++slot;
    }
    EXPECT_GT(largest, 1e-3) << "the case does not exercise the gradient";
  }
}

INSTANTIATE_TEST_SUITE_P(Ops, GradientOf, testing::ValuesIn(cases()), [](const auto& info) { return info.param.name; });

TEST(GradientCases, CoverEveryDeclaredOperation) {
  std::set<std::string> covered = kElsewhere;
  for (const GradientCase& c : cases()) covered.insert(c.operation);
  const std::regex declaration(R"(^(?:inline )?Var (\w+)\()");
  std::set<std::string> declared;
  for (const auto& file : std::filesystem::directory_iterator(source_dir() + "/learner/ops")) {
    if (file.path().extension() != ".hpp" || file.path().stem() == "internal") continue;
    std::ifstream text(file.path());
    for (std::string line; std::getline(text, line);) {
      if (std::smatch match; std::regex_search(line, match, declaration)) declared.insert(match[1]);
    }
  }
  EXPECT_GT(declared.size(), 20U);
  EXPECT_EQ(declared, covered);
}

/// Values of gradients w.r.t. one input [kBatch, 2] that holds `x`, float64.
std::vector<double> gradient_of(const std::function<Var(Var)>& loss_of, const std::vector<double>& x) {
  Graph graph(kBatch);
  const Var input = graph.input("x", {2});
  graph.output("gradient", graph.gradients(loss_of(input), std::array{input})[0]);
  auto program = Program::compile(graph, {.compute = DType::kF64});
  (*program)->bind("x", std::span<const double>(x)).value();
  (*program)->run().value();
  const auto out = (*program)->output_f64("gradient");
  return {out.begin(), out.end()};
}

const std::vector<double> kX{1, 2, 3, 4, 0.1, 0.2, -3, 4, 0, 0};

TEST(StopGradient, LetsNothingThrough) {
  EXPECT_EQ(gradient_of([](Var x) { return sum(mul(x, stop_gradient(x))); }, kX), kX);
  EXPECT_EQ(gradient_of([](Var x) { return sum(stop_gradient(square(x))); }, kX), std::vector<double>(10, 0));
}

TEST(ClipGradient, ScalesLongRowsDownToTheNormOfOneExample) {
  // The gradient of 0.5 sum(x^2) / batch with respect to x, for one example, is x itself.
  const auto loss = [](Var x) { return scale(mean(sum_last(square(clip_gradient_by_row_norm(x, 1)))), 0.5); };
  const std::vector<double> got = gradient_of(loss, kX);
  for (std::size_t row = 0; row < kX.size(); row += 2) {
    const double norm = std::hypot(kX[row], kX[row + 1]), factor = (norm > 1 ? 1 / norm : 1) / kBatch;
    EXPECT_NEAR(got[row], kX[row] * factor, 1e-12);
    EXPECT_NEAR(got[row + 1], kX[row + 1] * factor, 1e-12);
  }
}

TEST(Gradients, SkipWhatIsNotAskedFor) {
  Graph graph(kBatch);
  const ParamGroup critic = graph.group("critic"), policy = graph.group("policy");
  const Var weight = graph.param(critic, "weight", {2, 1}, Init::uniform(1));
  const Var action = matmul(graph.input("x", {3}), graph.param(policy, "weight", {3, 2}, Init::uniform(1)));
  graph.minimize(mean(matmul(action, weight)), policy, {});
  // Forward: two products and a mean; backward: one product for the action, one for the policy's weight, none for the
  // critic's.
  const std::string text = graph.to_string();
  std::size_t products = 0;
  for (std::size_t at = text.find("matmul"); at != std::string::npos; at = text.find("matmul", at + 1)) ++products;
  EXPECT_EQ(products, 4U) << text;
}

}  // namespace
}  // namespace troupe::learner
