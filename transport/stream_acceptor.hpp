#pragma once
// Between the listener, which hands out links and must not be kept, and the receivers: waits for the hello of each
// link, on one thread for all, so that a peer that is slow to say what it wants holds up nobody else.
#include <functional>
#include <memory>

#include <troupe/core/clock.hpp>
#include <troupe/core/error.hpp>
#include <troupe/transport/stream.hpp>

namespace troupe::transport {

struct StreamAcceptorOptions {
  /// Called by the acceptor's thread, for the caller to find the receiver by Link::peer() and the name of the stream,
  /// and to attach() the link; must not wait. A link that it does not keep is closed.
  std::function<void(std::unique_ptr<Link>, StreamHello)> on_hello;
  /// Instead, for links that are no streams: called with each link that has something to read; may take a moment.
  std::function<void(std::unique_ptr<Link>)> on_word;
  Duration timeout = std::chrono::seconds(5);  ///< for the hello to come; after it the link is closed
};

class StreamAcceptor {
 public:
  /// Links that wait for their hello, which a sender says at once. When one more comes, the oldest is closed.
  static constexpr std::size_t kWaitingMax = 64;
  /// Of these, links of one node. Its lanes are fewer; a broken one is not to push out the links of others.
  static constexpr std::size_t kWaitingOfOne = 8;

  /// Errors: kInvalidArgument (not one of on_hello and on_word), kUnavailable (no thread or event).
  static Result<std::unique_ptr<StreamAcceptor>> make(StreamAcceptorOptions options);
  ~StreamAcceptor();  ///< stop()
  StreamAcceptor(const StreamAcceptor&) = delete;
  StreamAcceptor& operator=(const StreamAcceptor&) = delete;

  /// Any thread; does not wait.
  void take(std::unique_ptr<Link> link);

  /// Closes what waits and ends the thread. As of StreamSender::stop().
  void stop();

 private:
  struct Impl;
  explicit StreamAcceptor(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace troupe::transport
