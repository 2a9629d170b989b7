#pragma once
// What is too small for a normal number counts as 0 in a program's arithmetic. Tails of a softmax and moments of units
// that are never active are such numbers once an agent has learnt, and processors multiply them many times slower: a
// D4PG step was measured to take 4 times as long after 125,000 steps as at first. XLA does the same.
#include <cstdint>

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

namespace troupe::learner {

/// While it lives, this thread reads denormal floating-point numbers as 0 and writes 0 for them.
class FlushDenormals {
 public:
  FlushDenormals() : before_(control()) { set(before_ | kFlush); }
  ~FlushDenormals() { set(before_); }
  FlushDenormals(const FlushDenormals&) = delete;
  FlushDenormals& operator=(const FlushDenormals&) = delete;

 private:
#if defined(__x86_64__)
  static constexpr unsigned kFlush = 0x8040;  // flush to zero, denormals are zero
  static unsigned control() { return _mm_getcsr(); }
  static void set(unsigned value) { _mm_setcsr(value); }
  unsigned before_;
#elif defined(__aarch64__)
  static constexpr std::uint64_t kFlush = std::uint64_t{1} << 24;
  static std::uint64_t control() {
    std::uint64_t value;
    asm volatile("mrs %0, fpcr" : "=r"(value));
    return value;
  }
  static void set(std::uint64_t value) { asm volatile("msr fpcr, %0" ::"r"(value)); }
  std::uint64_t before_;
#else
  static constexpr int kFlush = 0;
  static int control() { return 0; }
  static void set(int) {}
  int before_;
#endif
};

}  // namespace troupe::learner
