#include <troupe/learner/engine/cuda/weight_grad.hpp>

namespace troupe::learner {

namespace {

/// Of the library's kernels, as their times show.
constexpr std::int64_t kTileRows = 128, kTileColumns = 64;
/// Two for each processor of the largest GPUs.
constexpr std::int64_t kTiles = 264;
constexpr std::int64_t kMostParts = 32, kLeastPixels = 4096;
/// Elements: 32 bytes in bfloat16, as all parameters.
constexpr std::int64_t kAligned = 16;

std::int64_t tiles_of(std::int64_t size, std::int64_t tile) { return (size + tile - 1) / tile; }

}  // namespace

bool is_product(const ConvShape& conv) {
  return conv.pass == ConvPass::kWeightGrad && conv.kernel_h == 1 && conv.kernel_w == 1 && conv.stride == 1 &&
         conv.padding == 0;
}

std::int64_t batch_parts(const ConvShape& conv) {
  if (conv.pass != ConvPass::kWeightGrad) return 1;
  const std::int64_t rows = conv.kernel_h * conv.kernel_w * conv.in, pixels = conv.out_h() * conv.out_w();
  const std::int64_t tiles = tiles_of(rows, kTileRows) * tiles_of(conv.out, kTileColumns);
  const auto fits = [&](std::int64_t parts) {
    const std::int64_t images = conv.batch / parts;
    return conv.batch % parts == 0 && parts * tiles <= kTiles && images * pixels >= kLeastPixels &&
           images * conv.height * conv.width * conv.in % kAligned == 0 && images * pixels * conv.out % kAligned == 0 &&
           rows * conv.out % kAligned == 0;
  };
  std::int64_t parts = kMostParts;
  while (parts > 1 && !fits(parts)) parts /= 2;
  return parts;
}

}  // namespace troupe::learner
