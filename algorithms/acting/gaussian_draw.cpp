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
  GaussianDraw(std::vector<double> low, std::vector<double> high, Within within, std::uint64_t seed)
      : low_(std::move(low)),
        high_(std::move(high)),
        within_(within),
        acted_{{"action", DType::kF32, Shape{static_cast<std::int64_t>(low_.size())}}},
        rng_(seed),
        action_(low_.size()) {}

  const Signature& acted() const override { return acted_; }

  Status choose(const PolicyRow& policy, std::span<std::byte> acted) override {
    TROUPE_ASSIGN(const auto mean, output_row(policy, "mean", action_.size()));
    TROUPE_ASSIGN(const auto stddev, output_row(policy, "stddev", action_.size()));
    for (std::size_t i = 0; i < action_.size(); ++i) {
      const double x = within_(mean[i] + stddev[i] * rng_.normal());
      action_[i] = static_cast<float>(low_[i] + (x + 1) / 2 * (high_[i] - low_[i]));
    }
    std::memcpy(acted.data(), action_.data(), acted.size());
    return {};
  }

  std::vector<std::byte> save_state() const override { return rng_bytes(rng_); }
  Status restore_state(std::span<const std::byte> state) override {
    TROUPE_TRY(check_rng_bytes(state, 0, "Gaussian"));
    restore_rng(rng_, state);
    return {};
  }

 private:
  std::vector<double> low_, high_;
  Within within_;
  Signature acted_;
  Rng rng_;
  std::vector<float> action_;
};

MakeExploration gaussian_draw(std::vector<double> low, std::vector<double> high, Within within) {
  return [low = std::move(low), high = std::move(high),
          within](const Explorer& explorer) -> Result<std::unique_ptr<Exploration>> {
    TROUPE_TRY(check_bounds(low, high, "Gaussian"));
    return {std::make_unique<GaussianDraw>(low, high, within, explorer.seed)};
  };
}

}  // namespace

MakeExploration tanh_gaussian(std::vector<double> low, std::vector<double> high) {
  return gaussian_draw(std::move(low), std::move(high), [](double draw) { return std::tanh(draw); });
}

MakeExploration clipped_gaussian(std::vector<double> low, std::vector<double> high) {
  return gaussian_draw(std::move(low), std::move(high), [](double draw) { return std::clamp(draw, -1.0, 1.0); });
}

}  // namespace troupe::acting
