#include <troupe/algorithms/acting/random_at_first.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include <troupe/algorithms/acting/exploring.hpp>
#include <troupe/core/rng.hpp>

namespace troupe::acting {
namespace {

class RandomAtFirst final : public Exploration {
 public:
  RandomAtFirst(const RandomAtFirstOptions& options, std::int64_t steps, std::unique_ptr<Exploration> then,
                std::uint64_t seed)
      : low_(options.low),
        high_(options.high),
        left_(steps),
        then_(std::move(then)),
        rng_(seed),
        action_(low_.size()) {}

  const Signature& acted() const override { return then_->acted(); }

  Status choose(const PolicyRow& policy, std::span<std::byte> acted) override {
    if (left_ == 0) return then_->choose(policy, acted);
    --left_;
    for (std::size_t i = 0; i < action_.size(); ++i) {
      action_[i] = static_cast<float>(low_[i] + (high_[i] - low_[i]) * rng_.uniform());
    }
    std::memcpy(acted.data(), action_.data(), acted.size());
    return {};
  }

  std::vector<std::byte> save_state() const override {
    std::vector<std::byte> state = rng_bytes(rng_);
    const auto left = std::as_bytes(std::span(&left_, 1));
    state.insert(state.end(), left.begin(), left.end());
    const std::vector<std::byte> inner = then_->save_state();
    state.insert(state.end(), inner.begin(), inner.end());
    return state;
  }

  Status restore_state(std::span<const std::byte> state) override {
    std::int64_t left = 0;
    const std::size_t own = sizeof(Rng::State) + sizeof(left);
    if (state.size() < own) {
      return Error{Code::kCorrupt,
                   fmt::format("random actions: state of {} bytes, expected {} or more", state.size(), own)};
    }
    std::memcpy(&left, state.data() + sizeof(Rng::State), sizeof(left));
    if (left < 0) return Error{Code::kCorrupt, fmt::format("random actions: {} steps left, expected 0 or more", left)};
    TROUPE_TRY(then_->restore_state(state.subspan(own)));
    restore_rng(rng_, state);
    left_ = left;
    return {};
  }

 private:
  std::vector<double> low_, high_;
  std::int64_t left_;
  std::unique_ptr<Exploration> then_;
  Rng rng_;
  std::vector<float> action_;
};

}  // namespace

MakeExploration random_at_first(RandomAtFirstOptions options, MakeExploration then) {
  return [options = std::move(options),
          then = std::move(then)](const Explorer& explorer) -> Result<std::unique_ptr<Exploration>> {
    TROUPE_TRY(check_bounds(options.low, options.high, "random actions"));
    if (options.env_steps < 0) {
      return Error{Code::kInvalidArgument,
                   fmt::format("random actions: {} env steps, expected 0 or more", options.env_steps)};
    }
    TROUPE_ASSIGN(auto inner, then(explorer));
    const TensorSpec action{"action", DType::kF32, Shape{static_cast<std::int64_t>(options.low.size())}};
    if (inner->acted() != Signature{action}) {
      return Error{Code::kInvalidArgument,
                   fmt::format("random actions: what follows gives {} columns, expected {} alone",
                               inner->acted().size(), action.to_string())};
    }
    const std::int64_t count = std::max<std::int64_t>(explorer.count, 1);
    return {std::make_unique<RandomAtFirst>(options, (options.env_steps + count - 1) / count, std::move(inner),
                                            derive_seed(explorer.seed, "random at first", 0))};
  };
}

}  // namespace troupe::acting
