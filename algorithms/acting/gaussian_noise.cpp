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
  GaussianNoise(const GaussianNoiseOptions& options, const Explorer& explorer)
      : options_(options),
        count_(std::max<std::int64_t>(explorer.count, 1)),
        acted_{{"action", DType::kF32, Shape{static_cast<std::int64_t>(options.low.size())}}},
        rng_(explorer.seed),
        noise_(options.low.size()),
        action_(options.low.size()) {}

  const Signature& acted() const override { return acted_; }

  Status choose(const PolicyRow& policy, std::span<std::byte> acted) override {
    TROUPE_ASSIGN(const auto chosen, output_row(policy, "action", action_.size()));
    const double kept = policy.first ? 0 : options_.correlation;
    const double fresh = std::sqrt(1 - kept * kept), sigma = sigma_now();
    for (std::size_t i = 0; i < action_.size(); ++i) {
      const double half_range = (options_.high[i] - options_.low[i]) / 2;
      noise_[i] = kept * noise_[i] + fresh * rng_.normal();
      const double noisy = chosen[i] + sigma * half_range * noise_[i];
      action_[i] = static_cast<float>(std::clamp(noisy, options_.low[i], options_.high[i]));
    }
    std::memcpy(acted.data(), action_.data(), acted.size());
    ++steps_;
    return {};
  }

  /// Steps are part of it where the deviation depends on them.
  std::vector<std::byte> save_state() const override {
    const auto noise = std::as_bytes(std::span(noise_)), steps = std::as_bytes(std::span(&steps_, 1));
    std::vector<std::byte> state = rng_bytes(rng_);
    state.insert(state.end(), noise.begin(), noise.end());
    if (options_.sigma_env_steps > 0) state.insert(state.end(), steps.begin(), steps.end());
    return state;
  }

  Status restore_state(std::span<const std::byte> state) override {
    std::vector<double> noise(noise_.size());
    std::int64_t steps = 0;
    const std::size_t counted = options_.sigma_env_steps > 0 ? sizeof(steps) : 0;
    TROUPE_TRY(check_rng_bytes(state, noise.size() * sizeof(double) + counted, "noise"));
    std::memcpy(&steps, state.data() + state.size() - counted, counted);
    if (steps < 0) return Error{Code::kCorrupt, fmt::format("noise: state of {} steps, expected 0 or more", steps)};
    std::memcpy(noise.data(), state.data() + sizeof(Rng::State), noise.size() * sizeof(double));
    for (std::size_t i = 0; i < noise.size(); ++i) {
      if (!std::isfinite(noise[i])) {
        return Error{Code::kCorrupt, fmt::format("state has noise[{}] = {}, expected finite values", i, noise[i])};
      }
    }
    restore_rng(rng_, state);
    noise_ = std::move(noise);
    steps_ = steps;
    return {};
  }

 private:
  double sigma_now() const {
    if (options_.sigma_env_steps == 0) return options_.sigma;
    const auto of_run = static_cast<double>(options_.env_steps_before + steps_ * count_);
    const double share = std::min(of_run / static_cast<double>(options_.sigma_env_steps), 1.0);
    return options_.sigma + share * (options_.final_sigma - options_.sigma);
  }

  GaussianNoiseOptions options_;
  std::int64_t count_;      // environments of the run
  std::int64_t steps_ = 0;  // of this one
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
    if (!(options.final_sigma >= 0) || options.sigma_env_steps < 0 || options.env_steps_before < 0) {
      return Error{Code::kInvalidArgument,
                   fmt::format("gaussian noise: final_sigma {}, sigma_env_steps {} and env_steps_before {}, expected "
                               "at least 0 each",
                               options.final_sigma, options.sigma_env_steps, options.env_steps_before)};
    }
    return {std::make_unique<GaussianNoise>(options, explorer)};
  };
}

}  // namespace troupe::acting
