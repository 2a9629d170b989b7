#include <troupe/tests/collectives/simulated_nccl/memory.hpp>

#include <dlfcn.h>

#include <algorithm>
#include <atomic>

#include <troupe/tests/gpu/emulator/emulator.h>

namespace troupe::collectives::simulated_nccl {
namespace {

/// Null until the process has loaded one, which a plug-in does.
const TroupeEmulator* emulator() {
  static std::atomic<const TroupeEmulator*> known = nullptr;
  if (known != nullptr) return known;
  void* const library = dlopen("libtroupe_cuda_emulator.so", RTLD_NOW | RTLD_NOLOAD);
  if (library == nullptr) return nullptr;
  const auto entry = reinterpret_cast<const TroupeEmulator* (*)()>(dlsym(library, TROUPE_EMULATOR_ENTRY));
  known = entry == nullptr ? nullptr : entry();
  return known;
}

}  // namespace

bool is_memory_of(int device, const void* at, std::size_t bytes) {
  const TroupeEmulator* const gpus = emulator();
  return gpus == nullptr || gpus->device_of(at, bytes) == device;
}

void load(std::span<float> to, const float* from) {
  const TroupeEmulator* const gpus = emulator();
  if (gpus != nullptr && gpus->device_of(from, to.size_bytes()) >= 0)
    return gpus->read(to.data(), from, to.size_bytes());
  std::copy_n(from, to.size(), to.data());
}

void store(std::span<const float> from, float* to) {
  const TroupeEmulator* const gpus = emulator();
  if (gpus != nullptr && gpus->device_of(to, from.size_bytes()) >= 0) {
    return gpus->write(to, from.data(), from.size_bytes());
  }
  std::ranges::copy(from, to);
}

}  // namespace troupe::collectives::simulated_nccl
