#include <troupe/envs/wrappers/resize.hpp>

#include <algorithm>
#include <cmath>
#include <memory>
#include <utility>
#include <vector>

#include <troupe/core/resize.hpp>
#include <troupe/envs/wrappers/image_wrapper.hpp>

namespace troupe::envs {
namespace {

class Resize final : public ImageWrapper {
 public:
  Resize(std::unique_ptr<Environment> inside, EnvSpec spec) : ImageWrapper(std::move(inside), std::move(spec)) {}

 protected:
  void show(std::size_t index, bool, std::span<const std::uint8_t> from, std::span<std::uint8_t> to) override {
    const auto& [before, after] = images()[index];
    means_.resize(to.size());
    resizer_.resize({from, before[0], before[1], before[2]},
                    {.height = static_cast<double>(before[0]), .width = static_cast<double>(before[1])},
                    {.height = after[0], .width = after[1], .shrink = Resizer::Shrink::kArea}, means_);
    std::ranges::transform(means_, to.begin(), [](float mean) {
      return static_cast<std::uint8_t>(std::clamp(std::lround(mean), 0L, 255L));
    });
  }

 private:
  Resizer resizer_;
  std::vector<float> means_;
};

}  // namespace

Wrap resize(std::int64_t height, std::int64_t width) {
  return [height, width](std::unique_ptr<Environment> inside, std::uint64_t) -> Result<std::unique_ptr<Environment>> {
    TROUPE_ASSIGN(EnvSpec spec, show_images(inside->spec(), [&](const Shape& image) -> Result<Shape> {
                    return Shape{height, width, image[2]};
                  }));
    return {std::make_unique<Resize>(std::move(inside), std::move(spec))};
  };
}

}  // namespace troupe::envs
