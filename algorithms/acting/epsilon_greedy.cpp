#include <troupe/algorithms/acting/epsilon_greedy.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include <troupe/algorithms/acting/exploring.hpp>
#include <troupe/core/rng.hpp>

namespace troupe::acting {
namespace {

class EpsilonGreedy final : public Exploration {
 public:
  EpsilonGreedy(const EpsilonGreedyOptions& options, std::uint64_t seed)
      : options_(options), values_{options.values, DType::kF32, Shape{options.choices}}, rng_(seed) {}

  const Signature& acted() const override { return acted_; }

  Status choose(const PolicyRow& policy, std::span<std::byte> acted) override {
    const int column = policy.outputs.find(values_.name);
    if (column < 0 || (*policy.outputs.signature)[static_cast<std::size_t>(column)] != values_) {
      return Error{Code::kNotFound, fmt::format("the policy has no output {}", values_.to_string())};
    }
    const auto count = static_cast<std::size_t>(options_.choices);
    const auto values = policy.outputs.as<float>(static_cast<std::size_t>(column))
                            .subspan(static_cast<std::size_t>(policy.row) * count, count);
    auto action = static_cast<std::int32_t>(std::ranges::max_element(values) - values.begin());
    // Both numbers are drawn in every step, so that a run of another epsilon sees the same ones.
    const bool explores = rng_.uniform() < options_.epsilon;
    const auto other = static_cast<std::int32_t>(rng_.below(count));
    if (explores) action = other;
    std::memcpy(acted.data(), &action, sizeof(action));
    return {};
  }

  std::vector<std::byte> save_state() const override { return rng_bytes(rng_); }
  Status restore_state(std::span<const std::byte> state) override {
    TROUPE_TRY(check_rng_bytes(state, 0, "epsilon greedy"));
    restore_rng(rng_, state);
    return {};
  }

 private:
  const EpsilonGreedyOptions options_;
  const TensorSpec values_;
  const Signature acted_ = {{"action", DType::kI32, Shape{}}};
  Rng rng_;
};

}  // namespace

MakeExploration epsilon_greedy(EpsilonGreedyOptions options) {
  return [options = std::move(options)](const Explorer& explorer) -> Result<std::unique_ptr<Exploration>> {
    if (options.choices < 1) {
      return Error{Code::kInvalidArgument,
                   fmt::format("epsilon greedy: {} choices, expected 1 or more", options.choices)};
    }
    if (!(options.epsilon >= 0 && options.epsilon <= 1)) {
      return Error{Code::kInvalidArgument, fmt::format("epsilon greedy: epsilon {}, expected 0 .. 1", options.epsilon)};
    }
    return {std::make_unique<EpsilonGreedy>(options, explorer.seed)};
  };
}

}  // namespace troupe::acting
