#include <troupe/apps/run/stop_request.hpp>

#include <csignal>

namespace troupe::apps {
namespace {

// A signal handler can reach nothing but a global.
std::atomic<bool> stop_requested{false};
static_assert(std::atomic<bool>::is_always_lock_free, "the handler must be async-signal-safe");

extern "C" void request_stop(int) { stop_requested.store(true); }

void set_handler(int signal, void (*handler)(int), int flags) {
  struct sigaction action = {};
  action.sa_handler = handler;
  action.sa_flags = flags;
  sigaction(signal, &action, nullptr);
}

}  // namespace

StopRequest::StopRequest() {
  stop_requested.store(false);
  // SA_RESETHAND: the next signal of the same kind has its default effect. SA_RESTART: no call fails with EINTR.
  set_handler(SIGINT, request_stop, SA_RESETHAND | SA_RESTART);
  set_handler(SIGTERM, request_stop, SA_RESETHAND | SA_RESTART);
  set_handler(SIGPIPE, SIG_IGN, 0);
}

StopRequest::~StopRequest() {
  for (const int signal : {SIGINT, SIGTERM, SIGPIPE}) set_handler(signal, SIG_DFL, 0);
}

const std::atomic<bool>& StopRequest::flag() const { return stop_requested; }

}  // namespace troupe::apps
