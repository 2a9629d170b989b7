#include <troupe/algorithms/acting/gaussian_noise.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include <troupe/algorithms/acting/exploring.hpp>
#include <troupe/core/rng.hpp>

namespace troupe::acting {
namespace {

class GaussianNoise final : public Exploration {
 public:
  GaussianNoise(const GaussianNoiseOptions& options, std::uint64_t seed)
      : options_(options),
        acted_{{"action", DType::kF32, Shape{static_cast<std::int64_t>(options.low.size())}}},
        rng_(seed),
        noise_(options.low.size()),
        action_(options.low.size()) {}

  const Signature& acted() const override { return acted_; }

  Status choose(const PolicyRow& policy, std::span<std::byte> acted) override {
    TROUPE_ASSIGN(const auto chosen, output_row(policy, "action", action_.size()));
    const double kept = policy.first ? 0 : options_.correlation;
    const double fresh = std::sqrt(1 - kept * kept);
    for (std::size_t i = 0; i < action_.size(); ++i) {
      const double half_range = (options_.high[i] - options_.low[i]) / 2;
      noise_[i] = kept * noise_[i] + fresh * rng_.normal();
      const double noisy = chosen[i] + options_.sigma * half_range * noise_[i];
      action_[i] = static_cast<float>(std::clamp(noisy, options_.low[i], options_.high[i]));
    }
    std::memcpy(acted.data(), action_.data(), acted.size());
    return {};
  }

  std::vector<std::byte> save_state() const override {
    const auto noise = std::as_bytes(std::span(noise_));
    std::vector<std::byte> state = rng_bytes(rng_);
    state.insert(state.end(), noise.begin(), noise.end());
    return state;
  }

  Status restore_state(std::span<const std::byte> state) override {
    std::vector<double> noise(noise_.size());
    TROUPE_TRY(check_rng_bytes(state, noise.size() * sizeof(double), "noise"));
    std::memcpy(noise.data(), state.data() + sizeof(Rng::State), noise.size() * sizeof(double));
    for (std::size_t i = 0; i < noise.size(); ++i) {
      if (!std::isfinite(noise[i])) {
        return Error{Code::kCorrupt, fmt::format("state has noise[{}] = {}, expected finite values", i, noise[i])};
      }
    }
    restore_rng(rng_, state);
    noise_ = std::move(noise);
    return {};
  }

 private:
  GaussianNoiseOptions options_;
  Signature acted_;
  Rng rng_;
  std::vector<double> noise_;  // of the last step, of deviation 1
  std::vector<float> action_;
};

}  // namespace

MakeExploration gaussian_noise(GaussianNoiseOptions options) {
  return [options = std::move(options)](const Explorer& explorer) -> Result<std::unique_ptr<Exploration>> {
    TROUPE_TRY(check_bounds(options.low, options.high, "gaussian noise"));
    if (!(options.sigma >= 0) || !(options.correlation >= 0 && options.correlation < 1)) {
      return Error{Code::kInvalidArgument,
                   fmt::format("gaussian noise: sigma {} and correlation {}, expected >= 0, and within [0, 1)",
                               options.sigma, options.correlation)};
    }
    return {std::make_unique<GaussianNoise>(options, explorer.seed)};
  };
}

}  // namespace troupe::acting
