#include <troupe/run/stop_request.hpp>

#include <csignal>
#include <cstdint>
#include <ctime>

namespace troupe::apps {
namespace {

// A signal handler can reach nothing but a global.
std::atomic<bool> stop_requested{false};
static_assert(std::atomic<bool>::is_always_lock_free, "the handler must be async-signal-safe");

/// 0: not yet. Signals reach several threads at once, of which one is the first.
std::atomic<std::int64_t> requested_at_ms{0};
static_assert(std::atomic<std::int64_t>::is_always_lock_free);

std::int64_t now_ms() {
  timespec now = {};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return std::int64_t{now.tv_sec} * 1000 + now.tv_nsec / 1'000'000;
}

extern "C" void request_stop(int signal) {
  const std::int64_t now = now_ms();
  std::int64_t first = 0;
  if (requested_at_ms.compare_exchange_strong(first, now)) return stop_requested.store(true);
  if (!StopRequest::is_impatient(signal, std::chrono::milliseconds(now - first))) return;
  std::signal(signal, SIG_DFL);
  std::raise(signal);
}

}  // namespace

StopRequest::StopRequest() {
  stop_requested.store(false);
  requested_at_ms.store(0);
  struct sigaction asks = {};
  asks.sa_handler = request_stop;
  asks.sa_flags = SA_RESTART;  // no call fails with EINTR
  struct sigaction ignores = {};
  ignores.sa_handler = SIG_IGN;
  sigaction(SIGHUP, nullptr, &before_[0]);
  const bool nohup = before_[0].sa_handler == SIG_IGN;
  for (std::size_t i = 0; i < kSignals.size(); ++i) {
    const bool ignored = kSignals[i] == SIGPIPE || (kSignals[i] == SIGHUP && nohup);
    sigaction(kSignals[i], ignored ? &ignores : &asks, &before_[i]);
  }
}

StopRequest::~StopRequest() {
  for (std::size_t i = 0; i < kSignals.size(); ++i) sigaction(kSignals[i], &before_[i], nullptr);
}

const std::atomic<bool>& StopRequest::flag() const { return stop_requested; }

}  // namespace troupe::apps
