#pragma once
// The seam between a group's collectives and whatever carries bytes between its processes: in a run the TLS links of
// its nodes (actors/ hands in the real one), in tests a few queues in memory. Members are named by Member::id, which
// lasts over epochs; ranks and epochs are the collectives' business.
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>

#include <troupe/core/error.hpp>
#include <troupe/core/lent_bytes.hpp>

namespace troupe::collectives {

/// A message from another member. The bytes live as long as `owner`.
struct PeerMessage {
  std::uint32_t from = 0;
  std::span<const std::byte> bytes;
  std::shared_ptr<const void> owner;
};

class Peers {
 public:
  virtual ~Peers() = default;

  /// Queues one message, `head` followed by `body`, both copied. Never waits for the peer. Messages to one member
  /// arrive in order and once as long as both processes live, at most kMaxMessageBytes each. Any thread.
  /// Errors: kUnavailable when the member is not known (any more) or too much is queued for it.
  virtual Status send(std::uint32_t member, std::span<const std::byte> head, std::span<const std::byte> body) = 0;
  /// The same with a body that is read when it is sent. Read again, too, while the member has not confirmed it, so who
  /// lends it may overwrite it once the member is known to have got it, and else takes it back first.
  virtual Status lend(std::uint32_t member, std::span<const std::byte> head, std::shared_ptr<const LentBytes> body) = 0;

  /// Where messages go, one call at a time for each sender, from threads of the carrier; must not block. What comes
  /// before it is set waits. Null ends the delivery: after the call has returned nobody is called any more.
  virtual void deliver_to(std::function<void(PeerMessage)> receiver) = 0;

  static constexpr std::size_t kMaxMessageBytes = std::size_t{4} << 20;
};

}  // namespace troupe::collectives
