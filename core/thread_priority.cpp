#include <troupe/core/thread_priority.hpp>

#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdint>

namespace troupe {
namespace {

/// A step of niceness is a factor of 1.25.
constexpr int kBehind = 5;

}  // namespace

void take_short_slices() {
  // The system's struct sched_attr in its first version, which the C library does not declare.
  struct {
    std::uint32_t size;
    std::uint32_t policy;
    std::uint64_t flags;
    std::int32_t nice;
    std::uint32_t priority;
    std::uint64_t runtime_ns;
    std::uint64_t deadline_ns;
    std::uint64_t period_ns;
  } attributes{};
  if (::syscall(SYS_sched_getattr, 0, &attributes, sizeof(attributes), 0) != 0) return;
  attributes.runtime_ns = 100'000;  // the least that the system takes
  (void)::syscall(SYS_sched_setattr, 0, &attributes, 0);
}

void go_behind() {
  const auto self = static_cast<id_t>(::syscall(SYS_gettid));
  const int now = ::getpriority(PRIO_PROCESS, self);
  (void)::setpriority(PRIO_PROCESS, self, now + kBehind);
}

}  // namespace troupe
