#include <troupe/run/samples.hpp>

#include <fmt/core.h>

#include <algorithm>
#include <string>
#include <system_error>
#include <vector>

#include <troupe/core/log.hpp>
#include <troupe/run/pictures/gif_writer.hpp>
#include <troupe/run/pictures/image.hpp>
#include <troupe/run/pictures/png_reader.hpp>
#include <troupe/run/pictures/png_writer.hpp>

namespace troupe::apps {
namespace {

constexpr std::size_t kFramesMax = 60;
constexpr double kFrameS = 0.2;
constexpr std::size_t kLastShown = 8;  ///< times that the last frame is, so that one sees where it ends

}  // namespace

Status SampleSink::write(const Picture& picture) {
  const std::lock_guard lock(mutex_);
  const Status kept = keep(picture);
  if (kept.ok() || kept.error().code != Code::kIo) return kept;
  log::error("TRP-E604 {}; the picture of step {} is lost", kept.error().message, picture.step);
  return {};
}

Status SampleSink::keep(const Picture& picture) {
  const std::filesystem::path folder = directory_ / picture.source;
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) return Error{Code::kIo, fmt::format("{}: {}", folder.string(), error.message())};
  const Image image = to_image(picture);
  TROUPE_TRY(write_png(folder / fmt::format("step-{:09}.png", picture.step), image));
  return tensorboard_.write(picture, image);
}

Status animate_samples(const std::filesystem::path& directory) {
  std::error_code error;
  for (const auto& source : std::filesystem::directory_iterator(directory, error)) {
    std::vector<std::filesystem::path> files;
    for (const auto& entry : std::filesystem::directory_iterator(source.path(), error)) {
      if (entry.path().extension() == ".png") files.push_back(entry.path());
    }
    std::sort(files.begin(), files.end());  // by step, which is as long in all names
    if (files.empty()) continue;
    std::vector<Image> frames;
    const std::size_t count = std::min(files.size(), kFramesMax);
    for (std::size_t i = 0; i < count; ++i) {
      const std::size_t file = count == 1 ? 0 : i * (files.size() - 1) / (count - 1);
      TROUPE_ASSIGN(Image frame, read_png(files[file]));
      // A run that was resumed with other settings may have drawn in another size.
      if (!frames.empty() && (frame.width != frames[0].width || frame.height != frames[0].height)) frames.clear();
      frames.push_back(std::move(frame));
    }
    frames.insert(frames.end(), kLastShown, Image(frames.back()));
    TROUPE_TRY(write_gif(source.path() / "all.gif", frames, kFrameS));
  }
  return {};
}

}  // namespace troupe::apps
