#include <troupe/learner/ops/layer_keys.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

namespace troupe::learner {
namespace {

constexpr std::array<std::pair<std::string_view, Activation>, 5> kActivations{{{"relu", Activation::kRelu},
                                                                               {"leaky_relu", Activation::kLeakyRelu},
                                                                               {"elu", Activation::kElu},
                                                                               {"tanh", Activation::kTanh},
                                                                               {"sigmoid", Activation::kSigmoid}}};

}  // namespace

ConfigSchema layer_keys(std::string_view prefix, const std::vector<std::int64_t>& layers, Activation activation,
                        std::string_view of) {
  return {{.path = fmt::format("{}layers", prefix),
           .default_value = layers,
           .doc = fmt::format("Hidden layers{}", of),
           .unit = "units",
           .min = 1,
           .max = 16384,
           .fixed = ConfigKey::Fixed::kValue},
          activation_key(prefix, activation, of)};
}

ConfigKey activation_key(std::string_view prefix, Activation activation, std::string_view of) {
  ConfigKey key{.path = fmt::format("{}activation", prefix),
                .default_value = std::string(),
                .doc = fmt::format("Behind each hidden layer{}", of),
                .fixed = ConfigKey::Fixed::kValue};
  for (const auto& [name, kind] : kActivations) {
    key.choices.emplace_back(name);
    if (kind == activation) key.default_value = std::string(name);
  }
  return key;
}

Activation read_activation(const ConfigSection& section, std::string_view prefix) {
  const std::string& chosen = section.get_string(fmt::format("{}activation", prefix));
  return std::ranges::find(kActivations, chosen, &std::pair<std::string_view, Activation>::first)->second;
}

}  // namespace troupe::learner
