#pragma once
// A lasting, ordered, exactly-once stream of messages from one node to another, over links that may break at any time.
// The network of actors/runtime/remote.hpp has one StreamSender for each (peer, lane) and a StreamReceiver at the other
// end. Lanes do not share anything, so that a lane of small urgent messages never waits behind one of large frames.
//
// One connection at a time: the sender dials it and says hello; the receiver answers with the last message it has
// delivered, from where the sender goes on. Messages flow one way and acknowledgements back, on the same connection, by
// one thread at each end: the sender's sends what is queued and then looks for acknowledgements, the receiver's
// acknowledges between two messages.
//
// Exactly once holds while both objects live, unless the sender forgets (StreamSenderOptions::forgets). A new sender
// (its session says so) begins a new stream; a new receiver gets again what the one before it had not acknowledged, and
// the sender is told (StreamUp).
#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <stop_token>
#include <string>

#include <troupe/core/clock.hpp>
#include <troupe/core/error.hpp>
#include <troupe/transport/link.hpp>
#include <troupe/transport/receive_pool.hpp>

namespace troupe::transport {

/// A random number that names one life of a sender or receiver.
using StreamId = std::array<std::byte, 16>;

/// The caller's own part of every message: routing, numbers, a reference to memory that both ends share. Opaque here.
using StreamHead = std::array<std::byte, 64>;

/// One message. `owner` keeps `body` alive and unchanged: at the sender until the peer has acknowledged it, at the
/// receiver as long as somebody wants to read it. A receiver's body starts at a multiple of 64.
struct StreamMessage {
  StreamHead head{};
  std::span<const std::byte> body;  ///< may be empty
  std::shared_ptr<const void> owner;
  /// At the sender: the rest of the body, if any, read when it is sent, and again after a connection was lost.
  std::shared_ptr<const LentBytes> lent = {};

  std::size_t bytes() const { return body.size() + (lent ? lent->size() : 0); }
};

/// A connection has been made and the receiver has answered.
struct StreamUp {
  bool new_receiver = false;  ///< not the one of the connection before: what it knew is lost
};

struct StreamSenderOptions {
  std::string name;      ///< tells the accepting node which of its receivers is meant ("bulk"); at most 255 bytes
  std::uint64_t to = 0;  ///< as of StreamHello
  bool urgent = false;   ///< a lane of few small messages: its thread does not wait for a busy CPU as long as others
  /// What is not acknowledged when a connection is lost is dropped, for messages that mean nothing to whoever answers
  /// next: up() says that it is time to say all anew. Else it is sent again.
  bool forgets = false;
  /// Dials and does the handshake; called again whenever the connection is lost. It has a deadline of its own, and ends
  /// soon after the token asks for it (LinkOptions::stop).
  std::function<Result<std::unique_ptr<Link>>(std::stop_token)> connect;
  /// Callbacks come from the sender's thread, must not wait, and may call send(). down() comes once for each loss, and
  /// when the very first connection cannot be made.
  std::function<void(const StreamUp&)> up;
  std::function<void(const Error& reason)> down;

  /// Over everything that is not acknowledged yet, sent or not. Beyond, send() refuses: the caller's credits are to
  /// keep it far below.
  std::size_t max_messages = 65536;
  std::size_t max_bytes = std::size_t{1} << 30;
  std::size_t max_message_bytes = std::size_t{255} << 20;  ///< of one body; not above what the links carry in a frame

  /// The connection is given up, and made again, when this long nothing passes though something should.
  Duration stall_timeout = std::chrono::seconds(5);
  /// Between two attempts to connect: doubled from the least to the most, each time up to half shorter by chance.
  Duration retry_least = std::chrono::milliseconds(10);
  Duration retry_most = std::chrono::seconds(1);
  std::uint64_t seed = 0;  ///< of that chance
};

struct StreamSenderStats {
  bool connected = false;
  Duration down_for{};         ///< since when it is not connected; 0 when it is
  std::string last_error;      ///< why the last connection or attempt ended; empty before
  std::size_t messages = 0;    ///< not acknowledged, sent or not: what max_messages bounds
  std::size_t bytes = 0;       ///< bodies of those: what max_bytes bounds
  std::uint64_t accepted = 0;  ///< by send(), since the start
  std::uint64_t sent = 0;      ///< for the first time
  std::uint64_t resent = 0;    ///< after a connection was lost
  std::uint64_t connections = 0;
};

/// The sending end: a queue, a thread, and the messages that are not acknowledged. Thread-safe.
class StreamSender {
 public:
  /// Starts the thread, which connects at once. Errors: kInvalidArgument (options), kUnavailable (no thread or event).
  static Result<std::unique_ptr<StreamSender>> make(StreamSenderOptions options);
  ~StreamSender();  ///< stop()
  StreamSender(const StreamSender&) = delete;
  StreamSender& operator=(const StreamSender&) = delete;

  /// Queues a message; never waits. Errors: kInvalidArgument (body above max_message_bytes), kUnavailable (too much is
  /// not acknowledged yet, or stopped). On an error the message is not sent, and no other message is lost.
  Status send(StreamMessage message);

  StreamSenderStats stats() const;

  /// Ends the thread and drops what is not acknowledged. Does not wait for the peer: returns within 100 ms, or when the
  /// callback in progress returns. Any thread, idempotent.
  void stop();

 private:
  struct Impl;
  explicit StreamSender(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

/// What a sender says first on a connection, for the accepting node to find the receiver.
struct StreamHello {
  StreamId session{};       ///< this life of the sender
  std::uint64_t first = 1;  ///< number of its first message that is not acknowledged
  std::string name;         ///< StreamSenderOptions::name
  std::uint64_t to = 0;     ///< the process that is meant, by a number of the caller's; 0: whoever answers
};

/// Says hello on a connection that has just been dialled, for services that are no streams; StreamSender does it
/// itself. Errors: as of Link::send().
Status send_hello(Link& link, const StreamHello& hello, Duration timeout);
/// The answer to the hello of a sender that may not go on: its stats and down() say this reason. It tries again later,
/// unless the code is kCancelled. Does not wait.
void send_refusal(Link& link, const Error& reason);
/// The hello of a connection that has just been accepted. Errors: kCorrupt when it is none; otherwise as of
/// Link::receive().
Result<StreamHello> receive_hello(Link& link, Duration timeout);

struct StreamReceiverOptions {
  std::string peer;     ///< for log lines
  bool urgent = false;  ///< as of StreamSenderOptions
  std::shared_ptr<ReceivePool> pool;
  /// Called by the receiver's thread, each message once, in order. While it runs nothing is received: a slow one holds
  /// the sender back, and one that takes as long as stall_timeout makes it reconnect.
  std::function<void(StreamMessage)> on_message;
  /// A connection that stalls this long inside a message is dropped. When the pool is used up, the receiver holds the
  /// sender back, and after as long drops the connection, so that the message comes again.
  Duration stall_timeout = std::chrono::seconds(5);
};

struct StreamReceiverStats {
  bool connected = false;
  std::string last_error;        ///< why the last connection ended; empty before
  std::uint64_t delivered = 0;   ///< messages, since the start
  std::uint64_t bytes = 0;       ///< their bodies
  std::uint64_t duplicates = 0;  ///< dropped
  std::uint64_t connections = 0;
  std::uint64_t sessions = 0;  ///< senders, one after the other
};

/// The receiving end: a thread, and where the stream stands. Thread-safe.
class StreamReceiver {
 public:
  /// Errors: kInvalidArgument (no pool, no on_message), kUnavailable (no thread).
  static Result<std::unique_ptr<StreamReceiver>> make(StreamReceiverOptions options);
  ~StreamReceiver();  ///< stop()
  StreamReceiver(const StreamReceiver&) = delete;
  StreamReceiver& operator=(const StreamReceiver&) = delete;

  /// Takes over a connection of the sender; the one before it is closed. Does not wait. A session that another one has
  /// replaced is refused with kCancelled: its sender is a process that should be dead.
  void attach(std::unique_ptr<Link> link, StreamHello hello);

  StreamReceiverStats stats() const;

  /// As of StreamSender::stop().
  void stop();

 private:
  struct Impl;
  explicit StreamReceiver(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace troupe::transport
