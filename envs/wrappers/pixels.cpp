#include <troupe/envs/wrappers/pixels.hpp>

#include <fmt/format.h>

#include <memory>
#include <utility>

#include <troupe/core/check.hpp>

namespace troupe::envs {
namespace {

class Pixels final : public Wrapper {
 public:
  Pixels(std::unique_ptr<Environment> inside, EnvSpec spec, const PixelsOptions& options)
      : Wrapper(std::move(inside), std::move(spec)), options_(options) {
    const std::size_t states = row_bytes(this->inside().spec().observation);
    if (!options.keep_states) raw_.resize(states);
    kept_ = options.keep_states ? states : 0;
  }

  Result<TimeStep> reset(std::uint64_t seed, std::span<std::byte> observation) override {
    return drawn(inside().reset(seed, states(observation)), observation);
  }
  Result<TimeStep> reset(std::span<std::byte> observation) override {
    return drawn(inside().reset(states(observation)), observation);
  }
  Result<TimeStep> step(std::span<const std::byte> action, std::span<std::byte> observation) override {
    return drawn(inside().step(action, states(observation)), observation);
  }

 private:
  /// Where the environment inside writes what it observes.
  std::span<std::byte> states(std::span<std::byte> observation) {
    TROUPE_CHECK(observation.size() == row_bytes(spec().observation), "{}: observation span has {} bytes, expected {}",
                 spec().name, observation.size(), row_bytes(spec().observation));
    return options_.keep_states ? observation.first(kept_) : std::span<std::byte>(raw_);
  }

  Result<TimeStep> drawn(const Result<TimeStep>& result, std::span<std::byte> observation) {
    if (!result.ok()) return result;
    RenderOptions how{.height = options_.height, .width = options_.width, .profile = options_.profile};
    std::span<std::byte> to = observation.subspan(kept_);
    const std::size_t bytes = to.size() / options_.cameras.size();
    for (const std::string& camera : options_.cameras) {
      how.camera = camera;
      TROUPE_TRY(inside().render(how, {reinterpret_cast<std::uint8_t*>(to.data()), bytes}));
      to = to.subspan(bytes);
    }
    return result;
  }

  PixelsOptions options_;
  std::size_t kept_ = 0;
  std::vector<std::byte> raw_;
};

}  // namespace

Wrap pixels(const PixelsOptions& options) {
  return [options](std::unique_ptr<Environment> inside, std::uint64_t) -> Result<std::unique_ptr<Environment>> {
    EnvSpec spec = inside->spec();
    if (!options.keep_states) spec.observation.clear();
    for (const std::string& camera : options.cameras) {
      TROUPE_TRY(camera_index(spec, camera));
      const std::string column = options.cameras.size() == 1 ? "pixels" : "pixels_" + camera;
      if (find(spec.observation, column) >= 0) {
        return Error{Code::kInvalidArgument,
                     fmt::format("{} observes a column {} already, expected each camera once and "
                                 "no column of this name",
                                 spec.name, column)};
      }
      spec.observation.push_back({column, DType::kU8, {options.height, options.width, 3}});
    }
    return {std::make_unique<Pixels>(std::move(inside), std::move(spec), options)};
  };
}

}  // namespace troupe::envs
