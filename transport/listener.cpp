#include <troupe/transport/listener.hpp>

#include <fmt/format.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <list>
#include <map>
#include <mutex>
#include <thread>
#include <vector>

#include <troupe/core/check.hpp>
#include <troupe/core/log.hpp>
#include <troupe/core/thread_priority.hpp>
#include <troupe/transport/detail/handshake.hpp>
#include <troupe/transport/detail/socket_address.hpp>

namespace troupe::transport {
namespace {

constexpr Duration kLookupTimeout = std::chrono::seconds(5);
constexpr Duration kLogInterval = std::chrono::seconds(5);
/// How long accepting rests when it fails: no descriptor or memory is left.
constexpr Duration kAcceptPause = std::chrono::milliseconds(100);
/// Connections accepted, and handshakes begun, before those that have begun get their turn again: to accept costs
/// little, to begin a thousand times that.
constexpr int kAcceptBatch = 512;
constexpr int kBeginBatch = 16;
constexpr int kBacklog = 4096;
/// Of the descriptors that the process may have, those who say nothing get one in so many, and so those who have begun.
constexpr rlim_t kShareOfSilent = 4, kShareOfBegun = 8;
constexpr std::size_t kUnfinishedLeast = 4;
/// Reasons that are counted apart; they come from this program's texts, so this many never occur.
constexpr std::size_t kReasonsMax = 32;

/// Debian's installer gives a host's own name the address 127.0.1.1, at which no other host reaches it: whoever listens
/// by such a name listens on all addresses.
void leave_loopback(const Address& asked, SocketAddress& address) {
  const std::string numeric = to_address(address).host;
  const bool loopback = numeric.starts_with("127.") || numeric == "::1";
  const bool meant = asked.host == numeric || asked.host.starts_with("127.") || asked.host.ends_with("localhost");
  if (!loopback || meant) return;
  if (address.storage.ss_family == AF_INET) {
    reinterpret_cast<sockaddr_in&>(address.storage).sin_addr.s_addr = htonl(INADDR_ANY);
  } else {
    reinterpret_cast<sockaddr_in6&>(address.storage).sin6_addr = in6addr_any;
  }
}

std::size_t share_of_descriptors(rlim_t share, std::size_t most) {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return most;
  return std::clamp<rlim_t>(limit.rlim_cur / share, kUnfinishedLeast, most);
}

Result<Descriptor> listen_on(const Address& address) {
  TROUPE_ASSIGN(auto candidates, resolve(address, kLookupTimeout, {}));
  SocketAddress& candidate = candidates.front();
  leave_loopback(address, candidate);
  Descriptor socket(::socket(candidate.storage.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  const int on = 1;
  setsockopt(socket.fd(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));  // a restarted node takes its port at once
  if (socket.valid() && bind(socket.fd(), candidate.get(), candidate.size) == 0 && listen(socket.fd(), kBacklog) == 0) {
    return socket;
  }
  return Error{errno == EADDRINUSE ? Code::kUnavailable : Code::kInvalidArgument,
               fmt::format("listen on {}: {}", to_string(address), std::strerror(errno))};
}

/// Counts rejections and logs a few of them.
class Rejections {
 public:
  void add(const std::string& message, Duration now) {
    const bool left = message.ends_with("closed the connection");
    const std::string code = message.starts_with("TRP-") ? message.substr(0, 8) : left ? "closed" : "other";
    const std::lock_guard lock(mutex_);
    if (!reasons_.contains(code) && reasons_.size() >= kReasonsMax) return;
    Reason& reason = reasons_[code];
    ++reason.count;
    if (reason.logged != 0 && now < reason.logged_at + kLogInterval) return;
    const std::uint64_t more = reason.count - reason.logged - 1;
    const std::string line = more == 0 ? message : fmt::format("{} (and {} like it before)", message, more);
    // Peers that only knock, such as health checks, are nobody's worry.
    log::write(left ? log::Level::kDebug : log::Level::kWarn, line);
    reason.logged = reason.count;
    reason.logged_at = now;
  }

  std::map<std::string, std::uint64_t> counts() const {
    const std::lock_guard lock(mutex_);
    std::map<std::string, std::uint64_t> counts;
    for (const auto& [code, reason] : reasons_) counts[code] = reason.count;
    return counts;
  }

 private:
  struct Reason {
    std::uint64_t count = 0;
    std::uint64_t logged = 0;  // what `count` was at the last line
    Duration logged_at{};
  };
  mutable std::mutex mutex_;
  std::map<std::string, Reason> reasons_;
};

}  // namespace

class Listener::Impl {
 public:
  Impl(Descriptor socket, Descriptor stop, ContextPtr context, LinkOptions options, OnLink on_link)
      : socket_(std::move(socket)),
        stop_(std::move(stop)),
        context_(std::move(context)),
        options_(std::move(options)),
        on_link_(std::move(on_link)) {
    TROUPE_CHECK(options_.admit != nullptr && on_link_ != nullptr,
                 "a listener needs to know whom to let in, and whereto");
    options_.side = Side::kAccept;
    SocketAddress bound;
    getsockname(socket_.fd(), bound.get(), &bound.size);
    address_ = to_address(bound);
  }
  ~Impl() { stop(); }

  void start() {
    thread_ = std::thread([this] { run(); });
  }

  void stop() {
    if (!thread_.joinable()) return;
    TROUPE_CHECK(thread_.get_id() != std::this_thread::get_id(), "a listener cannot be stopped by its own callback");
    eventfd_write(stop_.fd(), 1);
    thread_.join();
    silent_.clear();
    begun_.clear();
    socket_ = Descriptor();
  }

  const Address& address() const { return address_; }
  std::map<std::string, std::uint64_t> rejected() const { return rejections_.counts(); }

 private:
  struct Unfinished {
    Unfinished(Descriptor socket, SSL_CTX& context, const LinkOptions& options, std::string host)
        : handshake(std::move(socket), context, options), from(std::move(host)) {}
    Handshake handshake;
    std::string from;  ///< the peer's host
    Handshake::Next next = Handshake::Next::kRead;
  };
  using Queue = std::list<Unfinished>;  // oldest first

  void run();
  void accept_some();
  void rest(int error);
  bool step(Unfinished& unfinished);
  void step_due(const std::vector<pollfd>& entries, bool any_ready);
  void make_room(Queue& queue);

  const SteadyClock clock_{};
  Descriptor socket_;
  const Descriptor stop_;
  const ContextPtr context_;
  LinkOptions options_;
  const OnLink on_link_;
  Address address_;
  Rejections rejections_;
  const std::size_t silent_max_ = share_of_descriptors(kShareOfSilent, kSilentMax);
  const std::size_t begun_max_ = share_of_descriptors(kShareOfBegun, kBegunMax);
  Queue silent_;  // have said nothing
  Queue begun_;
  Duration accept_again_{};
  std::thread thread_;
};

void Listener::Impl::run() {
  take_short_slices();
  std::vector<pollfd> entries;
  for (;;) {
    const bool accepting = clock_.now() >= accept_again_;
    entries.assign({{stop_.fd(), POLLIN, 0}, {accepting ? socket_.fd() : -1, POLLIN, 0}});
    Duration wake = accepting ? Duration::max() : accept_again_;
    for (const Queue* const queue : {&begun_, &silent_}) {
      for (const Unfinished& unfinished : *queue) {
        wake = std::min(wake, unfinished.handshake.deadline());
        const short events = unfinished.next == Handshake::Next::kRead ? POLLIN : POLLOUT;
        entries.push_back({unfinished.handshake.fd(), events, 0});
      }
    }
    const Duration left = std::max(wake - clock_.now(), Duration::zero());
    const int timeout =
        wake == Duration::max() ? -1 : static_cast<int>(std::chrono::ceil<std::chrono::milliseconds>(left).count());
    const int ready = poll(entries.data(), entries.size(), timeout);
    TROUPE_CHECK(ready >= 0 || errno == EINTR || errno == ENOMEM, "poll: {}", std::strerror(errno));
    if (ready > 0 && entries[0].revents != 0) return;
    step_due(entries, ready > 0);
    if (ready > 0 && entries[1].revents != 0) accept_some();
  }
}

/// Those that have begun first, then some of those that begin.
void Listener::Impl::step_due(const std::vector<pollfd>& entries, bool any_ready) {
  const Duration now = clock_.now();
  auto entry = entries.begin() + 2;
  const auto due = [&](const Unfinished& unfinished) {
    const bool said = any_ready && entry->revents != 0;
    ++entry;
    return said || now >= unfinished.handshake.deadline();
  };
  std::erase_if(begun_, [&](Unfinished& unfinished) { return due(unfinished) && step(unfinished); });
  int begun = 0;
  for (auto next = silent_.begin(); next != silent_.end() && begun < kBeginBatch;) {
    const auto current = next++;
    if (!due(*current)) continue;
    if (step(*current)) {
      silent_.erase(current);
    } else if (!current->handshake.silent()) {
      ++begun;
      if (begun_.size() >= begun_max_) make_room(begun_);
      begun_.splice(begun_.end(), silent_, current);
    }
  }
}

/// Whether the handshake is over, one way or the other.
bool Listener::Impl::step(Unfinished& unfinished) {
  const auto next = unfinished.handshake.step();
  if (!next.ok()) {
    rejections_.add(next.error().message, clock_.now());
    return true;
  }
  unfinished.next = *next;
  if (*next != Handshake::Next::kDone) return false;
  on_link_(std::make_unique<Link>(unfinished.handshake.take(), options_));
  return true;
}

/// Drops one, where there are any: of those that got least far, from the host that has most of these, the oldest.
void Listener::Impl::make_room(Queue& queue) {
  if (queue.empty()) return;
  const auto progress = [](const Unfinished& one) {
    return one.handshake.proven() ? 2 : one.handshake.answered() ? 1 : 0;
  };
  const int least = progress(*std::ranges::min_element(queue, {}, progress));
  std::map<std::string_view, std::size_t> hosts;
  for (const Unfinished& one : queue) hosts[one.from] += progress(one) == least ? 1 : 0;
  const auto most = std::ranges::max_element(hosts, {}, [](const auto& host) { return host.second; });
  const auto oldest = std::ranges::find_if(
      queue, [&](const Unfinished& one) { return progress(one) == least && one.from == most->first; });
  rejections_.add(fmt::format("TRP-S702 handshake dropped, the oldest of {} unfinished ones ({})", queue.size(),
                              peer_address(oldest->handshake.fd())),
                  clock_.now());
  queue.erase(oldest);
}

void Listener::Impl::accept_some() {
  for (int i = 0; i < kAcceptBatch; ++i) {
    SocketAddress peer;
    Descriptor socket(accept4(socket_.fd(), peer.get(), &peer.size, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (!socket.valid()) {
      if (errno == EINTR || errno == ECONNABORTED) continue;
      if (errno == EAGAIN || errno == EWOULDBLOCK) return;
      if (errno != EMFILE || silent_.empty()) return rest(errno);
      if (i > 0) return;   // those that have just come speak first
      make_room(silent_);  // who says nothing must not keep the descriptors from who does
      continue;
    }
    const int on = 1;
    setsockopt(socket.fd(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    if (silent_.size() >= silent_max_) make_room(silent_);
    silent_.emplace_back(std::move(socket), *context_, options_, to_address(peer).host);
  }
}

/// Accepts nothing for a while: the connections wait in the system's queue, and this thread does not spin.
void Listener::Impl::rest(int error) {
  rlimit limit{};
  getrlimit(RLIMIT_NOFILE, &limit);
  const std::string what =
      error == EMFILE ? fmt::format("out of file descriptors ({})", limit.rlim_cur) : std::strerror(error);
  rejections_.add(fmt::format("TRP-W170 {}: new connections wait", what), clock_.now());
  accept_again_ = clock_.now() + kAcceptPause;
}

Result<std::unique_ptr<Listener>> Listener::start(const Address& address, const Credentials& credentials,
                                                  LinkOptions options, OnLink on_link) {
  TROUPE_ASSIGN(ContextPtr context, make_context(credentials));
  TROUPE_ASSIGN(Descriptor socket, listen_on(address));
  Descriptor stop(eventfd(0, EFD_CLOEXEC));
  if (!stop.valid()) return Error{Code::kUnavailable, fmt::format("listener: eventfd: {}", std::strerror(errno))};
  auto impl = std::make_unique<Impl>(std::move(socket), std::move(stop), std::move(context), std::move(options),
                                     std::move(on_link));
  impl->start();
  return std::unique_ptr<Listener>(new Listener(std::move(impl)));
}

Listener::Listener(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Listener::~Listener() = default;
const Address& Listener::address() const { return impl_->address(); }
void Listener::stop() { impl_->stop(); }
std::map<std::string, std::uint64_t> Listener::rejected() const { return impl_->rejected(); }

}  // namespace troupe::transport
