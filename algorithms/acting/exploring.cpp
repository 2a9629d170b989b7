#include <troupe/algorithms/acting/exploring.hpp>

#include <fmt/format.h>

#include <cmath>
#include <cstring>
#include <string>

namespace troupe::acting {

Result<std::span<const float>> output_row(const PolicyRow& policy, std::string_view name, std::size_t size) {
  const TensorSpec wanted{std::string(name), DType::kF32, Shape{static_cast<std::int64_t>(size)}};
  const int column = policy.outputs.find(name);
  if (column < 0 || (*policy.outputs.signature)[static_cast<std::size_t>(column)] != wanted) {
    return Error{Code::kNotFound, fmt::format("the policy has no output {}", wanted.to_string())};
  }
  return policy.outputs.as<float>(static_cast<std::size_t>(column))
      .subspan(static_cast<std::size_t>(policy.row) * size, size);
}

Status check_bounds(std::span<const double> low, std::span<const double> high, std::string_view what) {
  if (low.empty() || low.size() != high.size()) {
    return Error{Code::kInvalidArgument, fmt::format("{}: {} lower and {} upper bounds, expected as many, at least one",
                                                     what, low.size(), high.size())};
  }
  for (std::size_t i = 0; i < low.size(); ++i) {
    if (std::isfinite(low[i]) && std::isfinite(high[i]) && low[i] < high[i]) continue;
    return Error{Code::kInvalidArgument, fmt::format("{}: bounds of action {} are [{}, {}], expected finite and rising",
                                                     what, i, low[i], high[i])};
  }
  return {};
}

std::vector<std::byte> rng_bytes(const Rng& rng) {
  const auto words = std::as_bytes(std::span(rng.state()));
  return {words.begin(), words.end()};
}

Status check_rng_bytes(std::span<const std::byte> state, std::size_t more, std::string_view what) {
  const std::size_t expected = sizeof(Rng::State) + more;
  if (state.size() == expected) return {};
  return Error{Code::kCorrupt, fmt::format("{}: state of {} bytes, expected {}", what, state.size(), expected)};
}

void restore_rng(Rng& rng, std::span<const std::byte> state) {
  Rng::State words;
  std::memcpy(words.data(), state.data(), sizeof(words));
  rng.set_state(words);
}

}  // namespace troupe::acting
