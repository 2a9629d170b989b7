// Stands in for gpu/cudnn/conv.cpp on the emulated device: convolutions by plain loops that add up in float32.
#include <troupe/gpu/cudnn/conv.hpp>

#include <cstdint>

#include <troupe/gpu/cudnn/conv_finish.hpp>
#include <troupe/gpu/kernels/launch.hpp>
#include <troupe/gpu/kernels/library_error.hpp>

struct TroupeCudaConv {
  TroupeCudaConvShape shape{};
  std::int64_t out_h = 0, out_w = 0;
  int device = 0;
};

namespace troupe_cuda {
namespace {

constexpr std::int64_t kChunk = 64;  // channels that a thread adds up at a time

/// Calls f(kernel row, kernel column, pixel) for those of the kernel's places that lie within the image.
template <typename F>
void each_tap(const TroupeCudaConv& conv, std::int64_t example, std::int64_t out_y, std::int64_t out_x, F f) {
  const TroupeCudaConvShape& s = conv.shape;
  for (std::int64_t i = 0; i < s.kernel_h; ++i) {
    for (std::int64_t j = 0; j < s.kernel_w; ++j) {
      const std::int64_t y = out_y * s.stride - s.padding + i, x = out_x * s.stride - s.padding + j;
      if (y < 0 || y >= s.height || x < 0 || x >= s.width) continue;
      f(i, j, (example * s.height + y) * s.width + x);
    }
  }
}

template <typename S>
cudaError_t forward(const TroupeCudaConv& conv, const S* x, const S* weight, const float* bias, S* y,
                    cudaStream_t stream) {
  const TroupeCudaConvShape s = conv.shape;
  const bool later = s.bf16 == 0;  // rounded once only
  const cudaError_t error = for_each(stream, s.batch * conv.out_h * conv.out_w, [=](std::int64_t place) {
    const std::int64_t column = place % conv.out_w, row = place / conv.out_w % conv.out_h;
    for (std::int64_t o = 0; o < s.out; ++o) {
      float sum = 0;
      each_tap(conv, place / conv.out_w / conv.out_h, row, column,
               [&](std::int64_t i, std::int64_t j, std::int64_t pixel) {
                 const std::int64_t from = ((o * s.kernel_h + i) * s.kernel_w + j) * s.in;
                 for (std::int64_t c = 0; c < s.in; ++c) sum += load(x, pixel * s.in + c) * load(weight, from + c);
               });
      if (!later && s.bias != 0) sum += bias[o];
      if (!later && s.activation != 0 && sum < 0) sum *= s.activation == 5 ? 0.1F : 0;
      store(y, place * s.out + o, sum);
    }
  });
  if (error != cudaSuccess || !later || (s.bias == 0 && s.activation == 0)) return error;
  return finish_forward(y, false, bias, s.activation, s.batch * conv.out_h * conv.out_w, s.out, stream);
}

template <typename S>
cudaError_t input_gradient(const TroupeCudaConv& conv, const S* dy, const S* weight, S* dx, cudaStream_t stream) {
  const TroupeCudaConvShape s = conv.shape;
  return for_each(stream, s.batch * s.height * s.width, [=](std::int64_t pixel) {
    const std::int64_t column = pixel % s.width, row = pixel / s.width % s.height;
    const std::int64_t example = pixel / s.width / s.height;
    for (std::int64_t first = 0; first < s.in; first += kChunk) {
      const std::int64_t count = s.in - first < kChunk ? s.in - first : kChunk;
      float sums[kChunk] = {};
      for (std::int64_t i = 0; i < s.kernel_h; ++i) {
        for (std::int64_t j = 0; j < s.kernel_w; ++j) {
          const std::int64_t y = row + s.padding - i, x = column + s.padding - j;
          if (y < 0 || x < 0 || y % s.stride != 0 || x % s.stride != 0) continue;
          if (y / s.stride >= conv.out_h || x / s.stride >= conv.out_w) continue;
          const std::int64_t place = (example * conv.out_h + y / s.stride) * conv.out_w + x / s.stride;
          for (std::int64_t o = 0; o < s.out; ++o) {
            const float factor = load(dy, place * s.out + o);
            const std::int64_t from = ((o * s.kernel_h + i) * s.kernel_w + j) * s.in + first;
            for (std::int64_t c = 0; c < count; ++c) sums[c] += factor * load(weight, from + c);
          }
        }
      }
      for (std::int64_t c = 0; c < count; ++c) store(dx, pixel * s.in + first + c, sums[c]);
    }
  });
}

/// A thread for each value of the kernel's height, width and input channel. As [out, kernel_h, kernel_w, in] at first,
/// which is how cuDNN may leave it.
template <typename S>
cudaError_t weight_gradient(const TroupeCudaConv& conv, const S* x, const S* dy, float* packed, float* dw,
                            cudaStream_t stream) {
  const TroupeCudaConvShape s = conv.shape;
  const std::int64_t inner = s.kernel_h * s.kernel_w * s.in;
  const cudaError_t error = for_each(stream, inner, [=](std::int64_t at) {
    const std::int64_t channel = at % s.in, j = at / s.in % s.kernel_w, i = at / s.in / s.kernel_w;
    for (std::int64_t first = 0; first < s.out; first += kChunk) {
      const std::int64_t count = s.out - first < kChunk ? s.out - first : kChunk;
      float sums[kChunk] = {};
      for (std::int64_t place = 0; place < s.batch * conv.out_h * conv.out_w; ++place) {
        const std::int64_t row = place / conv.out_w % conv.out_h * s.stride - s.padding + i;
        const std::int64_t column = place % conv.out_w * s.stride - s.padding + j;
        if (row < 0 || row >= s.height || column < 0 || column >= s.width) continue;
        const std::int64_t example = place / conv.out_w / conv.out_h;
        const float factor = load(x, ((example * s.height + row) * s.width + column) * s.in + channel);
        for (std::int64_t o = 0; o < count; ++o) sums[o] += factor * load(dy, place * s.out + first + o);
      }
      for (std::int64_t o = 0; o < count; ++o) packed[(first + o) * inner + at] = sums[o];
    }
  });
  return error != cudaSuccess ? error : transpose_gradient(packed, false, dw, s.out, inner, stream);
}

template <typename S>
cudaError_t run_stored(const TroupeCudaConv& conv, const void* a, const void* b, const float* bias, void* c,
                       void* workspace, cudaStream_t stream) {
  const S* const left = static_cast<const S*>(a);
  const S* const right = static_cast<const S*>(b);
  if (conv.shape.pass == 0) return forward(conv, left, right, bias, static_cast<S*>(c), stream);
  if (conv.shape.pass == 1) return input_gradient(conv, left, right, static_cast<S*>(c), stream);
  return weight_gradient(conv, left, right, static_cast<float*>(workspace), static_cast<float*>(c), stream);
}

}  // namespace

cudaError_t make_conv(const TroupeCudaConvShape& s, TroupeCudaConv** conv) {
  const std::int64_t high = s.height + 2 * s.padding - s.kernel_h, wide = s.width + 2 * s.padding - s.kernel_w;
  if (s.pass < 0 || s.pass > 2 || s.batch < 1 || s.in < 1 || s.out < 1 || s.stride < 1 || high < 0 || wide < 0 ||
      (s.activation != 0 && s.activation != 3 && s.activation != 5) ||
      (s.pass != 0 && (s.bias != 0 || s.activation != 0))) {
    return library_failed("emulated convolution: no such pass %d of %lld images", s.pass,
                          static_cast<long long>(s.batch));
  }
  int device = 0;
  if (const cudaError_t error = cudaGetDevice(&device)) return error;
  *conv = new TroupeCudaConv{s, high / s.stride + 1, wide / s.stride + 1, device};
  return cudaSuccess;
}

void destroy_conv(TroupeCudaConv* conv) { delete conv; }

/// For the gradient of the weight; in other passes it need only be there.
std::size_t conv_workspace(const TroupeCudaConv& conv) {
  const TroupeCudaConvShape& s = conv.shape;
  return static_cast<std::size_t>(s.out * s.kernel_h * s.kernel_w * s.in) * sizeof(float);
}

cudaError_t run_conv(const TroupeCudaConv& conv, const void* a, const void* b, const float* bias, void* c,
                     void* workspace, cudaStream_t stream) {
  int device = 0;
  if (const cudaError_t error = cudaGetDevice(&device)) return error;
  if (device != conv.device) {
    return library_failed("emulated convolution: prepared on device %d, run on %d", conv.device, device);
  }
  const auto is_aligned = [](const void* memory, std::uintptr_t bytes) {
    return memory != nullptr && reinterpret_cast<std::uintptr_t>(memory) % bytes == 0;
  };
  if (!is_aligned(a, 64) || !is_aligned(b, 64) || !is_aligned(c, 64) || !is_aligned(workspace, 256)) {
    return library_failed("emulated convolution: memory is missing, or not aligned to 64 bytes, or 256");
  }
  if ((conv.shape.bias != 0) != (bias != nullptr)) {
    return library_failed("emulated convolution: prepared %s a bias", conv.shape.bias != 0 ? "with" : "without");
  }
  const cudaError_t error = cudaMemsetAsync(workspace, 0xff, conv_workspace(conv), stream);
  if (error != cudaSuccess) return error;
  return conv.shape.bf16 != 0 ? run_stored<std::uint16_t>(conv, a, b, bias, c, workspace, stream)
                              : run_stored<float>(conv, a, b, bias, c, workspace, stream);
}

}  // namespace troupe_cuda
