#include <troupe/learner/engine/initial_values.hpp>

#include <Eigen/QR>
#include <algorithm>
#include <cmath>

#include <troupe/core/rng.hpp>

namespace troupe::learner {

namespace {

/// The orthogonal factor of a matrix of normal numbers, with the signs that make it uniform (Mezzadri 2007, section 5).
void make_orthogonal(std::span<float> tensor, const Shape& shape, double gain, Rng& rng) {
  const auto elements = static_cast<std::int64_t>(tensor.size());
  const std::int64_t outputs = shape.rank() == 0 ? 1 : shape[shape.rank() - 1];
  const std::int64_t inputs = outputs == 0 ? 0 : elements / outputs;
  if (elements == 0) return;
  const bool wide = inputs < outputs;
  Eigen::MatrixXd drawn(std::max(inputs, outputs), std::min(inputs, outputs));
  for (std::int64_t i = 0; i < elements; ++i) {
    const std::int64_t in = i / outputs, out = i % outputs;
    (wide ? drawn(out, in) : drawn(in, out)) = rng.normal();
  }
  const Eigen::HouseholderQR<Eigen::MatrixXd> factors(drawn);
  const Eigen::VectorXd diagonal = factors.matrixQR().diagonal();
  drawn = factors.householderQ() * Eigen::MatrixXd::Identity(drawn.rows(), drawn.cols());
  for (std::int64_t i = 0; i < elements; ++i) {
    const std::int64_t in = i / outputs, out = i % outputs, column = wide ? in : out;
    const double value = wide ? drawn(out, in) : drawn(in, out);
    tensor[static_cast<std::size_t>(i)] = static_cast<float>(diagonal(column) < 0 ? -gain * value : gain * value);
  }
}

}  // namespace

void initialise(std::span<float> tensor, const Shape& shape, Init init, std::uint64_t seed) {
  Rng rng(seed);
  if (init.kind == Init::Kind::kOrthogonal) return make_orthogonal(tensor, shape, init.value, rng);
  for (float& x : tensor) {
    double value = init.value;
    switch (init.kind) {
      case Init::Kind::kConstant:
      case Init::Kind::kOrthogonal:
        break;
      case Init::Kind::kUniform:
        value *= 2 * rng.uniform() - 1;
        break;
      case Init::Kind::kNormal:
        value *= rng.normal();
        break;
      case Init::Kind::kTruncatedNormal: {
        double draw = rng.normal();
        while (std::abs(draw) > 2) draw = rng.normal();
        value *= draw;
        break;
      }
    }
    x = static_cast<float>(value);
  }
}

}  // namespace troupe::learner
