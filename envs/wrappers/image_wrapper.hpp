#pragma once
// What the wrappers of images are made of: crop, resize, frame_stack. An image is a uint8 column [height, width,
// channels] of an observation, wherever it comes from; all other columns stay as they are.
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include <troupe/core/error.hpp>
#include <troupe/core/tensor.hpp>
#include <troupe/envs/wrapper.hpp>

namespace troupe::envs {

bool is_image(const TensorSpec& column);

/// An image of the environment inside, and as it is shown.
struct ImageShapes {
  Shape from, to;
};

/// Shows each image of an observation otherwise.
class ImageWrapper : public Wrapper {
 public:
  Result<TimeStep> reset(std::uint64_t seed, std::span<std::byte> observation) final;
  Result<TimeStep> reset(std::span<std::byte> observation) final;
  Result<TimeStep> step(std::span<const std::byte> action, std::span<std::byte> observation) final;

 protected:
  /// spec: that of show_images().
  ImageWrapper(std::unique_ptr<Environment> inside, EnvSpec spec);

  /// In the order of their columns.
  const std::vector<ImageShapes>& images() const { return shapes_; }
  /// Writes image `index` as it is to be seen. first: of an episode. from, to: of the sizes of images()[index].
  virtual void show(std::size_t index, bool first, std::span<const std::uint8_t> from, std::span<std::uint8_t> to) = 0;

 private:
  Result<TimeStep> shown(const Result<TimeStep>& result, std::span<std::byte> observation);

  std::vector<ImageShapes> shapes_;
  std::vector<std::byte> raw_;  // the observation of the environment inside
};

/// The spec with each image in the shape that `change` makes of its own. Errors: kInvalidArgument when there is no
/// image, and those of `change`, with the column.
Result<EnvSpec> show_images(const EnvSpec& spec, const std::function<Result<Shape>(const Shape&)>& change);

}  // namespace troupe::envs
