#include <troupe/envs/flattened.hpp>

#include <fmt/format.h>

#include <cstring>
#include <utility>

#include <troupe/core/check.hpp>
#include <troupe/envs/float_actions.hpp>
#include <troupe/envs/wrapper.hpp>

namespace troupe::envs {
namespace {

/// Casts `count` numbers of type T, as they lie, and returns the bytes behind them.
template <typename T>
const std::byte* cast(const std::byte* from, std::int64_t count, float* to) {
  for (std::int64_t i = 0; i < count; ++i, from += sizeof(T)) {
    T value;
    std::memcpy(&value, from, sizeof(value));
    to[i] = static_cast<float>(value);
  }
  return from;
}

class Flattened final : public Wrapper {
 public:
  Flattened(std::unique_ptr<Environment> inside, EnvSpec spec)
      : Wrapper(std::move(inside), std::move(spec)),
        raw_(row_bytes(this->inside().spec().observation)),
        flat_(static_cast<std::size_t>(this->spec().observation_size())) {}

  Result<TimeStep> reset(std::uint64_t seed, std::span<std::byte> observation) override {
    return flat(inside().reset(seed, raw_), observation);
  }
  Result<TimeStep> reset(std::span<std::byte> observation) override { return flat(inside().reset(raw_), observation); }
  Result<TimeStep> step(std::span<const std::byte> action, std::span<std::byte> observation) override {
    return flat(inside().step(action, raw_), observation);
  }

 private:
  Result<TimeStep> flat(const Result<TimeStep>& result, std::span<std::byte> observation) {
    if (!result.ok()) return result;
    const std::byte* from = raw_.data();
    float* to = flat_.data();
    for (const TensorSpec& column : inside().spec().observation) {
      const std::int64_t count = column.shape.elements();
      if (column.dtype == DType::kF64) {
        from = cast<double>(from, count, to);
      } else if (column.dtype == DType::kF32) {
        from = cast<float>(from, count, to);
      } else if (column.dtype == DType::kI32) {
        from = cast<std::int32_t>(from, count, to);
      } else {
        from = cast<std::int64_t>(from, count, to);
      }
      to += count;
    }
    TROUPE_CHECK(observation.size() == flat_.size() * sizeof(float), "{}: {} bytes for {} floats", spec().name,
                 observation.size(), flat_.size());
    std::memcpy(observation.data(), flat_.data(), observation.size());
    return result;
  }

  std::vector<std::byte> raw_;
  std::vector<float> flat_;
};

}  // namespace

Result<EnvSpec> flattened(const EnvSpec& spec) {
  for (const TensorSpec& column : spec.observation) {
    if (column.dtype == DType::kU8 || column.dtype == DType::kBF16) {
      return Error{Code::kInvalidArgument,
                   fmt::format("{}: column {} is not made a vector of floats; expected float64, "
                               "float32, int32 or int64",
                               spec.name, column.to_string())};
    }
  }
  TROUPE_ASSIGN(EnvSpec flat, float_actions(spec));
  flat.observation = {{"observation", DType::kF32, Shape{spec.observation_size()}}};
  return flat;
}

MakeEnvironment flattened(MakeEnvironment make) {
  return [make = float_actions(std::move(make))](std::uint64_t seed) -> Result<std::unique_ptr<Environment>> {
    TROUPE_ASSIGN(auto inside, make(seed));
    TROUPE_ASSIGN(EnvSpec spec, flattened(inside->spec()));
    return {std::make_unique<Flattened>(std::move(inside), std::move(spec))};
  };
}

}  // namespace troupe::envs
