#include <troupe/data/detail/jpeg.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <csetjmp>
#include <cstdio>  // jpeglib.h needs it, and does not include it

#include <jerror.h>
#include <jpeglib.h>

namespace troupe::data::detail {
namespace {

/// A block of 8 x 8 pixels takes a bit at least.
constexpr std::uint64_t kPixelsOfAByteMax = 512;
/// Programs write some ten. Each goes over the whole image and may take a few bytes, so a small file of many could keep
/// a decoder busy for hours.
constexpr int kScansMax = 100;

/// libjpeg reports errors by a call that must not return: here a jump back to run(). What run() is given may therefore
/// hold nothing that has a destructor.
class Jpeg {
 public:
  Jpeg() {
    info_.err = jpeg_std_error(&errors_);
    info_.client_data = this;
    errors_.error_exit = [](j_common_ptr info) { fail(info); };
    errors_.emit_message = [](j_common_ptr info, int level) {
      if (level < 0 && is_damage(info->err->msg_code)) fail(info);
    };
    run([&] { jpeg_create_decompress(&info_); });
    progress_.progress_monitor = [](j_common_ptr info) {
      if (reinterpret_cast<j_decompress_ptr>(info)->input_scan_number > kScansMax) end(info, "more than 100 scans");
    };
    info_.progress = &progress_;
  }
  ~Jpeg() { jpeg_destroy_decompress(&info_); }
  Jpeg(const Jpeg&) = delete;
  Jpeg& operator=(const Jpeg&) = delete;

  jpeg_decompress_struct& info() { return info_; }
  /// Whether `step` came to its end.
  template <typename Step>
  bool run(const Step& step) {
    if (setjmp(jump_) != 0) return false;
    step();
    return true;
  }
  Error damaged() const { return Error{Code::kCorrupt, fmt::format("damaged JPEG: {}", message_.data())}; }

 private:
  /// Files that other programs show without complaint have these.
  static bool is_damage(int code) {
    return code != JWRN_EXTRANEOUS_DATA && code != JWRN_ADOBE_XFORM && code != JWRN_JFIF_MAJOR &&
           code != JWRN_TOO_MUCH_DATA;
  }
  [[noreturn]] static void fail(j_common_ptr info) {
    std::array<char, JMSG_LENGTH_MAX> message{};
    (*info->err->format_message)(info, message.data());
    end(info, message.data());
  }
  [[noreturn]] static void end(j_common_ptr info, const char* why) {
    auto* const self = static_cast<Jpeg*>(info->client_data);
    std::snprintf(self->message_.data(), self->message_.size(), "%s", why);
    std::longjmp(self->jump_, 1);
  }

  jpeg_decompress_struct info_{};
  jpeg_error_mgr errors_{};
  jpeg_progress_mgr progress_{};
  std::jmp_buf jump_{};
  std::array<char, JMSG_LENGTH_MAX> message_{};
};

/// The fewest pixels that show `excerpt`: 1 / 8, 1 / 4 or 1 / 2 of each side, which cost less than the whole.
unsigned reduction(const Excerpt& excerpt) {
  for (const unsigned by : {8U, 4U, 2U}) {
    if (excerpt.region.height >= static_cast<double>(excerpt.height * by) &&
        excerpt.region.width >= static_cast<double>(excerpt.width * by)) {
      return by;
    }
  }
  return 1;
}

J_COLOR_SPACE colours(const jpeg_decompress_struct& info, bool grey) {
  if (info.num_components == 4) return JCS_CMYK;
  return grey || info.num_components == 1 ? JCS_GRAYSCALE : JCS_RGB;
}

/// Adobe's CMYK is stored inverted: each value is how much light is left.
void cmyk_to_rgb(Surface& surface) {
  auto to = surface.pixels.begin();
  for (auto from = surface.pixels.cbegin(); from != surface.pixels.cend(); from += 4) {
    for (int c = 0; c < 3; ++c) *to++ = static_cast<std::uint8_t>((from[c] * from[3] + 127) / 255);
  }
  surface.channels = 3;
  surface.pixels.resize(static_cast<std::size_t>(surface.height * surface.width * 3));
}

}  // namespace

Result<Region> decode_jpeg(std::span<const std::uint8_t> bytes, bool grey, const ChooseExcerpt& choose, Surface& out) {
  Jpeg jpeg;
  jpeg_decompress_struct& info = jpeg.info();
  const bool has_header = jpeg.run([&] {
    jpeg_mem_src(&info, bytes.data(), bytes.size());
    jpeg_read_header(&info, TRUE);
  });
  if (!has_header) return jpeg.damaged();
  TROUPE_TRY(check_size("JPEG", info.image_height, info.image_width));
  const std::uint64_t pixels = std::uint64_t{info.image_height} * info.image_width;
  TROUPE_TRY(check_held("JPEG", info.image_height, info.image_width, pixels / kPixelsOfAByteMax, bytes.size()));
  const Excerpt excerpt = choose(info.image_height, info.image_width);
  const unsigned by = reduction(excerpt);
  info.scale_num = 1;
  info.scale_denom = by;
  info.out_color_space = colours(info, grey);
  if (!jpeg.run([&] { jpeg_start_decompress(&info); })) return jpeg.damaged();

  Region region = {.top = excerpt.region.top / by,
                   .left = excerpt.region.left / by,
                   .height = excerpt.region.height / by,
                   .width = excerpt.region.width / by};
  const auto upto = [](double end, JDIMENSION size) { return std::min(static_cast<JDIMENSION>(std::ceil(end)), size); };
  const auto top = static_cast<JDIMENSION>(region.top);
  const JDIMENSION bottom = upto(region.top + region.height, info.output_height);
  auto left = static_cast<JDIMENSION>(region.left);
  JDIMENSION width = upto(region.left + region.width, info.output_width) - left;
  // Columns can be left out from whole blocks on, so `left` and `width` may change.
  const bool part = width < info.output_width;
  if (part && !jpeg.run([&] { jpeg_crop_scanline(&info, &left, &width); })) return jpeg.damaged();
  region.top -= top;
  region.left -= part ? left : 0;
  out.height = bottom - top;
  out.width = info.output_width;
  out.channels = info.output_components;
  const auto stride = static_cast<std::size_t>(out.width * out.channels);
  out.pixels.resize(static_cast<std::size_t>(out.height) * stride);
  const bool read = jpeg.run([&] {
    if (top > 0) jpeg_skip_scanlines(&info, top);
    while (info.output_scanline < bottom) {
      JSAMPROW row = &out.pixels[(info.output_scanline - top) * stride];
      jpeg_read_scanlines(&info, &row, 1);
    }
  });
  if (!read) return jpeg.damaged();
  if (out.channels == 4) cmyk_to_rgb(out);
  return region;
}

}  // namespace troupe::data::detail
