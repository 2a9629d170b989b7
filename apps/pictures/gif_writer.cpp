#include <troupe/apps/pictures/gif_writer.hpp>

#include <fmt/core.h>
#include <gif_lib.h>

#include <cmath>
#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include <troupe/apps/pictures/palette.hpp>
#include <troupe/core/atomic_file.hpp>
#include <troupe/core/check.hpp>

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

bool put_frame(GifFileType* gif, const Image& frame, std::span<const Colour> palette, int hundredths) {
  const GraphicsControlBlock control = {.DisposalMode = DISPOSE_DO_NOT,
                                        .UserInputFlag = false,
                                        .DelayTime = hundredths,
                                        .TransparentColor = NO_TRANSPARENT_COLOR};
  GifByteType block[4];
  const auto block_size = static_cast<int>(EGifGCBToExtension(&control, block));
  if (EGifPutExtension(gif, GRAPHICS_EXT_FUNC_CODE, block_size, block) != GIF_OK) return false;
  if (EGifPutImageDesc(gif, 0, 0, frame.width, frame.height, false, nullptr) != GIF_OK) return false;
  std::vector<std::uint8_t> indices = to_indices(frame, palette);
  return EGifPutLine(gif, indices.data(), static_cast<int>(indices.size())) == GIF_OK;
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
  for (const Image& frame : frames) ok = ok && put_frame(gif, frame, palette, hundredths);
  const int write_error = gif->Error;
  if (EGifCloseFile(gif, &error) != GIF_OK && ok) return failed(error);
  if (!ok) return failed(write_error);
  return write_file_atomic(path.string(), bytes);
}

}  // namespace troupe::apps
