#include <troupe/algorithms/acting/gaussian_draw.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include <troupe/algorithms/acting/exploring.hpp>
#include <troupe/core/rng.hpp>

namespace troupe::acting {
namespace {

/// From a draw to a number in [-1, 1].
using Within = double (*)(double);

class GaussianDraw final : public Exploration {
 public:
  GaussianDraw(std::vector<double> low, std::vector<double> high, Within within, NoiseRepeats repeats,
               std::uint64_t seed)
      : low_(std::move(low)),
        high_(std::move(high)),
        within_(within),
        repeats_(repeats),
        noise_(low_.size()),
        acted_{{"action", DType::kF32, Shape{static_cast<std::int64_t>(low_.size())}}},
        rng_(seed),
        action_(low_.size()) {}

  const Signature& acted() const override { return acted_; }

  Status choose(const PolicyRow& policy, std::span<std::byte> acted) override {
    TROUPE_ASSIGN(const auto mean, output_row(policy, "mean", action_.size()));
    TROUPE_ASSIGN(const auto stddev, output_row(policy, "stddev", action_.size()));
    if (left_ == 0) {
      for (double& each : noise_) each = rng_.normal();
      left_ = draw_repeats();
    }
    --left_;
    for (std::size_t i = 0; i < action_.size(); ++i) {
      const double x = within_(mean[i] + stddev[i] * noise_[i]);
      action_[i] = static_cast<float>(low_[i] + (x + 1) / 2 * (high_[i] - low_[i]));
    }
    std::memcpy(acted.data(), action_.data(), acted.size());
    return {};
  }

  /// Noise that is not held is no state.
  std::vector<std::byte> save_state() const override {
    std::vector<std::byte> state = rng_bytes(rng_);
    if (repeats_.most == 1) return state;
    const auto left = std::as_bytes(std::span(&left_, 1)), noise = std::as_bytes(std::span(noise_));
    state.insert(state.end(), left.begin(), left.end());
    state.insert(state.end(), noise.begin(), noise.end());
    return state;
  }
  Status restore_state(std::span<const std::byte> state) override {
    const std::size_t held = repeats_.most == 1 ? 0 : sizeof(left_) + noise_.size() * sizeof(double);
    TROUPE_TRY(check_rng_bytes(state, held, "Gaussian"));
    if (held > 0) {
      std::int64_t left = 0;
      std::memcpy(&left, state.data() + sizeof(Rng::State), sizeof(left));
      if (left < 0 || left >= repeats_.most) {
        return Error{Code::kCorrupt,
                     fmt::format("Gaussian: noise is held for {} steps, expected below {}", left, repeats_.most)};
      }
      left_ = left;
      std::memcpy(noise_.data(), state.data() + sizeof(Rng::State) + sizeof(left), noise_.size() * sizeof(double));
    }
    restore_rng(rng_, state);
    return {};
  }

 private:
  /// Steps for which the noise is held, the present one included.
  std::int64_t draw_repeats() {
    if (repeats_.most == 1) return 1;
    const auto share = [this](std::int64_t n) { return std::pow(static_cast<double>(n), -repeats_.exponent); };
    double all = 0;
    for (std::int64_t n = 1; n <= repeats_.most; ++n) all += share(n);
    double rest = rng_.uniform() * all;
    std::int64_t n = 1;
    while (n < repeats_.most && rest >= share(n)) rest -= share(n++);
    return n;
  }

  std::vector<double> low_, high_;
  Within within_;
  NoiseRepeats repeats_;
  std::int64_t left_ = 0;  ///< steps for which the noise is still held
  std::vector<double> noise_;
  Signature acted_;
  Rng rng_;
  std::vector<float> action_;
};

MakeExploration gaussian_draw(std::vector<double> low, std::vector<double> high, Within within, NoiseRepeats repeats) {
  return [low = std::move(low), high = std::move(high), within,
          repeats](const Explorer& explorer) -> Result<std::unique_ptr<Exploration>> {
    TROUPE_TRY(check_bounds(low, high, "Gaussian"));
    if (repeats.most < 1 || !std::isfinite(repeats.exponent)) {
      return Error{Code::kInvalidArgument, fmt::format("Gaussian: noise is held for {} steps at most with exponent {}, "
                                                       "expected 1 or more and a finite number",
                                                       repeats.most, repeats.exponent)};
    }
    return {std::make_unique<GaussianDraw>(low, high, within, repeats, explorer.seed)};
  };
}

}  // namespace

MakeExploration tanh_gaussian(std::vector<double> low, std::vector<double> high, NoiseRepeats repeats) {
  return gaussian_draw(
      std::move(low), std::move(high), [](double draw) { return std::tanh(draw); }, repeats);
}

MakeExploration clipped_gaussian(std::vector<double> low, std::vector<double> high) {
  return gaussian_draw(std::move(low), std::move(high), [](double draw) { return std::clamp(draw, -1.0, 1.0); }, {});
}

}  // namespace troupe::acting
