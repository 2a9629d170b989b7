// The plug-in with cuDNN: the table TroupeCudnnApi of api.h.
#include <cudnn.h>

#include <troupe/gpu/api.h>
#include <troupe/gpu/cudnn/conv.hpp>
#include <troupe/gpu/kernels/library_error.hpp>

namespace {

using troupe_cuda::told;

const char* library_error() { return troupe_cuda::library_error_text(); }

int version(int* version) {
  *version = static_cast<int>(cudnnGetVersion());
  return 0;
}
int make_conv(const TroupeCudaConvShape* shape, TroupeCudaConv** conv) {
  return told(troupe_cuda::make_conv(*shape, conv));
}
size_t workspace(const TroupeCudaConv* conv) { return troupe_cuda::conv_workspace(*conv); }
int run(const TroupeCudaConv* conv, const void* a, const void* b, const float* bias, void* c, void* workspace,
        TroupeCudaStream* stream) {
  return told(troupe_cuda::run_conv(*conv, a, b, bias, c, workspace, reinterpret_cast<cudaStream_t>(stream)));
}

constexpr TroupeCudnnApi kApi = {
    .abi = TROUPE_CUDA_ABI,
    .library_error = library_error,
    .version = version,
    .make_conv = make_conv,
    .destroy_conv = troupe_cuda::destroy_conv,
    .workspace = workspace,
    .run = run,
};

}  // namespace

extern "C" __attribute__((visibility("default"))) const TroupeCudnnApi* troupe_cudnn_api(void) { return &kApi; }
