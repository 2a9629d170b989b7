#pragma once
// How tests steer the emulated device (cuda_runtime.h) and ask what it was told to do: the one symbol
// `troupe_cuda_emulator` of its library, which the emulated plug-ins load. Any thread may call.
// To programs $TROUPE_EMULATOR says the same: driver=N or fail_kernel=N; or fail_when=FILE: the first process of a run
// that is about to run a kernel while that file is there removes it, and the kernel fails.
#include <stddef.h>
#include <stdint.h>

#define TROUPE_EMULATOR_ENTRY "troupe_cuda_emulator"

typedef struct {
  /// As after loading: two devices of 1 GiB each, a driver, nothing failed, counters zero. What was allocated stays.
  void (*reset)(void);
  /// 13000 is 13.0; 0: none is installed.
  void (*set_driver)(int version);
  /// 0 to 8.
  void (*set_devices)(int count);
  /// Of each device, at most 2 GiB.
  void (*set_memory)(size_t bytes);
  /// `after` more kernels run, of graphs or not, and then one reads where nothing is. -1: none.
  void (*fail_kernel)(int64_t after);

  int64_t (*allocations)(void);  ///< of device memory
  int64_t (*launches)(void);     ///< of kernels, recorded ones included
  int64_t (*kernels)(void);      ///< that have run
  int64_t (*graph_launches)(void);
  int64_t (*alive)(void);  ///< allocations, streams, events and graphs that exist now, on all devices
  /// What was wrong with this thread's last call that failed, in words; never null.
  const char* (*fault)(void);

  // The memory of devices as other libraries' work reaches it, at once, whatever waits on streams.
  /// On which device all of these bytes lie in one allocation; -1: on none.
  int (*device_of)(const void* memory, size_t bytes);
  /// Between the host's memory and what device_of() knows.
  void (*read)(void* to, const void* device_memory, size_t bytes);
  void (*write)(void* device_memory, const void* from, size_t bytes);
} TroupeEmulator;

#ifdef __cplusplus
extern "C"
#endif
    const TroupeEmulator*
    troupe_cuda_emulator(void);
