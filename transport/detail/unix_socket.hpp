#pragma once
// Unix sockets between two processes of one user: packets of one struct each, which may carry a file descriptor.
// Nothing here waits. Private to transport/: by it the two ends of shared_memory.hpp meet.
#include <cstddef>
#include <optional>
#include <span>
#include <string>

#include <troupe/core/error.hpp>
#include <troupe/transport/detail/descriptor.hpp>

namespace troupe::transport {

/// A listening socket in a folder of its own, which only this user may enter. Both are removed with the object.
class PrivateListener {
 public:
  /// Makes DIRECTORY/troupe-XXXXXX/socket. Errors: kInvalidArgument (path too long), kIo.
  static Result<PrivateListener> make(const std::string& directory);
  PrivateListener(PrivateListener&& other) noexcept;
  PrivateListener& operator=(PrivateListener&&) = delete;
  ~PrivateListener();

  const std::string& path() const { return path_; }
  /// The next process that came, or nothing when none waits.
  std::optional<Descriptor> accept();

 private:
  PrivateListener() = default;
  std::string folder_;
  std::string path_;
  Descriptor socket_;
};

/// Connects to another process's PrivateListener after checking that its folder is one. Errors: kUnavailable (nobody
/// there, or too many waiting), kInvalidArgument (not a folder of this user's alone).
Result<Descriptor> connect_private(const std::string& path);

/// Whether the process at the other end belongs to this process's user, as the kernel says. Errors: kInvalidArgument.
Status check_same_user(const Descriptor& socket);

/// What became of a packet.
enum class Packet {
  kDone,
  kLater,  ///< no room to send, or nothing to receive
  kEnded,  ///< the peer is gone, or what it sent has another size or shape than expected
};

/// Sends `bytes`, and a copy of the descriptor `fd` where that is not negative.
Packet send_packet(const Descriptor& socket, std::span<const std::byte> bytes, int fd = -1);
/// Receives exactly bytes.size() bytes. Descriptors in the packet: at most one, into `descriptor`; without `descriptor`
/// they are dropped.
Packet receive_packet(const Descriptor& socket, std::span<std::byte> bytes, Descriptor* descriptor = nullptr);

}  // namespace troupe::transport
