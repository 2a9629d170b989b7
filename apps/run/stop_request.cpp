#include <troupe/apps/run/stop_request.hpp>

#include <csignal>
#include <cstdint>
#include <ctime>

namespace troupe::apps {
namespace {

// A signal handler can reach nothing but a global.
std::atomic<bool> stop_requested{false};
static_assert(std::atomic<bool>::is_always_lock_free, "the handler must be async-signal-safe");

std::atomic<std::int64_t> requested_at_ms{0};
static_assert(std::atomic<std::int64_t>::is_always_lock_free);

std::int64_t now_ms() {
  timespec now = {};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return std::int64_t{now.tv_sec} * 1000 + now.tv_nsec / 1'000'000;
}

extern "C" void request_stop(int signal) {
  if (!stop_requested.exchange(true)) return requested_at_ms.store(now_ms());
  if (now_ms() - requested_at_ms.load() < StopRequest::kSameRequest.count()) return;
  std::signal(signal, SIG_DFL);
  std::raise(signal);
}

void set_handler(int signal, void (*handler)(int), int flags) {
  struct sigaction action = {};
  action.sa_handler = handler;
  action.sa_flags = flags;
  sigaction(signal, &action, nullptr);
}

}  // namespace

StopRequest::StopRequest() {
  stop_requested.store(false);
  // SA_RESTART: no call fails with EINTR.
  set_handler(SIGINT, request_stop, SA_RESTART);
  set_handler(SIGTERM, request_stop, SA_RESTART);
  set_handler(SIGPIPE, SIG_IGN, 0);
}

StopRequest::~StopRequest() {
  for (const int signal : {SIGINT, SIGTERM, SIGPIPE}) set_handler(signal, SIG_DFL, 0);
}

const std::atomic<bool>& StopRequest::flag() const { return stop_requested; }

}  // namespace troupe::apps
