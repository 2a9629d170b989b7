#pragma once
// Payloads between two processes of one user on one host without the link: the sender lends what lies in its lendable
// memory (core/lendable_memory.hpp), which the receiver has mapped for reading, and only a reference of 32 bytes
// travels on the link, in the message's head. Order, credits and identity stay the link's; what is saved is every copy,
// encryption and two trips through the kernel (TLS over loopback costs about 1.1 CPU seconds per GB).
//
//   sender                              link (TLS)                     receiver
//   make() listens on a Unix socket --- offer() ------------------->   connect(): proves itself on that socket
//   lend(): keeps the payload --------- reference ----------------->   open(): the bytes, where they lie, read-only
//   lets go of the payload  <---------- on the Unix socket ---------   the last owner of the bytes drops them
//
// One sender serves one receiver: the peer at the other end of one direction of a link. There are no threads and no
// waits: each call does what there is to do on the Unix socket. Whatever goes wrong, the caller sends over the link.
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include <troupe/core/error.hpp>
#include <troupe/core/lendable_memory.hpp>

namespace troupe::transport {

/// What the sender tells the receiver over the link, and nobody else: who knows `secret` is the linked peer.
struct SharedOffer {
  std::string host;    ///< host_identity() of the sender
  std::string path;    ///< of its Unix socket, in a folder that only its user may enter
  std::string secret;  ///< random bytes: one half the receiver shows, the other half the sender shows
};

/// Where a payload lies. Plain numbers that never leave the host: may be sent as the bytes that they are.
struct SharedReference {
  std::uint64_t memory = 0;    ///< random, so that a reference to another sender's memory is noticed
  std::uint64_t sequence = 0;  ///< counts what a sender lends from 1: a payload that is lent twice has two
  std::uint64_t offset = 0;    ///< bytes from the start of the memory
  std::uint64_t length = 0;    ///< bytes of payload
};
static_assert(sizeof(SharedReference) == 32);

/// Which host this process is on, and what it sees of it: boot, and the namespaces of network, process ids and mounts.
/// Nodes that could not reach each other by loopback do not share memory, and neither do containers that do not see
/// each other's /proc and files. Errors: kIo.
Result<std::string> host_identity();
/// Whether two identities are of one machine, whatever each sees of it.
bool same_machine(std::string_view one, std::string_view other);

struct SharedSenderOptions {
  std::shared_ptr<LendableMemory> memory;  ///< whose; not null
  /// The most bytes that may be lent at once; at the bound lend() says so. What the receiver holds its sender cannot
  /// use again.
  std::size_t most_bytes = std::size_t{512} << 20;
  std::string directory = "/tmp";  ///< where the socket's own folder is made; removed when the receiver is there
};

struct SharedSenderStats {
  bool connected = false;            ///< the receiver has proven itself and lives
  std::size_t lent_bytes = 0;        ///< that the receiver has not given back
  std::uint64_t lent = 0;            ///< payloads
  std::uint64_t copied = 0;          ///< of these, payloads that lay elsewhere
  std::uint64_t full = 0;            ///< payloads for the link because too much was lent, or there was no memory
  std::uint64_t not_connected = 0;   ///< payloads for the link because there is no receiver (yet, or any more)
  std::uint64_t refused_peers = 0;   ///< processes that came to the socket and were not the linked peer
  std::uint64_t false_releases = 0;  ///< of what was not lent
};

/// The end that has the payloads. Thread-safe. When it goes it lets go of all that is lent: as long as the receiver may
/// read that and its memory may be used again, the sender has to stay.
class SharedSender {
 public:
  /// Errors: kInvalidArgument (no memory; directory too long for a socket), kIo.
  static Result<std::unique_ptr<SharedSender>> make(SharedSenderOptions options);
  ~SharedSender();
  SharedSender(const SharedSender&) = delete;
  SharedSender& operator=(const SharedSender&) = delete;

  const SharedOffer& offer() const;

  /// Lends `bytes`, which `owner` keeps alive and unchanged; or does nothing, and then they have to go over the link:
  /// below LendableMemory::kLeastBlock, no receiver, or too much is lent. Bytes that do not lie in the sender's memory,
  /// such as those of a frame that came from elsewhere, are copied into it first. The reference must reach open() even
  /// if the payload is no longer wanted, because only the receiver gives it back. Cost: a system call for each payload
  /// that came back.
  std::optional<SharedReference> lend(std::span<const std::byte> bytes, std::shared_ptr<const void> owner);

  /// As of now: what the receiver has said until this call is taken in. When the receiver has died nothing is lent.
  SharedSenderStats stats();

 private:
  struct State;
  explicit SharedSender(std::shared_ptr<State> state);
  std::shared_ptr<State> state_;  // known to the memory as a lender
};

/// A payload in the sender's memory: read-only, starting at a multiple of 4096.
struct SharedBytes {
  std::span<const std::byte> bytes;
  /// The payload is given back when the last copy is gone; any thread. May outlive the receiver object and the sender's
  /// process. Its sender cannot use the memory meanwhile: who keeps bytes for long copies them.
  std::shared_ptr<const void> owner;
};

struct SharedReceiverStats {
  std::uint64_t opened = 0;
  std::uint64_t refused = 0;   ///< references that were false
  std::size_t held_bytes = 0;  ///< that somebody still owns
};

/// The end that reads. Thread-safe.
class SharedReceiver {
 public:
  /// Goes to the sender's socket and shows its half of the secret. Errors, after which the peer sends over the link:
  /// kUnavailable (another host; nobody there), kInvalidArgument (the folder or the process is not this user's).
  static Result<std::unique_ptr<SharedReceiver>> connect(const SharedOffer& offer);

  /// The bytes that a reference from the link leads to. Nothing in it is trusted, and neither is the sender until it
  /// has shown its half of the secret and memory that it cannot cut off. Errors, all of which mean that the peer is
  /// broken, so that the link must end: kCorrupt naming what is false (memory, alignment, bounds, a reference that was
  /// opened before, or one far ahead of the others), kUnavailable.
  Result<SharedBytes> open(const SharedReference& reference);

  SharedReceiverStats stats() const;

 private:
  struct State;
  explicit SharedReceiver(std::shared_ptr<State> state);
  std::shared_ptr<State> state_;  // shared with the owners of payloads
};

}  // namespace troupe::transport
