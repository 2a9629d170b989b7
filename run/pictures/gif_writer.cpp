#include <troupe/run/pictures/gif_writer.hpp>

#include <fmt/core.h>
#include <gif_lib.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <troupe/core/atomic_file.hpp>
#include <troupe/core/check.hpp>
#include <troupe/run/pictures/palette.hpp>

namespace troupe::apps {
namespace {

constexpr std::size_t kColoursMax = 256;

struct FreeColourMap {
  void operator()(ColorMapObject* map) const { GifFreeMapObject(map); }
};

/// giflib's output, gathered in memory.
int append(GifFileType* gif, const GifByteType* bytes, int size) {
  auto& out = *static_cast<std::string*>(gif->UserData);
  out.append(reinterpret_cast<const char*>(bytes), static_cast<std::size_t>(size));
  return size;
}

/// A colour map has a power of two of entries; the unused ones are black.
std::unique_ptr<ColorMapObject, FreeColourMap> make_colour_map(std::span<const Colour> palette) {
  int size = 2;
  while (static_cast<std::size_t>(size) < palette.size()) size *= 2;
  std::vector<GifColorType> colours(static_cast<std::size_t>(size));
  for (std::size_t i = 0; i < palette.size(); ++i) colours[i] = {palette[i][0], palette[i][1], palette[i][2]};
  return std::unique_ptr<ColorMapObject, FreeColourMap>(GifMakeMapObject(size, colours.data()));
}

/// Netscape's application block: repeat for ever.
bool put_loop(GifFileType* gif) {
  const std::string name = "NETSCAPE2.0";
  const GifByteType count[] = {1, 0, 0};
  return EGifPutExtensionLeader(gif, APPLICATION_EXT_FUNC_CODE) == GIF_OK &&
         EGifPutExtensionBlock(gif, static_cast<int>(name.size()), name.data()) == GIF_OK &&
         EGifPutExtensionBlock(gif, sizeof(count), count) == GIF_OK && EGifPutExtensionTrailer(gif) == GIF_OK;
}

struct Rectangle {
  int left = 0;
  int top = 0;
  int right = 0;  ///< one past the end, like bottom
  int bottom = 0;
};

/// The smallest rectangle outside of which both frames (palette indices) are equal; one pixel when they are the same.
Rectangle changed_part(std::span<const std::uint8_t> before, std::span<const std::uint8_t> now, int width) {
  Rectangle part{.left = width, .top = static_cast<int>(now.size()) / width, .right = 0, .bottom = 0};
  for (std::size_t i = 0; i < now.size(); ++i) {
    if (before[i] == now[i]) continue;
    const int x = static_cast<int>(i) % width;
    const int y = static_cast<int>(i) / width;
    part = {std::min(part.left, x), std::min(part.top, y), std::max(part.right, x + 1), std::max(part.bottom, y + 1)};
  }
  return part.right == 0 ? Rectangle{0, 0, 1, 1} : part;
}

bool put_part(GifFileType* gif, std::span<std::uint8_t> indices, int width, const Rectangle& part, int hundredths) {
  const GraphicsControlBlock control = {.DisposalMode = DISPOSE_DO_NOT,
                                        .UserInputFlag = false,
                                        .DelayTime = hundredths,
                                        .TransparentColor = NO_TRANSPARENT_COLOR};
  GifByteType block[4];
  const auto block_size = static_cast<int>(EGifGCBToExtension(&control, block));
  if (EGifPutExtension(gif, GRAPHICS_EXT_FUNC_CODE, block_size, block) != GIF_OK) return false;
  const int part_width = part.right - part.left;
  if (EGifPutImageDesc(gif, part.left, part.top, part_width, part.bottom - part.top, false, nullptr) != GIF_OK) {
    return false;
  }
  for (int y = part.top; y < part.bottom; ++y) {
    if (EGifPutLine(gif, &indices[static_cast<std::size_t>(y * width + part.left)], part_width) != GIF_OK) return false;
  }
  return true;
}

}  // namespace

Status write_gif(const std::filesystem::path& path, std::span<const Image> frames, double frame_s) {
  TROUPE_CHECK(!frames.empty(), "an animation needs a frame");
  for (const Image& frame : frames) {
    TROUPE_CHECK(
        frame.width == frames[0].width && frame.height == frames[0].height && frame.width > 0 && frame.height > 0,
        "frame of {} x {}, the first has {} x {}", frame.width, frame.height, frames[0].width, frames[0].height);
  }
  const auto failed = [&](int code) {
    const char* reason = GifErrorString(code);
    return Error{Code::kIo, fmt::format("{}: giflib: {}", path.string(), reason != nullptr ? reason : "no reason")};
  };
  const std::vector<Colour> palette = median_cut(frames, kColoursMax);
  const auto colour_map = make_colour_map(palette);
  std::string bytes;
  int error = GIF_OK;
  GifFileType* gif = EGifOpen(&bytes, append, &error);
  if (gif == nullptr) return failed(error);
  EGifSetGifVersion(gif, true);  // 89a: the extensions need it
  const int hundredths = static_cast<int>(std::lround(frame_s * 100));
  bool ok =
      EGifPutScreenDesc(gif, frames[0].width, frames[0].height, 8, 0, colour_map.get()) == GIF_OK && put_loop(gif);
  const int width = frames[0].width;
  std::vector<std::uint8_t> before;
  for (const Image& frame : frames) {
    std::vector<std::uint8_t> now = to_indices(frame, palette);
    const Rectangle part = before.empty() ? Rectangle{0, 0, width, frame.height} : changed_part(before, now, width);
    ok = ok && put_part(gif, now, width, part, hundredths);
    before = std::move(now);
  }
  const int write_error = gif->Error;
  if (EGifCloseFile(gif, &error) != GIF_OK && ok) return failed(error);
  if (!ok) return failed(write_error);
  return write_file_atomic(path.string(), bytes);
}

}  // namespace troupe::apps
