// A plug-in from the future: only its ABI number may be read.
#include <troupe/gpu/api.h>

const TroupeCudaApi* troupe_cuda_api(void);
const TroupeCudaApi* troupe_cuda_api(void) {
  static const TroupeCudaApi api = {.abi = TROUPE_CUDA_ABI + 1};
  return &api;
}
