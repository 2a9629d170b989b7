#pragma once
// How errors leave a plug-in: CUDA's as their numbers, those of cuBLASLt and cuDNN in words that each thread keeps.
#include <cuda_runtime.h>

#include <cstdarg>
#include <cstdio>

#include <troupe/gpu/api.h>

namespace troupe_cuda {

/// TROUPE_CUDA_LIBRARY_ERROR on its way through functions that return CUDA's errors, whose numbers are below.
constexpr cudaError_t kLibraryError = static_cast<cudaError_t>(1000);

constexpr int kLibraryErrorBytes = 2048;
inline char* library_error_text() {
  thread_local char text[kLibraryErrorBytes] = "no error of a library";
  return text;
}

/// Keeps the words, as of printf.
[[gnu::format(printf, 1, 2)]] inline cudaError_t library_failed(const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(library_error_text(), kLibraryErrorBytes, format, arguments);
  va_end(arguments);
  return kLibraryError;
}

/// What a function of the table returns. CUDA remembers an error until somebody asks, and launch() would take an old
/// one for its own.
inline int told(cudaError_t error) {
  if (error == cudaSuccess) return 0;
  if (error == kLibraryError) return TROUPE_CUDA_LIBRARY_ERROR;
  (void)cudaGetLastError();
  return error;
}

}  // namespace troupe_cuda
