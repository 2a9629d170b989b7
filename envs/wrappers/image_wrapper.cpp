#include <troupe/envs/wrappers/image_wrapper.hpp>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <string>
#include <utility>

#include <troupe/core/check.hpp>

namespace troupe::envs {

bool is_image(const TensorSpec& column) { return column.dtype == DType::kU8 && column.shape.rank() == 3; }

ImageWrapper::ImageWrapper(std::unique_ptr<Environment> inside, EnvSpec spec)
    : Wrapper(std::move(inside), std::move(spec)), raw_(row_bytes(this->inside().spec().observation)) {
  const Signature& from = this->inside().spec().observation;
  for (std::size_t c = 0; c < from.size(); ++c) {
    if (is_image(from[c])) shapes_.push_back({from[c].shape, this->spec().observation[c].shape});
  }
}

Result<TimeStep> ImageWrapper::reset(std::uint64_t seed, std::span<std::byte> observation) {
  return shown(inside().reset(seed, raw_), observation);
}

Result<TimeStep> ImageWrapper::reset(std::span<std::byte> observation) {
  return shown(inside().reset(raw_), observation);
}

Result<TimeStep> ImageWrapper::step(std::span<const std::byte> action, std::span<std::byte> observation) {
  return shown(inside().step(action, raw_), observation);
}

Result<TimeStep> ImageWrapper::shown(const Result<TimeStep>& result, std::span<std::byte> observation) {
  if (!result.ok()) return result;
  const Signature &before = inside().spec().observation, &after = spec().observation;
  TROUPE_CHECK(observation.size() == row_bytes(after), "{}: observation span has {} bytes, expected {}", spec().name,
               observation.size(), row_bytes(after));
  std::span<const std::byte> from = raw_;
  std::span<std::byte> to = observation;
  std::size_t image = 0;
  for (std::size_t c = 0; c < before.size(); ++c) {
    const std::size_t from_bytes = before[c].bytes(), to_bytes = after[c].bytes();
    if (is_image(before[c])) {
      show(image++, result->first(), {reinterpret_cast<const std::uint8_t*>(from.data()), from_bytes},
           {reinterpret_cast<std::uint8_t*>(to.data()), to_bytes});
    } else {
      std::ranges::copy(from.first(from_bytes), to.begin());
    }
    from = from.subspan(from_bytes);
    to = to.subspan(to_bytes);
  }
  return result;
}

Result<EnvSpec> show_images(const EnvSpec& spec, const std::function<Result<Shape>(const Shape&)>& change) {
  EnvSpec changed = spec;
  std::vector<std::string> columns;
  bool any = false;
  for (TensorSpec& column : changed.observation) {
    columns.push_back(column.to_string());
    if (!is_image(column)) continue;
    any = true;
    auto shape = change(column.shape);
    if (!shape.ok()) {
      return Error{shape.error().code,
                   fmt::format("column {} of {}: {}", column.to_string(), spec.name, shape.error().message)};
    }
    column.shape = *shape;
  }
  if (any) return changed;
  return Error{Code::kInvalidArgument,
               fmt::format("{} observes no image: got {}, expected uint8[height, width, channels]", spec.name,
                           fmt::join(columns, ", "))};
}

}  // namespace troupe::envs
