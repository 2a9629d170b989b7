#include <fmt/format.h>

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include <troupe/core/log.hpp>
#include <troupe/transport/detail/stream_thread.hpp>
#include <troupe/transport/detail/stream_wire.hpp>
#include <troupe/transport/stream.hpp>

namespace troupe::transport {
namespace {

// An acknowledgement goes out when so much was delivered, or so long after the first message that it is for. The sender
// holds its messages until then.
constexpr std::uint64_t kAckMessages = 1024;
constexpr std::size_t kAckBytes = 1 << 20;
constexpr Duration kAckDelay = std::chrono::milliseconds(20);

constexpr Duration kWarnPause = std::chrono::seconds(1);
/// Between two looks whether the pool has room again.
constexpr Duration kMemoryPause = std::chrono::milliseconds(5);
/// Replaced sessions that are remembered; far more restarts than the dead process can outlive.
constexpr std::size_t kReplacedSessions = 64;

}  // namespace

struct StreamReceiver::Impl {
  Impl(StreamReceiverOptions receiver_options, const StreamId& receiver_id)
      : options(std::move(receiver_options)), id(receiver_id) {}

  void attach(std::unique_ptr<Link> link, StreamHello hello);
  void stop();

  void run(const std::stop_token& stop);
  Status serve(Link& link, const StreamHello& hello);
  Status begin(const StreamHello& hello);
  Status receive_message(Link& link);
  Result<StreamMessage> receive_body(Link& link, std::size_t size);
  Status acknowledge(Link& link);
  template <typename Attempt>
  Status wait_for_memory(Attempt attempt);
  void warn(const std::string& what);

  const StreamReceiverOptions options;
  const StreamId id;
  const SteadyClock clock{};

  mutable std::mutex mutex;
  std::condition_variable_any attached;
  // Guarded by the mutex.
  std::unique_ptr<Link> next;
  StreamHello next_hello;
  Link* current = nullptr;  // for attach() and stop() to close
  bool stopped = false;
  StreamReceiverStats stats;

  // The thread's own.
  std::optional<StreamId> session;
  std::deque<StreamId> replaced;
  std::uint64_t delivered = 0;
  std::uint64_t due_messages = 0;  // delivered and not acknowledged
  std::size_t due_bytes = 0;
  Duration due_at{};
  std::optional<Duration> warned;

  StreamThread thread;
};

void StreamReceiver::Impl::attach(std::unique_ptr<Link> link, StreamHello hello) {
  const std::lock_guard lock(mutex);
  if (stopped) return;
  if (current != nullptr) current->close();
  std::swap(next, link);  // the one that waited, if any, goes
  next_hello = std::move(hello);
  attached.notify_all();
}

void StreamReceiver::Impl::stop() {
  {
    const std::lock_guard lock(mutex);
    stopped = true;
    if (current != nullptr) current->close();
  }
  thread.request_stop();
  thread.join();
}

void StreamReceiver::Impl::run(const std::stop_token& stop) {
  for (;;) {
    std::unique_ptr<Link> link;
    StreamHello hello;
    {
      std::unique_lock lock(mutex);
      if (!attached.wait(lock, stop, [&] { return next != nullptr; }) || stopped) return;
      link = std::move(next);
      hello = std::move(next_hello);
      current = link.get();
    }
    const Status ended = serve(*link, hello);
    const Error& reason = ended.error();
    bool ours = false;  // this node closed it
    {
      const std::lock_guard lock(mutex);
      current = nullptr;
      stats.connected = false;
      stats.last_error = reason.message;
      ours = stopped || next != nullptr;
    }
    // That a peer leaves is usual; what has a stable code, or cannot be from a sender, is not.
    if (!ours && (reason.code == Code::kCorrupt || reason.message.starts_with("TRP-"))) warn(reason.message);
  }
}

Status StreamReceiver::Impl::serve(Link& link, const StreamHello& hello) {
  if (Status may = begin(hello); !may.ok()) {
    send_refusal(link, may.error());
    return may;
  }
  TROUPE_TRY(link.send(FrameKind::kControl, encode(StreamResume{id, delivered}), options.stall_timeout));
  due_messages = due_bytes = 0;
  for (;;) {
    const Duration left = due_messages == 0 ? kForever : due_at - clock.now();
    if (left <= Duration::zero()) {
      TROUPE_TRY(acknowledge(link));
      continue;
    }
    TROUPE_ASSIGN(const bool readable, link.wait(left));
    if (readable) TROUPE_TRY(receive_message(link));
    if (due_messages >= kAckMessages || due_bytes >= kAckBytes) TROUPE_TRY(acknowledge(link));
  }
}

/// Finds where the stream goes on.
Status StreamReceiver::Impl::begin(const StreamHello& hello) {
  const bool fresh = session != hello.session;
  if (fresh && std::ranges::find(replaced, hello.session) != replaced.end()) {
    return Error{Code::kCancelled,
                 fmt::format("TRP-F111 another process has taken the place of this one as {}", options.peer)};
  }
  if (!fresh && hello.first > delivered + 1) {
    return Error{Code::kCorrupt,
                 fmt::format("the sender goes on with message {}, expected one up to {}", hello.first, delivered + 1)};
  }
  if (fresh) {
    if (session.has_value()) replaced.push_back(*session);
    if (replaced.size() > kReplacedSessions) replaced.pop_front();
    session = hello.session;
    delivered = hello.first - 1;
  }
  const std::lock_guard lock(mutex);
  stats.connected = true;
  ++stats.connections;
  stats.sessions += fresh ? 1 : 0;
  return {};
}

Status StreamReceiver::Impl::receive_message(Link& link) {
  TROUPE_ASSIGN(const FrameHeader header, link.receive_header(options.stall_timeout));
  if (header.kind != FrameKind::kData || header.length < kStreamPrefixBytes) {
    return Error{Code::kCorrupt, fmt::format("a frame of kind {}, {} bytes, expected a message",
                                             static_cast<int>(header.kind), header.length)};
  }
  StreamPrefix prefix;
  TROUPE_TRY(link.receive_payload(std::as_writable_bytes(std::span(&prefix, 1)), options.stall_timeout));
  TROUPE_ASSIGN(StreamMessage message, receive_body(link, header.length - kStreamPrefixBytes));
  if (prefix.number > delivered + 1) {
    return Error{Code::kCorrupt, fmt::format("message {}, expected {}", prefix.number, delivered + 1)};
  }
  if (prefix.number <= delivered) {
    warn(fmt::format("TRP-S707 duplicate message {} from {} dropped", prefix.number, options.peer));
    const std::lock_guard lock(mutex);
    ++stats.duplicates;
    return {};
  }
  const std::size_t bytes = message.body.size();
  message.head = prefix.head;
  options.on_message(std::move(message));
  delivered = prefix.number;
  if (due_messages++ == 0) due_at = clock.now() + kAckDelay;
  due_bytes += bytes;
  const std::lock_guard lock(mutex);
  ++stats.delivered;
  stats.bytes += bytes;
  return {};
}

Result<StreamMessage> StreamReceiver::Impl::receive_body(Link& link, std::size_t size) {
  StreamMessage message;
  if (size == 0) return message;
  std::optional<ReceiveBuffer> buffer;
  TROUPE_TRY(wait_for_memory([&]() -> Status {
    TROUPE_ASSIGN(buffer, options.pool->allocate(size));
    return {};
  }));
  for (std::size_t done = 0; done < size;) {
    if (done == buffer->bytes().size()) TROUPE_TRY(wait_for_memory([&] { return buffer->grow(); }));
    const auto room = buffer->bytes().subspan(done);
    TROUPE_TRY(link.receive_payload(room, options.stall_timeout));
    done += room.size();
  }
  const auto bytes = std::move(*buffer).freeze();
  message.body = {bytes.get(), size};
  message.owner = bytes;
  return message;
}

/// Tries again until the pool has room: meanwhile the sender is held back, as by a slow consumer.
template <typename Attempt>
Status StreamReceiver::Impl::wait_for_memory(Attempt attempt) {
  Status done = attempt();
  if (done.ok()) return done;
  warn(fmt::format("waiting for memory: {}", done.error().message));
  const Duration deadline = clock.now() + options.stall_timeout;
  while (!done.ok() && clock.now() < deadline) {
    std::unique_lock lock(mutex);
    if (stopped || attached.wait_for(lock, kMemoryPause, [&] { return next != nullptr || stopped; })) break;
    lock.unlock();
    done = attempt();
  }
  return done;
}

/// At most a line a second, so that no peer can fill the log; the numbers are in the stats.
void StreamReceiver::Impl::warn(const std::string& what) {
  const Duration now = clock.now();
  if (warned.has_value() && now - *warned < kWarnPause) return;
  warned = now;
  log::warn("{} (stream from {})", what, options.peer);
}

Status StreamReceiver::Impl::acknowledge(Link& link) {
  TROUPE_TRY(link.send(FrameKind::kControl, encode_ack(delivered), options.stall_timeout));
  due_messages = due_bytes = 0;
  return {};
}

StreamReceiver::StreamReceiver(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

StreamReceiver::~StreamReceiver() { stop(); }

Result<std::unique_ptr<StreamReceiver>> StreamReceiver::make(StreamReceiverOptions options) {
  if (options.pool == nullptr || !options.on_message) {
    return Error{Code::kInvalidArgument,
                 fmt::format("stream from {}: expected a pool and a function for messages", options.peer)};
  }
  TROUPE_ASSIGN(const StreamId id, random_stream_id());
  auto impl = std::make_unique<Impl>(std::move(options), id);
  TROUPE_TRY(impl->thread.start("recv " + impl->options.peer, impl->options.urgent,
                                [raw = impl.get()](std::stop_token stop) { raw->run(stop); }));
  return std::unique_ptr<StreamReceiver>(new StreamReceiver(std::move(impl)));
}

void StreamReceiver::attach(std::unique_ptr<Link> link, StreamHello hello) {
  impl_->attach(std::move(link), std::move(hello));
}

StreamReceiverStats StreamReceiver::stats() const {
  const std::lock_guard lock(impl_->mutex);
  return impl_->stats;
}

void StreamReceiver::stop() { impl_->stop(); }

}  // namespace troupe::transport
