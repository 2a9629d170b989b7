#include <troupe/transport/stream_acceptor.hpp>

#include <fmt/format.h>
#include <poll.h>

#include <algorithm>
#include <deque>
#include <mutex>
#include <utility>
#include <vector>

#include <troupe/core/log.hpp>
#include <troupe/transport/detail/stream_thread.hpp>

namespace troupe::transport {
namespace {

/// For the rest of a hello whose first bytes are there: it is one small record.
constexpr Duration kRestOfHello = std::chrono::milliseconds(200);

}  // namespace

struct StreamAcceptor::Impl {
  explicit Impl(StreamAcceptorOptions acceptor_options) : options(std::move(acceptor_options)) {}

  struct Waiting {
    std::unique_ptr<Link> link;
    Duration deadline;
  };

  void take(std::unique_ptr<Link> link);
  void stop();
  void run(const std::stop_token& stop);
  bool settled(Waiting& waiting);
  void wait_for_more();
  static void drop_oldest(std::deque<Waiting>& links);

  const StreamAcceptorOptions options;
  const SteadyClock clock{};
  WakeEvent wake;

  std::mutex mutex;
  std::deque<Waiting> arrived;  // guarded by the mutex, with `stopped`
  bool stopped = false;

  std::deque<Waiting> waiting;  // the thread's own

  StreamThread thread;
};

void StreamAcceptor::Impl::take(std::unique_ptr<Link> link) {
  {
    const std::lock_guard lock(mutex);
    if (stopped) return;
    arrived.push_back({std::move(link), clock.now() + options.timeout});
    drop_oldest(arrived);
  }
  wake.set();
}

/// Closes those that are one too many: of the node that the newest is from, and of all.
void StreamAcceptor::Impl::drop_oldest(std::deque<Waiting>& links) {
  const std::string newest = links.back().link->peer().node;
  const auto is_its = [&](const Waiting& one) { return one.link->peer().node == newest; };
  if (std::ranges::count_if(links, is_its) > std::ptrdiff_t{kWaitingOfOne})
    links.erase(std::ranges::find_if(links, is_its));
  if (links.size() > kWaitingMax) links.pop_front();
}

void StreamAcceptor::Impl::stop() {
  {
    const std::lock_guard lock(mutex);
    stopped = true;
  }
  thread.request_stop();
  wake.set();
  thread.join();
}

void StreamAcceptor::Impl::run(const std::stop_token& stop) {
  while (!stop.stop_requested()) {
    {
      const std::lock_guard lock(mutex);
      for (Waiting& one : arrived) {
        waiting.push_back(std::move(one));
        drop_oldest(waiting);
      }
      arrived.clear();
    }
    std::erase_if(waiting, [&](Waiting& one) { return settled(one); });
    wait_for_more();
    wake.clear();
  }
  waiting.clear();
  const std::lock_guard lock(mutex);
  arrived.clear();
}

/// Whether there is nothing more to wait for: the hello has come, or will not.
bool StreamAcceptor::Impl::settled(Waiting& one) {
  const auto readable = one.link->wait(Duration::zero());
  if (!readable.ok()) return true;
  if (!*readable && clock.now() < one.deadline) return false;
  if (options.on_word) {
    if (*readable) options.on_word(std::move(one.link));
    return true;
  }
  auto hello = *readable
                   ? receive_hello(*one.link, kRestOfHello)
                   : Error{Code::kDeadlineExceeded, fmt::format("no hello in {:.1f} s", seconds(options.timeout))};
  if (hello.ok()) {
    options.on_hello(std::move(one.link), std::move(*hello));
  } else if (hello.error().code != Code::kUnavailable) {  // who has left again needs no word
    log::warn("stream from {}: {}", one.link->peer().node, hello.error().message);
  }
  return true;
}

/// Until a link can be read, one more has come, or the oldest has waited long enough.
void StreamAcceptor::Impl::wait_for_more() {
  std::vector<pollfd> entries{{wake.fd(), POLLIN, 0}};
  for (const Waiting& one : waiting) entries.push_back({one.link->socket(), POLLIN, 0});
  int timeout_ms = -1;
  if (!waiting.empty()) {
    const Duration left = std::max(waiting.front().deadline - clock.now(), Duration::zero());
    timeout_ms = static_cast<int>(std::chrono::ceil<std::chrono::milliseconds>(left).count());
  }
  (void)::poll(entries.data(), entries.size(), timeout_ms);
}

StreamAcceptor::StreamAcceptor(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

StreamAcceptor::~StreamAcceptor() { stop(); }

Result<std::unique_ptr<StreamAcceptor>> StreamAcceptor::make(StreamAcceptorOptions options) {
  if (static_cast<bool>(options.on_hello) == static_cast<bool>(options.on_word)) {
    return Error{Code::kInvalidArgument, "stream acceptor: expected a function for hellos, or one for words"};
  }
  auto impl = std::make_unique<Impl>(std::move(options));
  if (impl->wake.fd() < 0) return Error{Code::kUnavailable, "stream acceptor: the system has no event left"};
  TROUPE_TRY(impl->thread.start("accept streams", true, [raw = impl.get()](std::stop_token stop) { raw->run(stop); }));
  return std::unique_ptr<StreamAcceptor>(new StreamAcceptor(std::move(impl)));
}

void StreamAcceptor::take(std::unique_ptr<Link> link) { impl_->take(std::move(link)); }

void StreamAcceptor::stop() { impl_->stop(); }

}  // namespace troupe::transport
