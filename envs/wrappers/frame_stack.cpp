#include <troupe/envs/wrappers/frame_stack.hpp>

#include <algorithm>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include <troupe/envs/wrappers/image_wrapper.hpp>

namespace troupe::envs {
namespace {

class FrameStack final : public ImageWrapper {
 public:
  FrameStack(std::unique_ptr<Environment> inside, EnvSpec spec) : ImageWrapper(std::move(inside), std::move(spec)) {
    for (const ImageShapes& image : images()) stacks_.emplace_back(static_cast<std::size_t>(image.to.elements()));
  }

 protected:
  void show(std::size_t index, bool first, std::span<const std::uint8_t> from, std::span<std::uint8_t> to) override {
    std::vector<std::uint8_t>& stack = stacks_[index];
    const auto one = static_cast<std::size_t>(images()[index].from[2]);
    const auto all = static_cast<std::size_t>(images()[index].to[2]);
    // The frames of a pixel stand together, so that all of them move up by one at once.
    if (!first) std::memmove(stack.data(), stack.data() + one, stack.size() - one);
    for (std::size_t pixel = 0; pixel < from.size() / one; ++pixel) {
      const std::uint8_t* const values = from.data() + pixel * one;
      std::uint8_t* const end = stack.data() + (pixel + 1) * all;
      for (std::size_t at = first ? all : one; at > 0; at -= one) std::copy_n(values, one, end - at);
    }
    std::ranges::copy(stack, to.begin());
  }
  std::vector<std::byte> save_own() const override {
    std::vector<std::byte> own;
    for (const std::vector<std::uint8_t>& stack : stacks_) {
      const auto bytes = std::as_bytes(std::span(stack));
      own.insert(own.end(), bytes.begin(), bytes.end());
    }
    return own;
  }
  Status restore_own(std::span<const std::byte> own) override {
    for (std::vector<std::uint8_t>& stack : stacks_) {
      std::memcpy(stack.data(), own.data(), stack.size());
      own = own.subspan(stack.size());
    }
    return {};
  }

 private:
  std::vector<std::vector<std::uint8_t>> stacks_;  // of each image, as it was shown last
};

/// Of an image that is a stack already: each of the images in the new stack has as many.
std::int64_t planes_along_channels(const TensorSpec& image) {
  const bool stacked = image.stack.axis == 2 || image.stack.axis == -1;
  return stacked ? image.stack.planes : 1;
}

}  // namespace

Wrap frame_stack(std::int64_t count) {
  return [count](std::unique_ptr<Environment> inside, std::uint64_t) -> Result<std::unique_ptr<Environment>> {
    TROUPE_ASSIGN(EnvSpec spec, show_images(inside->spec(), [&](const Shape& image) -> Result<Shape> {
                    return Shape{image[0], image[1], count * image[2]};
                  }));
    for (TensorSpec& column : spec.observation) {
      if (is_image(column)) column.stack = {.planes = count * planes_along_channels(column), .axis = 2};
    }
    return {std::make_unique<FrameStack>(std::move(inside), std::move(spec))};
  };
}

}  // namespace troupe::envs
