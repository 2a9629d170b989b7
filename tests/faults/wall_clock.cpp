// The wall clock of a program and all that it starts, moved while they run: a library for LD_PRELOAD. The file that
// TROUPE_WALL_CLOCK names holds seconds as a native 64-bit number; they are added to what the real-time clock says.
// Monotonic clocks stay as they are, as when an administrator sets the time. For tests only (harness/training.py).
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>

namespace {

std::int64_t shift_s() {
  static const volatile std::int64_t* const shift = [] {
    static constexpr std::int64_t none = 0;
    const char* const path = std::getenv("TROUPE_WALL_CLOCK");
    const int file = path == nullptr ? -1 : open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0) return &none;
    void* const at = mmap(nullptr, sizeof(std::int64_t), PROT_READ, MAP_SHARED, file, 0);
    close(file);
    return at == MAP_FAILED ? &none : static_cast<const std::int64_t*>(at);
  }();
  return *shift;
}

}  // namespace

extern "C" {

int clock_gettime(clockid_t clock, timespec* now) noexcept {
  const auto status = static_cast<int>(syscall(SYS_clock_gettime, clock, now));
  if (status == 0 && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) now->tv_sec += shift_s();
  return status;
}

time_t time(time_t* out) noexcept {
  timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  if (out != nullptr) *out = now.tv_sec;
  return now.tv_sec;
}

int gettimeofday(timeval* out, void* /*zone*/) noexcept {
  timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  out->tv_sec = now.tv_sec;
  out->tv_usec = now.tv_nsec / 1000;
  return 0;
}

}  // extern "C"
