#include <troupe/run/pictures/image.hpp>

#include <algorithm>

#include <troupe/core/check.hpp>

namespace troupe::apps {

Image to_image(const Picture& picture) {
  TROUPE_CHECK(picture.channels == 1 || picture.channels == 3, "a picture of {} channels", picture.channels);
  Image image(static_cast<int>(picture.width), static_cast<int>(picture.height));
  const auto repeat = static_cast<std::size_t>(3 / picture.channels);
  TROUPE_CHECK(picture.pixels.size() * repeat == image.pixels.size(), "a picture of {} x {} x {} has {} bytes",
               picture.height, picture.width, picture.channels, picture.pixels.size());
  for (std::size_t i = 0; i < image.pixels.size(); ++i) image.pixels[i] = picture.pixels[i / repeat];
  return image;
}

Image side_by_side(std::span<const Image> images, int gap) {
  TROUPE_CHECK(!images.empty(), "there are no pictures to join");
  const int height = images[0].height;
  int width = gap * (static_cast<int>(images.size()) - 1);
  for (const Image& image : images) {
    TROUPE_CHECK(image.height == height, "got heights {} and {}, expected equal ones", height, image.height);
    width += image.width;
  }
  Image joined(width, height);
  std::fill(joined.pixels.begin(), joined.pixels.end(), std::uint8_t{255});
  for (int y = 0; y < height; ++y) {
    auto out = joined.pixels.begin() + static_cast<std::ptrdiff_t>(y) * width * 3;
    for (const Image& image : images) {
      const auto row = image.pixels.begin() + static_cast<std::ptrdiff_t>(y) * image.width * 3;
      out = std::copy(row, row + image.width * 3, out);
      if (&image != &images.back()) out += gap * 3;
    }
  }
  return joined;
}

}  // namespace troupe::apps
