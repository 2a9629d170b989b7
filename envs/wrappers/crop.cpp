#include <troupe/envs/wrappers/crop.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <utility>

#include <troupe/envs/wrappers/image_wrapper.hpp>

namespace troupe::envs {
namespace {

std::int64_t begin(std::int64_t chosen, std::int64_t from, std::int64_t to) {
  return chosen < 0 ? (from - to) / 2 : chosen;
}

class Crop final : public ImageWrapper {
 public:
  Crop(std::unique_ptr<Environment> inside, EnvSpec spec, const CropOptions& options)
      : ImageWrapper(std::move(inside), std::move(spec)), options_(options) {}

 protected:
  void show(std::size_t index, bool, std::span<const std::uint8_t> from, std::span<std::uint8_t> to) override {
    const auto& [before, after] = images()[index];
    const std::int64_t top = begin(options_.top, before[0], after[0]);
    const std::int64_t left = begin(options_.left, before[1], after[1]);
    const auto row = static_cast<std::size_t>(after[1] * after[2]);
    for (std::int64_t y = 0; y < after[0]; ++y) {
      const auto at = static_cast<std::size_t>(((top + y) * before[1] + left) * before[2]);
      std::ranges::copy(from.subspan(at, row), to.begin());
      to = to.subspan(row);
    }
  }

 private:
  CropOptions options_;
};

/// The error of a side that is too short.
Status check_side(const char* side, const char* edge, std::int64_t begin, std::int64_t size, std::int64_t image) {
  if (begin + size <= image) return {};
  return Error{Code::kInvalidArgument, fmt::format("got {} {} and {} {}, expected a part of the {} pixels there are",
                                                   side, size, edge, begin, image)};
}

}  // namespace

Wrap crop(const CropOptions& options) {
  return [options](std::unique_ptr<Environment> inside, std::uint64_t) -> Result<std::unique_ptr<Environment>> {
    TROUPE_ASSIGN(
        EnvSpec spec, show_images(inside->spec(), [&](const Shape& image) -> Result<Shape> {
          TROUPE_TRY(check_side("height", "top", std::max<std::int64_t>(options.top, 0), options.height, image[0]));
          TROUPE_TRY(check_side("width", "left", std::max<std::int64_t>(options.left, 0), options.width, image[1]));
          return Shape{options.height, options.width, image[2]};
        }));
    return {std::make_unique<Crop>(std::move(inside), std::move(spec), options)};
  };
}

}  // namespace troupe::envs
