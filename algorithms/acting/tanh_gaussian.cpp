#include <troupe/algorithms/acting/tanh_gaussian.hpp>

#include <fmt/format.h>

#include <cmath>
#include <cstring>
#include <utility>

#include <troupe/algorithms/acting/exploring.hpp>
#include <troupe/core/rng.hpp>

namespace troupe::acting {
namespace {

class TanhGaussian final : public Exploration {
 public:
  TanhGaussian(std::vector<double> low, std::vector<double> high, std::uint64_t seed)
      : low_(std::move(low)),
        high_(std::move(high)),
        acted_{{"action", DType::kF32, Shape{static_cast<std::int64_t>(low_.size())}}},
        rng_(seed),
        action_(low_.size()) {}

  const Signature& acted() const override { return acted_; }

  Status choose(const PolicyRow& policy, std::span<std::byte> acted) override {
    TROUPE_ASSIGN(const auto mean, output_row(policy, "mean", action_.size()));
    TROUPE_ASSIGN(const auto stddev, output_row(policy, "stddev", action_.size()));
    for (std::size_t i = 0; i < action_.size(); ++i) {
      const double squashed = std::tanh(mean[i] + stddev[i] * rng_.normal());
      action_[i] = static_cast<float>(low_[i] + (squashed + 1) / 2 * (high_[i] - low_[i]));
    }
    std::memcpy(acted.data(), action_.data(), acted.size());
    return {};
  }

  std::vector<std::byte> save_state() const override { return rng_bytes(rng_); }
  Status restore_state(std::span<const std::byte> state) override {
    TROUPE_TRY(check_rng_bytes(state, 0, "squashed Gaussian"));
    restore_rng(rng_, state);
    return {};
  }

 private:
  std::vector<double> low_, high_;
  Signature acted_;
  Rng rng_;
  std::vector<float> action_;
};

}  // namespace

MakeExploration tanh_gaussian(std::vector<double> low, std::vector<double> high) {
  return
      [low = std::move(low), high = std::move(high)](const Explorer& explorer) -> Result<std::unique_ptr<Exploration>> {
        TROUPE_TRY(check_bounds(low, high, "squashed Gaussian"));
        return {std::make_unique<TanhGaussian>(low, high, explorer.seed)};
      };
}

}  // namespace troupe::acting
