// The C interface between Troupe and its CUDA plug-in: one table of functions. The program links nothing of CUDA; it
// opens the plug-in when somebody asks for a GPU (cuda_plugin.hpp), so one binary serves machines with and without one.
// Both sides include this file and nothing else of each other. Plain C, so that compilers of any version agree on it.
//
// Every function returns 0 or a CUDA error number, which error_text() explains, and leaves the outputs alone on error.
// Any thread may call; calls on one device's memory must not overlap. Buffers are flat and 4-byte floats.
#pragma once
#include <stddef.h>
#include <stdint.h>

// Changes with every change below. The loader refuses another number.
#define TROUPE_CUDA_ABI 1u
// The one symbol that the plug-in exports: `const TroupeCudaApi* troupe_cuda_api(void)`.
#define TROUPE_CUDA_ENTRY "troupe_cuda_api"

typedef struct {
  float learning_rate;
  float beta1;
  float beta2;
  float epsilon;
} TroupeCudaAdam;

typedef struct {
  uint32_t abi;  // first for ever, so that any loader can read it

  const char* (*error_text)(int error);            // never null; static storage
  int (*driver_version)(int* version);             // 13000 means 13.0; 0 where no driver is installed
  int (*device_count)(int* count);                 // an error where no driver is installed
  int (*device_name)(int device, char name[256]);  // zero-terminated

  int (*allocate)(int device, size_t bytes, void** memory);  // aligned to 256 bytes
  int (*release)(int device, void* memory);
  int (*upload)(int device, void* to, const void* from, size_t bytes);    // host to device; returns when done
  int (*download)(int device, void* to, const void* from, size_t bytes);  // device to host; returns when done

  // One Adam step (Kingma and Ba 2015, Algorithm 1) over flat buffers of `count` floats in the memory of `device`:
  // updates parameters and both moments. step is 1 for the first. Returns before the kernel has run; download() waits.
  int (*adam)(int device, float* parameters, const float* gradients, float* first_moment, float* second_moment,
              size_t count, const TroupeCudaAdam* options, int64_t step);
} TroupeCudaApi;
