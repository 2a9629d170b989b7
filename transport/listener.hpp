#pragma once
// Where a node is dialled: one TCP socket that hands out links. One thread accepts and takes all peers through their
// handshakes at once, so that strangers who say nothing, or nonsense, or one byte a second, cost a bounded amount and
// hold up nobody. Nor do they push out who dials in earnest, however many they are: that one speaks at once and is done
// within moments, while what makes room is the oldest that has said nothing or got nowhere. What a peer may do once it
// is in is for its receiver to decide, by Link::peer().
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include <troupe/core/error.hpp>
#include <troupe/transport/address.hpp>
#include <troupe/transport/link.hpp>

namespace troupe::transport {

class Listener {
 public:
  /// Connections that have said nothing, and handshakes that have begun and are not done; fewer where the system allows
  /// the process few descriptors. When one more comes, the oldest of its kind is dropped that got least far (no whole
  /// hello, no certificate of the run), of the address that has the most of these.
  static constexpr std::size_t kSilentMax = 1024;
  static constexpr std::size_t kBegunMax = 256;

  /// Called on the listener's thread for each peer that was let in; must not block.
  using OnLink = std::function<void(std::unique_ptr<Link>)>;

  /// Listens on exactly this address, port 0 for any free one; on all interfaces only if the host says so (0.0.0.0 or
  /// ::). `options.admit`, too, is called on the listener's thread. Errors: kInvalidArgument (credentials, host),
  /// kUnavailable (the port is taken).
  static Result<std::unique_ptr<Listener>> start(const Address& address, const Credentials& credentials,
                                                 LinkOptions options, OnLink on_link);
  ~Listener();  ///< stop()
  Listener(const Listener&) = delete;
  Listener& operator=(const Listener&) = delete;

  /// Where it listens, numeric.
  const Address& address() const;

  /// Stops listening, drops what is not finished, and joins the thread: no callback runs any more. Idempotent; not from
  /// a callback.
  void stop();

  /// How many peers were turned away, by the stable code of the reason ("TRP-S701"); "closed" for those that left by
  /// themselves, "other" for the rest. Each reason is logged at most once in 5 s, with the number of those like it
  /// since. Any thread.
  std::map<std::string, std::uint64_t> rejected() const;

 private:
  class Impl;
  explicit Listener(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace troupe::transport
