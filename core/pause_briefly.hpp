#pragma once
// What stands in a loop that looks at memory until another thread has written it.

namespace troupe {

/// Tells the processor that this is a waiting loop: its other hardware thread gets the units that this one leaves idle.
inline void pause_briefly() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

}  // namespace troupe
