#include <troupe/tests/learner/engine/kernel_graphs.hpp>

#include <fmt/format.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <ostream>
#include <regex>

#include <troupe/learner/ops/batch_norm.hpp>
#include <troupe/learner/ops/broadcast.hpp>
#include <troupe/learner/ops/categorical.hpp>
#include <troupe/learner/ops/choice.hpp>
#include <troupe/learner/ops/convolution.hpp>
#include <troupe/learner/ops/elementwise.hpp>
#include <troupe/learner/ops/embedding.hpp>
#include <troupe/learner/ops/gradient.hpp>
#include <troupe/learner/ops/image.hpp>
#include <troupe/learner/ops/internal.hpp>
#include <troupe/learner/ops/joint.hpp>
#include <troupe/learner/ops/linear.hpp>
#include <troupe/learner/ops/losses.hpp>
#include <troupe/learner/ops/math.hpp>
#include <troupe/learner/ops/norm.hpp>
#include <troupe/learner/ops/pooling.hpp>
#include <troupe/learner/ops/random.hpp>
#include <troupe/learner/ops/random_shift.hpp>
#include <troupe/learner/ops/reduce.hpp>
#include <troupe/learner/ops/resize.hpp>
#include <troupe/learner/ops/shaping.hpp>
#include <troupe/learner/ops/spectral_norm.hpp>
#include <troupe/tests/paths.hpp>

namespace troupe::learner {

std::string to_string(const Sizes& s) {
  return s.height == 0 ? fmt::format("[{}, {}]", s.rows, s.cols)
                       : fmt::format("[{}, {}, {}, {}]", s.rows, s.height, s.width, s.cols);
}
void PrintTo(const GraphCase& graph, std::ostream* out) { *out << graph.name; }

namespace {

constexpr Activation kActivations[] = {Activation::kNone, Activation::kTanh,    Activation::kElu,
                                       Activation::kRelu, Activation::kSigmoid, Activation::kLeakyRelu};

/// Short words for building: inputs and parameters get names of their own, and every value a loss that is not the same
/// for all its elements.
class Build {
 public:
  Build(Graph& graph, const Sizes& sizes) : graph_(graph), sizes_(sizes) {}

  Var input(const Shape& row, std::string_view name = "x") { return graph_.input(next(name), row); }
  Var integers(const Shape& row, std::int64_t limit) {
    return graph_.input(fmt::format("{}<{}", next("i"), limit), row, DType::kI32);
  }
  Var bytes(const Shape& row) { return graph_.input(fmt::format("{}<256", next("b")), row, DType::kU8); }
  Var param(const Shape& shape, std::string_view name = "w") {
    return graph_.param(graph_.group("g"), next(name), shape, Init::constant(0));
  }
  Var state(const Shape& shape, std::string_view name = "s") {
    return graph_.state(next(name), shape, Init::constant(0));
  }
  /// [rows, cols] or images.
  Var x() { return input(sizes_.height == 0 ? Shape{sizes_.cols} : Shape{sizes_.height, sizes_.width, sizes_.cols}); }
  Var column(std::string_view name = "w") { return param({sizes_.cols}, name); }

  /// Adds the gradient of y, whose elements all count differently.
  void differentiate(Var y, std::vector<Var> wrt) {
    if (!y) return;
    const ValueSpec spec = graph_.spec(y);
    const Var weights = spec.place == Place::kRows
                            ? reshape(input({spec.shape.elements() / graph_.batch()}, "d"), spec.shape)
                            : graph_.shared_input(next("d"), spec.shape);
    graph_.gradients(sum(mul(y, weights)), wrt);
  }

 private:
  std::string next(std::string_view name) { return fmt::format("{}_{}", name, count_++); }

  Graph& graph_;
  Sizes sizes_;
  int count_ = 0;
};

// ---- matrices ----

void arithmetic(Graph& graph, const Sizes& sizes) {
  Build build(graph, sizes);
  const Var a = build.x(), b = build.x(), w = build.column();
  const Var y = clip(affine(mul(add(a, b), sub(a, square(b))), 1.5, -0.25), -1, 0.5);
  build.differentiate(y, {a, b});
  build.differentiate(add(square(w), scale(w, 2)), {w});
}

/// The largest grid strides over the rest.
void more_than_a_grid(Graph& graph, const Sizes& sizes) {
  Build build(graph, sizes);
  const Var a = build.x();
  graph.gradients(sum(affine(a, 2, 1)), {{a}});
}

void activations(Graph& graph, const Sizes& sizes) {
  Build build(graph, sizes);
  for (const Activation kind : kActivations) {
    const Var a = build.x(), b = build.x(), bias = build.column();
    build.differentiate(activation(a, kind), {a});
    build.differentiate(bias_activation(a, bias, kind), {a, bias});
    build.differentiate(add_activation(a, b, kind), {a, b});
  }
  const Var vector = build.input({});
  build.differentiate(elu(vector), {vector});
}

void products(Graph& graph, const Sizes& sizes) {
  Build build(graph, sizes);
  const std::int64_t out = 2 * sizes.cols + 1;
  for (const Activation kind : kActivations) {
    const Var x = build.x(), weight = build.param({sizes.cols, out}), bias = build.param({out});
    build.differentiate(linear(x, weight, bias, kind), {x, weight, bias});
  }
  const Var x = build.x(), other = build.input({out}), weight = build.param({out, sizes.cols});
  build.differentiate(matmul(x, weight, false, true), {x, weight});
  build.differentiate(matmul(x, other, true, false), {x, other});
  for (const bool ta : {false, true}) {
    for (const bool tb : {false, true}) {
      const Var a = build.param(ta ? Shape{5, out} : Shape{out, 5}), b = build.param(tb ? Shape{3, 5} : Shape{5, 3});
      build.differentiate(matmul(a, b, ta, tb), {a, b});
    }
  }
}

void layer_norms(Graph& graph, const Sizes& sizes) {
  Build build(graph, sizes);
  for (const Activation kind : kActivations) {
    const Var x = build.x(), bias = build.column(), gain = build.column(), offset = build.column();
    build.differentiate(layer_norm(x, bias, gain, offset, kind), {x, bias, gain, offset});
  }
}

void moving(Graph& graph, const Sizes& sizes) {
  Build build(graph, sizes);
  const Var a = build.x(), b = build.x(), c = build.input({3});
  const Var both = concat(concat(a, b), c);
  build.differentiate(both, {a, b, c});
  build.differentiate(slice(both, sizes.cols / 2, 2 * sizes.cols + 1), {a});
  build.differentiate(reshape(both, {sizes.rows * (2 * sizes.cols + 3)}), {a});
  build.differentiate(clip_gradient_by_row_norm(a, 0.5 * static_cast<double>(sizes.rows)), {a});
  graph.emit1(identity_op(), {a});
  graph.emit1(identity_op(), {build.integers({}, 9)});
  mask_rows(a);
  const Var w = build.column(), scalar = build.param({});
  as_partial(w);
  fill(scalar, {sizes.rows, sizes.cols}, Place::kRows);
  fill(scalar, {7}, Place::kReplicated);
  stop_gradient(a);
}

void functions(Graph& graph, const Sizes& sizes) {
  Build build(graph, sizes);
  const Var a = build.x(), b = build.x(), positive = build.input({sizes.cols}, "positive");
  build.differentiate(exp(a), {a});
  build.differentiate(log(positive), {positive});
  build.differentiate(sqrt(positive), {positive});
  build.differentiate(abs(a), {a});
  build.differentiate(softplus(a), {a});
  build.differentiate(div(a, positive), {a, positive});
  build.differentiate(minimum(a, b), {a, b});
  build.differentiate(maximum(a, b), {a, b});
  build.differentiate(minimum(a, a), {a});  // in equal parts
  build.differentiate(where(greater(a, b), a, b), {a, b});
  const Var index = build.integers({}, sizes.cols), deep = build.input({sizes.cols, 3});
  build.differentiate(gather(a, index), {a});
  build.differentiate(gather(deep, index), {deep});
  random_normal(graph, "noise", {sizes.cols});
  random_uniform(graph, "mask", {2, 3});
}

void broadcasts(Graph& graph, const Sizes& sizes) {
  Build build(graph, sizes);
  const Var a = build.x(), w = build.column(), scalar = build.param({}), deep = build.input({3, sizes.cols});
  const Var middle = build.input({1, sizes.cols}), column = build.input({1}), square = build.param({3, sizes.cols});
  build.differentiate(mul(a, w), {a, w});
  build.differentiate(mul(a, scalar), {a, scalar});
  build.differentiate(mul(a, column), {a, column});
  build.differentiate(add(deep, middle), {deep, middle});
  build.differentiate(sub(deep, square), {deep, square});
  build.differentiate(mul(build.param({3, 1}), w), {w});
  build.differentiate(sum_to(deep, {sizes.rows, 1, sizes.cols}), {deep});
  build.differentiate(sum_to(deep, {sizes.rows, 3, 1}), {deep});
  build.differentiate(sum_to(square, {sizes.cols}), {square});
  graph.gradients(sum(sum_to(deep, {3, 1})), {{deep}});
}

void reductions(Graph& graph, const Sizes& sizes) {
  Build build(graph, sizes);
  const Var a = build.x(), vector = build.input({}), deep = build.input({3, sizes.cols}), w = build.column();
  graph.gradients(mean(a), {{a}});
  graph.gradients(sum(square(a)), {{a}});
  graph.gradients(mean(vector), {{vector}});
  graph.gradients(mean(deep), {{deep}});
  graph.gradients(sum(w), {{w}});
  graph.gradients(mean(w), {{w}});
  graph.gradients(sum_stripes(mean(a)), {{a}});
  build.differentiate(sum_last(a), {a});
  build.differentiate(sum_last(deep), {deep});
  build.differentiate(log_sum_exp(a), {a});
  build.differentiate(log_sum_exp(deep), {deep});
  count_rows(graph);
  greatest(a);
  greatest(w);
  graph.gradients(add(hinge_discriminator(vector, build.input({})), hinge_generator(vector)), {{vector}});
}

void distributions(Graph& graph, const Sizes& sizes) {
  Build build(graph, sizes);
  const Var a = build.x(), deep = build.input({3, sizes.cols});
  const Var probs = softmax(build.x()), next = build.x();
  build.differentiate(softmax(a), {a});
  build.differentiate(log_softmax(a), {a});
  build.differentiate(log_softmax(deep), {deep});
  build.differentiate(softmax_cross_entropy(a, stop_gradient(probs)), {a});
  const Support support{-2, 3, sizes.cols};
  build.differentiate(categorical_mean(a, support), {a});
  const Var reward = build.input({}), discount = build.input({}, "positive");
  build.differentiate(categorical_td(a, next, reward, discount, support), {a});
  if (sizes.rows * sizes.cols < 100) {                                     // an emulated shuffle takes its time
    categorical_td(a, next, reward, affine(discount, 0), support);         // ends of episodes
    categorical_td(a, next, affine(reward, 100), discount, support);       // beyond the support
    categorical_td(a, next, affine(reward, INFINITY), discount, support);  // far beyond it
    categorical_td(a, next, reward, affine(discount, INFINITY), support);  // NaN
  }
  for (const double smoothing : {0.0, 0.1}) {
    build.differentiate(label_cross_entropy(a, build.integers({}, sizes.cols), smoothing), {a});
  }
  is_correct(a, build.integers({}, sizes.cols));
  is_in_top(a, build.integers({}, sizes.cols), 2);
}

void embeddings(Graph& graph, const Sizes& sizes) {
  Build build(graph, sizes);
  const Var table = build.param({11, sizes.cols});
  build.differentiate(embedding(table, build.integers({}, 11)), {table});
  build.differentiate(embedding(table, build.integers({3}, 11)), {table});
}

void spectral_norms(Graph& graph, const Sizes& sizes) {
  Build build(graph, sizes);
  const Var weight = build.param({sizes.rows, sizes.cols});
  build.differentiate(spectral_norm(weight, build.state({sizes.cols})), {weight});
}

// ---- either ----

void batch_norms(Graph& graph, const Sizes& sizes) {
  Build build(graph, sizes);
  for (const Activation kind : kActivations) {
    for (const bool training : {true, false}) {
      const Var x = build.x(), gain = build.column(), offset = build.column();
      const Var y = batch_norm(x, gain, offset, build.state({sizes.cols}), build.state({sizes.cols}, "positive"),
                               {.training = training, .activation = kind});
      build.differentiate(y, {x, gain, offset});
      if (training) build.differentiate(add(y, x), {x});  // the gradient of x is collected
    }
  }
}

void modulations(Graph& graph, const Sizes& sizes) {
  Build build(graph, sizes);
  for (const Activation kind : kActivations) {
    const Var x = build.x(), gain = build.input({sizes.cols}), offset = build.input({sizes.cols});
    build.differentiate(modulate(x, gain, offset, kind), {x, gain, offset});
  }
}

// ---- images ----

void pools(Graph& graph, const Sizes& sizes) {
  Build build(graph, sizes);
  const Var x = build.x();
  for (const PoolOptions& options : {PoolOptions{2, 2, 0}, {3, 2, 1}, {3, 1, 1}, {2, 3, 1}}) {
    build.differentiate(average_pool(x, options), {x});
    build.differentiate(max_pool(x, options), {x});
  }
  build.differentiate(global_mean(x), {x});
  build.differentiate(global_sum(x), {x});
}

void resizes(Graph& graph, const Sizes& sizes) {
  Build build(graph, sizes);
  const Var x = build.x();
  const std::int64_t h = sizes.height, w = sizes.width;
  for (const auto& [height, width] : {std::pair{2 * h, 2 * w}, {h, w}, {(h + 1) / 2, (w + 1) / 2}, {h + 3, 1}}) {
    build.differentiate(resize_nearest(x, height, width), {x});
    build.differentiate(resize_bilinear(x, height, width), {x});
  }
}

void bytes(Graph& graph, const Sizes& sizes) {
  Build build(graph, sizes);
  const Var pixels = build.bytes({sizes.height, sizes.width, sizes.cols});
  from_bytes(pixels, 1.0 / 255, -0.5);
  from_bytes(build.bytes({sizes.cols}));
  for (const std::int64_t padding : {0, 1, 4, 20}) {
    const Var draws = build.input({2}), x = build.x();  // a third each below 0, a fraction, and above 1
    shift(pixels, draws, padding);
    build.differentiate(shift(x, draws, padding), {x});
  }
}

void image_parts(Graph& graph, const Sizes& sizes) {
  Build build(graph, sizes);
  for (const Activation kind : kActivations) {
    const Var a = build.x(), b = build.x(), bias = build.column();
    build.differentiate(add(a, b), {a, b});
    build.differentiate(activation(a, kind), {a});
    build.differentiate(bias_activation(a, bias, kind), {a, bias});
    build.differentiate(add_activation(a, b, kind), {a, b});
  }
  const Var a = build.x(), b = build.x();
  build.differentiate(concat(a, b), {a, b});
}

void convolutions(Graph& graph, const Sizes& sizes) {
  Build build(graph, sizes);
  const Var x = build.x();
  const std::int64_t in = sizes.cols, out = sizes.cols + 5;
  for (const Activation kind : kActivations) {
    const Var weight = build.param({3, 3, in, out}), bias = build.param({out});
    build.differentiate(conv2d(x, weight, bias, {.padding = 1, .activation = kind}), {x, weight, bias});
  }
  const Var one = build.param({1, 1, in, out}), wide = build.param({2, 3, in, out}), large = build.param({3, 3, in, 4});
  build.differentiate(conv2d(x, one), {x, one});
  build.differentiate(conv2d(x, one, {.stride = 2}), {x, one});
  build.differentiate(conv2d(x, wide, {.stride = 2, .padding = 1, .activation = Activation::kRelu}), {x, wide});
  build.differentiate(upsampled_conv2d(x, large), {x, large});
  if (sizes.height % 2 == 0 && sizes.width % 2 == 0) {
    const Var bias = build.param({4});
    build.differentiate(downsampled_conv2d(x, large, bias), {x, large, bias});
  }
}

}  // namespace

std::vector<GraphCase> kernel_graphs() {
  // One row, one column, odd columns, more rows than a block has threads, more than a sum takes in one pass.
  const std::vector<Sizes> any{{1, 7}, {5, 1}, {3, 33}, {257, 51}, {1030, 3}};
  const std::vector<Sizes> distribution{{1, 7}, {3, 33}, {257, 51}, {5, 300}};
  const std::vector<Sizes> product{{1, 7}, {3, 33}, {257, 51}};
  const std::vector<Sizes> image{{1, 7, 4, 4}, {2, 17, 6, 10}, {3, 35, 5, 7}, {5, 64, 8, 8}, {257, 3, 3, 2}};
  const std::vector<Sizes> small_image{{1, 3, 4, 4}, {3, 17, 6, 10}, {2, 8, 5, 7}};
  std::vector<Sizes> both = any;
  both.insert(both.end(), image.begin(), image.end());
  return {
      {"Arithmetic", arithmetic, any},
      {"MoreThanAGrid", more_than_a_grid, {{1100, 1000}}},
      {"Activations", activations, any},
      {"Products", products, product},
      {"LayerNorms", layer_norms, {{1, 7}, {5, 1}, {3, 33}, {130, 51}, {1030, 3}}},
      {"Moving", moving, any},
      {"Functions", functions, any},
      {"Broadcasts", broadcasts, any},
      {"Reductions", reductions, any},
      {"Distributions", distributions, distribution},
      {"Embeddings", embeddings, any},
      {"SpectralNorms", spectral_norms, {{1, 7}, {5, 1}, {33, 3}, {257, 51}, {27, 300}}},
      {"BatchNorms", batch_norms, both},
      // Their gradients take a block for each row.
      {"Modulations",
       modulations,
       {{1, 7}, {3, 33}, {65, 10}, {1, 7, 4, 4}, {2, 17, 6, 10}, {3, 35, 5, 7}, {4, 64, 8, 8}}},
      {"Pools", pools, image},
      {"Resizes", resizes, image},
      {"Bytes", bytes, image},
      {"ImageParts", image_parts, image},
      {"Convolutions", convolutions, small_image},
  };
}

std::set<std::string> defined_operations() {
  std::set<std::string> names;
  const std::regex definition("^    \\.name = \"([a-z0-9_]+)\",.*");
  for (const auto& file : std::filesystem::directory_iterator(source_dir() + "/learner/ops")) {
    std::ifstream in(file.path());
    for (std::string line; std::getline(in, line);) {
      if (std::smatch match; std::regex_match(line, match, definition)) names.insert(match[1]);
    }
  }
  return names;
}

}  // namespace troupe::learner
