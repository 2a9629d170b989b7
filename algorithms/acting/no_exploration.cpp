#include <fmt/format.h>

#include <cstring>
#include <utility>

#include <troupe/algorithms/acting/exploration.hpp>

namespace troupe::acting {
namespace {

class NoExploration final : public Exploration {
 public:
  explicit NoExploration(TensorSpec action) : acted_{std::move(action)} {}

  const Signature& acted() const override { return acted_; }
  Status choose(const PolicyRow& policy, std::span<std::byte> acted) override {
    const int column = policy.outputs.find(acted_[0].name);
    if (column < 0 || (*policy.outputs.signature)[static_cast<std::size_t>(column)] != acted_[0]) {
      return Error{Code::kNotFound, fmt::format("the policy has no output {}", acted_[0].to_string())};
    }
    const auto from = policy.outputs.columns[static_cast<std::size_t>(column)];
    std::memcpy(acted.data(), from.data() + static_cast<std::size_t>(policy.row) * acted.size(), acted.size());
    return {};
  }
  std::vector<std::byte> save_state() const override { return {}; }
  Status restore_state(std::span<const std::byte>) override { return {}; }

 private:
  Signature acted_;
};

}  // namespace

MakeExploration no_exploration(TensorSpec action) {
  return [action = std::move(action)](const Explorer&) -> Result<std::unique_ptr<Exploration>> {
    return {std::make_unique<NoExploration>(action)};
  };
}

}  // namespace troupe::acting
