#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include <troupe/core/rng.hpp>
#include <troupe/transport/detail/stream_thread.hpp>
#include <troupe/transport/detail/stream_wire.hpp>
#include <troupe/transport/stream.hpp>

namespace troupe::transport {
namespace {

/// Sent between two looks at the acknowledgements, headers and all.
constexpr std::size_t kBatchBytes = 1 << 20;
constexpr std::size_t kHeaderBytes = kFrameHeaderBytes + kStreamPrefixBytes;

}  // namespace

struct StreamSender::Impl {
  Impl(StreamSenderOptions sender_options, const StreamId& id)
      : options(std::move(sender_options)), session(id), rng(options.seed) {}

  Status send(StreamMessage message);
  void stop();

  void run(const std::stop_token& stop);
  Status connect_and_serve(const std::stop_token& stop);
  Status serve(Link& link);
  Status resume(Link& link);
  Status send_some(Link& link);
  Status read_acknowledgements(Link& link);
  Status check_delivered(std::uint64_t delivered) const;
  void settle(std::uint64_t delivered);
  Status wait(Link& link);
  void take_queued();
  void lose(const Error& reason);
  void forget();

  const StreamSenderOptions options;
  const StreamId session;
  const SteadyClock clock{};
  WakeEvent wake;

  mutable std::mutex mutex;
  std::condition_variable_any retry;
  // Guarded by the mutex.
  std::vector<StreamMessage> queued;
  bool idle = false;  // the thread waits for the wake event
  bool stopped = false;
  Link* current = nullptr;  // for stop() to close
  StreamSenderStats stats;
  Duration down_since{};

  // The thread's own.
  std::vector<StreamMessage> taken;  // empty between two calls; keeps its memory
  std::deque<StreamMessage> window;  // not acknowledged
  std::uint64_t first = 1;           // number of the first of the window
  std::size_t sent = 0;              // of the window, on this connection
  std::uint64_t ever_sent = 0;       // number of the last message that was sent on any connection
  std::optional<StreamId> receiver;
  Duration progress{};  // when something was sent or acknowledged last
  bool lost = false;    // down() has been called
  Rng rng;

  StreamThread thread;
};

Status StreamSender::Impl::send(StreamMessage message) {
  const std::size_t bytes = message.bytes();
  if (bytes > options.max_message_bytes) {
    return Error{Code::kInvalidArgument, fmt::format("stream {}: message of {} bytes, at most {} allowed", options.name,
                                                     bytes, options.max_message_bytes)};
  }
  bool sleeps = false;
  {
    const std::lock_guard lock(mutex);
    if (stopped) return Error{Code::kUnavailable, fmt::format("stream {}: stopped", options.name)};
    if (stats.messages >= options.max_messages || stats.bytes + bytes > options.max_bytes) {
      return Error{Code::kUnavailable,
                   fmt::format("stream {}: {} messages of {} bytes are not acknowledged, at most {} of {} allowed",
                               options.name, stats.messages, stats.bytes, options.max_messages, options.max_bytes)};
    }
    ++stats.messages;
    stats.bytes += bytes;
    ++stats.accepted;
    queued.push_back(std::move(message));
    sleeps = std::exchange(idle, false);
  }
  if (sleeps) wake.set();
  return {};
}

void StreamSender::Impl::stop() {
  {
    const std::lock_guard lock(mutex);
    stopped = true;
    if (current != nullptr) current->close();
  }
  thread.request_stop();
  thread.join();
}

void StreamSender::Impl::run(const std::stop_token& stop) {
  Duration pause = options.retry_least;
  while (!stop.stop_requested()) {
    const std::uint64_t first_before = first;
    const Duration start = clock.now();
    const Status ended = connect_and_serve(stop);
    if (stop.stop_requested()) break;
    lose(ended.error());
    if (ended.error().code == Code::kCancelled) break;  // another process has our place: there is none to go back to
    // A connection that was of use is made again at once; one that breaks whenever it is made is not.
    if (first != first_before || clock.now() - start > options.retry_most) pause = options.retry_least;
    std::unique_lock lock(mutex);
    retry.wait_for(lock, stop, pause * (1.0 - 0.5 * rng.uniform()), [] { return false; });
    pause = std::min(2 * pause, options.retry_most);
  }
  {
    const std::lock_guard lock(mutex);
    stopped = true;
  }
  take_queued();
  window.clear();
}

Status StreamSender::Impl::connect_and_serve(const std::stop_token& stop) {
  TROUPE_ASSIGN(const std::unique_ptr<Link> link, options.connect(stop));
  {
    const std::lock_guard lock(mutex);
    if (stopped) return Error{Code::kUnavailable, "stopped"};
    current = link.get();
  }
  const Status ended = serve(*link);
  const std::lock_guard lock(mutex);
  current = nullptr;
  return ended;
}

/// The connection is gone, or was never made.
void StreamSender::Impl::lose(const Error& reason) {
  bool was_connected = false;
  {
    const std::lock_guard lock(mutex);
    was_connected = std::exchange(stats.connected, false);
    if (was_connected) down_since = clock.now();
    stats.last_error = reason.message;
  }
  if (was_connected && options.forgets) forget();
  const bool known = std::exchange(lost, true);
  if (options.down && (!known || reason.code == Code::kCancelled)) options.down(reason);
}

void StreamSender::Impl::forget() {
  take_queued();
  std::size_t bytes = 0;
  for (const StreamMessage& message : window) bytes += message.bytes();
  {
    const std::lock_guard lock(mutex);  // somebody may have sent one more
    stats.messages -= window.size();
    stats.bytes -= bytes;
  }
  window.clear();
}

Status StreamSender::Impl::serve(Link& link) {
  TROUPE_TRY(resume(link));
  for (;;) {
    take_queued();
    if (sent == window.size()) {
      TROUPE_TRY(wait(link));
      take_queued();
    }
    if (sent < window.size()) TROUPE_TRY(send_some(link));
    TROUPE_TRY(read_acknowledgements(link));
  }
}

/// Agrees with the receiver on where to go on.
Status StreamSender::Impl::resume(Link& link) {
  sent = 0;
  TROUPE_TRY(send_hello(link, {session, first, options.name, options.to}, options.stall_timeout));
  TROUPE_ASSIGN(const ReceivedFrame frame, link.receive(options.stall_timeout));
  TROUPE_ASSIGN(const StreamResume answer, decode_resume(frame));
  // What was sent on an earlier connection may have arrived.
  sent = ever_sent + 1 - first;
  TROUPE_TRY(check_delivered(answer.delivered));
  if (options.forgets) {
    // Nothing of it is left. The numbers of what has not arrived are given again.
    first = answer.delivered + 1;
    ever_sent = answer.delivered;
  } else {
    settle(answer.delivered);
  }
  sent = 0;
  progress = clock.now();
  {
    const std::lock_guard lock(mutex);
    stats.connected = true;
    ++stats.connections;
  }
  lost = false;
  const StreamUp up{.new_receiver = receiver.has_value() && *receiver != answer.receiver};
  receiver = answer.receiver;
  if (options.up) options.up(up);
  return {};
}

void StreamSender::Impl::take_queued() {
  {
    const std::lock_guard lock(mutex);
    std::swap(queued, taken);
  }
  window.insert(window.end(), std::make_move_iterator(taken.begin()), std::make_move_iterator(taken.end()));
  taken.clear();
}

Status StreamSender::Impl::send_some(Link& link) {
  std::size_t end = sent;
  for (std::size_t bytes = 0; end < window.size() && bytes < kBatchBytes; ++end)
    bytes += window[end].bytes() + kHeaderBytes;
  const std::uint64_t last = first + end - 1;
  {
    // Before it is tried: what an attempt that fails had sent may arrive.
    const std::lock_guard lock(mutex);
    const std::uint64_t fresh = last - std::clamp(ever_sent, first + sent - 1, last);
    stats.sent += fresh;
    stats.resent += end - sent - fresh;
  }
  ever_sent = std::max(ever_sent, last);
  for (; sent < end; ++sent) {
    const StreamMessage& message = window[sent];
    const StreamPrefix prefix{first + sent, message.head};
    const std::span<const std::byte> parts[] = {std::as_bytes(std::span(&prefix, 1)), message.body};
    TROUPE_TRY(link.queue(FrameKind::kData, parts, options.stall_timeout, message.lent.get()));
  }
  TROUPE_TRY(link.flush(options.stall_timeout));
  progress = clock.now();
  return {};
}

Status StreamSender::Impl::read_acknowledgements(Link& link) {
  for (;;) {
    TROUPE_ASSIGN(const bool readable, link.wait(Duration::zero()));
    if (!readable) return {};
    TROUPE_ASSIGN(const ReceivedFrame frame, link.receive(options.stall_timeout));
    TROUPE_ASSIGN(const std::uint64_t delivered, decode_ack(frame));
    TROUPE_TRY(check_delivered(delivered));
    settle(delivered);
    progress = clock.now();
  }
}

Status StreamSender::Impl::check_delivered(std::uint64_t delivered) const {
  if (delivered + 1 >= first && delivered + 1 <= first + sent) return {};
  return Error{Code::kCorrupt, fmt::format("stream {}: the peer acknowledges message {}, expected one from {} to {}",
                                           options.name, delivered, first - 1, first + sent - 1)};
}

/// Lets go of what has been delivered.
void StreamSender::Impl::settle(std::uint64_t delivered) {
  const std::size_t count = delivered + 1 - first;
  std::size_t bytes = 0;
  for (std::size_t i = 0; i < count; ++i) {
    bytes += window.front().bytes();
    window.pop_front();
  }
  first += count;
  sent -= count;
  const std::lock_guard lock(mutex);
  stats.messages -= count;
  stats.bytes -= bytes;
}

/// Until there is something to send or an acknowledgement to read.
Status StreamSender::Impl::wait(Link& link) {
  {
    const std::lock_guard lock(mutex);
    if (!queued.empty()) return {};
    idle = true;
  }
  const Duration timeout = sent == 0 ? kForever : progress + options.stall_timeout - clock.now();
  const auto readable = link.wait(timeout, wake.fd());
  {
    const std::lock_guard lock(mutex);
    if (!std::exchange(idle, false)) wake.clear();
  }
  if (!readable.ok()) return readable.error();
  if (*readable || sent == 0 || clock.now() < progress + options.stall_timeout) return {};
  return Error{Code::kDeadlineExceeded, fmt::format("stream {}: {} messages sent, nothing acknowledged for {:.1f} s",
                                                    options.name, sent, seconds(options.stall_timeout))};
}

StreamSender::StreamSender(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

StreamSender::~StreamSender() { stop(); }

Result<std::unique_ptr<StreamSender>> StreamSender::make(StreamSenderOptions options) {
  if (!options.connect || options.name.size() > kMaxStreamName || options.max_message_bytes > options.max_bytes) {
    return Error{Code::kInvalidArgument,
                 fmt::format("stream \"{}\": expected a function that connects, a name of at most {} bytes, and "
                             "max_message_bytes {} within max_bytes {}",
                             options.name, kMaxStreamName, options.max_message_bytes, options.max_bytes)};
  }
  TROUPE_ASSIGN(const StreamId id, random_stream_id());
  auto impl = std::make_unique<Impl>(std::move(options), id);
  if (impl->wake.fd() < 0) return Error{Code::kUnavailable, "stream: the system has no event left"};
  impl->down_since = impl->clock.now();
  TROUPE_TRY(impl->thread.start("send " + impl->options.name, impl->options.urgent,
                                [raw = impl.get()](std::stop_token stop) { raw->run(stop); }));
  return std::unique_ptr<StreamSender>(new StreamSender(std::move(impl)));
}

Status StreamSender::send(StreamMessage message) { return impl_->send(std::move(message)); }

StreamSenderStats StreamSender::stats() const {
  const std::lock_guard lock(impl_->mutex);
  StreamSenderStats stats = impl_->stats;
  if (!stats.connected) stats.down_for = impl_->clock.now() - impl_->down_since;
  return stats;
}

void StreamSender::stop() { impl_->stop(); }

}  // namespace troupe::transport
