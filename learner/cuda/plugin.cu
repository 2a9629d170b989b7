// The CUDA plug-in: device queries, memory, and the flat Adam kernel, behind the table of api.h.
#include <cuda_runtime.h>

#include <cmath>
#include <cstring>

#include <troupe/learner/cuda/api.h>

namespace {

const char* error_text(int error) { return cudaGetErrorString(static_cast<cudaError_t>(error)); }
int driver_version(int* version) { return cudaDriverGetVersion(version); }
int device_count(int* count) { return cudaGetDeviceCount(count); }

int device_name(int device, char name[256]) {
  cudaDeviceProp properties;
  if (cudaError_t error = cudaGetDeviceProperties(&properties, device)) return error;
  static_assert(sizeof(properties.name) == 256);
  std::memcpy(name, properties.name, 256);
  return cudaSuccess;
}

int allocate(int device, size_t bytes, void** memory) {
  if (cudaError_t error = cudaSetDevice(device)) return error;
  return cudaMalloc(memory, bytes);
}

int release(int device, void* memory) {
  if (cudaError_t error = cudaSetDevice(device)) return error;
  return cudaFree(memory);
}

int upload(int device, void* to, const void* from, size_t bytes) {
  if (cudaError_t error = cudaSetDevice(device)) return error;
  return cudaMemcpy(to, from, bytes, cudaMemcpyHostToDevice);
}

int download(int device, void* to, const void* from, size_t bytes) {
  if (cudaError_t error = cudaSetDevice(device)) return error;
  return cudaMemcpy(to, from, bytes, cudaMemcpyDeviceToHost);
}

// The bias corrections are folded into two scalars, so an element costs one square root and one division.
__global__ void adam_kernel(float* parameters, const float* gradients, float* first_moment, float* second_moment,
                            size_t count, TroupeCudaAdam options, float step_size, float second_correction) {
  size_t stride = size_t{gridDim.x} * blockDim.x;
  for (size_t i = size_t{blockIdx.x} * blockDim.x + threadIdx.x; i < count; i += stride) {
    float gradient = gradients[i];
    float first = options.beta1 * first_moment[i] + (1 - options.beta1) * gradient;
    float second = options.beta2 * second_moment[i] + (1 - options.beta2) * gradient * gradient;
    first_moment[i] = first;
    second_moment[i] = second;
    parameters[i] -= step_size * first / (sqrtf(second * second_correction) + options.epsilon);
  }
}

int adam(int device, float* parameters, const float* gradients, float* first_moment, float* second_moment, size_t count,
         const TroupeCudaAdam* options, int64_t step) {
  if (count == 0) return cudaSuccess;
  if (cudaError_t error = cudaSetDevice(device)) return error;
  // In double: beta2^step is so near to 1 at first that its difference from 1 would lose most digits in float.
  double first_bias = 1 - std::pow(static_cast<double>(options->beta1), static_cast<double>(step));
  double second_bias = 1 - std::pow(static_cast<double>(options->beta2), static_cast<double>(step));
  constexpr unsigned kThreads = 256;
  constexpr size_t kMaxBlocks = 4096;  // the kernel strides over the rest
  size_t blocks = (count + kThreads - 1) / kThreads;
  adam_kernel<<<static_cast<unsigned>(blocks < kMaxBlocks ? blocks : kMaxBlocks), kThreads>>>(
      parameters, gradients, first_moment, second_moment, count, *options,
      static_cast<float>(options->learning_rate / first_bias), static_cast<float>(1 / second_bias));
  return cudaGetLastError();
}

constexpr TroupeCudaApi kApi = {TROUPE_CUDA_ABI, error_text, driver_version, device_count, device_name,
                                allocate,        release,    upload,         download,     adam};

}  // namespace

extern "C" __attribute__((visibility("default"))) const TroupeCudaApi* troupe_cuda_api(void) { return &kApi; }
