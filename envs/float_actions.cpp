#include <troupe/envs/float_actions.hpp>

#include <fmt/format.h>

#include <cstring>
#include <utility>
#include <vector>

#include <troupe/envs/wrapper.hpp>

namespace troupe::envs {
namespace {

class FloatActions final : public Wrapper {
 public:
  FloatActions(std::unique_ptr<Environment> inside, EnvSpec spec)
      : Wrapper(std::move(inside), std::move(spec)), action_(static_cast<std::size_t>(this->spec().action_size())) {}

  Result<TimeStep> step(std::span<const std::byte> action, std::span<std::byte> observation) override {
    TROUPE_TRY(check_action(spec(), action));
    if (inside().spec().action.tensor.dtype == DType::kF32) return inside().step(action, observation);
    for (std::size_t i = 0; i < action_.size(); ++i) {
      float value = 0;
      std::memcpy(&value, action.data() + i * sizeof(value), sizeof(value));
      action_[i] = value;
    }
    return inside().step(std::as_bytes(std::span(action_)), observation);
  }

 private:
  std::vector<double> action_;
};

}  // namespace

Result<EnvSpec> float_actions(const EnvSpec& spec) {
  const TensorSpec& action = spec.action.tensor;
  if (spec.action.discrete() || (action.dtype != DType::kF64 && action.dtype != DType::kF32)) {
    return Error{Code::kInvalidArgument,
                 fmt::format("{}: got the {}action {} with {} choices, expected bounded float64 or float32", spec.name,
                             spec.action.discrete() ? "discrete " : "", action.to_string(), spec.action.choices)};
  }
  EnvSpec made = spec;
  made.action.tensor.dtype = DType::kF32;
  made.action.tensor.shape = Shape{spec.action_size()};
  return made;
}

MakeEnvironment float_actions(MakeEnvironment make) {
  return [make = std::move(make)](std::uint64_t seed) -> Result<std::unique_ptr<Environment>> {
    TROUPE_ASSIGN(auto inside, make(seed));
    TROUPE_ASSIGN(EnvSpec spec, float_actions(inside->spec()));
    return {std::make_unique<FloatActions>(std::move(inside), std::move(spec))};
  };
}

}  // namespace troupe::envs
