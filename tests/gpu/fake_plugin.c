// A plug-in without CUDA whose table says what the environment asks for: FAKE_DRIVER, FAKE_RUNTIME (versions),
// FAKE_ERROR (of counting devices), FAKE_DEVICES. The devices are of compute capability 8.6; there is code for 8.0
// and 9.0.
#include <stdlib.h>
#include <string.h>

#include <troupe/gpu/api.h>

static int number(const char* name) {
  const char* text = getenv(name);
  return text ? atoi(text) : 0;
}
static const char* error_text(int error) { return error == 35 ? "driver is insufficient" : "no device is there"; }
static int driver_version(int* version) {
  *version = number("FAKE_DRIVER");
  return 0;
}
static int runtime_version(int* version) {
  *version = number("FAKE_RUNTIME");
  return 0;
}
static int device_count(int* count) {
  if (number("FAKE_ERROR") == 0) *count = number("FAKE_DEVICES");
  return number("FAKE_ERROR");
}
static int device(int index, TroupeCudaDevice* about) {
  (void)index;
  strcpy(about->name, "Fake A40");
  about->major = 8;
  about->minor = 6;
  about->total_bytes = 48LL << 30;
  return 0;
}
static int architectures(const int32_t** list, int* count) {
  static const int32_t built[] = {80, 90};
  *list = built;
  *count = 2;
  return 0;
}

const TroupeCudaApi* troupe_cuda_api(void);
const TroupeCudaApi* troupe_cuda_api(void) {
  static const TroupeCudaApi api = {
      .abi = TROUPE_CUDA_ABI,
      .error_text = error_text,
      .driver_version = driver_version,
      .runtime_version = runtime_version,
      .device_count = device_count,
      .device = device,
      .architectures = architectures,
  };
  return &api;
}
