#include <troupe/transport/detail/unix_socket.hpp>

#include <fmt/format.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <utility>

namespace troupe::transport {
namespace {

constexpr int kWaiting = 4;  // connections that nobody has accepted yet

Error failure(Code code, std::string_view what, const std::string& path) {
  return {code, fmt::format("shared memory: {} {}: {}", what, path, std::strerror(errno))};
}

Result<sockaddr_un> address_of(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof(address.sun_path)) {
    return Error{Code::kInvalidArgument, fmt::format("shared memory: path of {} bytes, at most {} allowed: {}",
                                                     path.size(), sizeof(address.sun_path) - 1, path)};
  }
  std::memcpy(address.sun_path, path.data(), path.size());
  return address;
}

Descriptor make_socket() { return Descriptor(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0)); }

const sockaddr* generic(const sockaddr_un& address) { return reinterpret_cast<const sockaddr*>(&address); }

/// Room for one descriptor beside a packet.
union Ancillary {
  cmsghdr header;
  char bytes[CMSG_SPACE(sizeof(int))];
};

}  // namespace

Result<PrivateListener> PrivateListener::make(const std::string& directory) {
  PrivateListener listener;
  std::string folder = directory + "/troupe-XXXXXX";
  TROUPE_ASSIGN(sockaddr_un address, address_of(folder + "/socket"));
  if (mkdtemp(folder.data()) == nullptr) return failure(Code::kIo, "cannot make a folder in", directory);
  listener.folder_ = folder;  // from here the destructor cleans up
  listener.path_ = folder + "/socket";
  std::memcpy(address.sun_path, listener.path_.data(), listener.path_.size());
  listener.socket_ = make_socket();
  const int fd = listener.socket_.fd();
  if (fd < 0 || bind(fd, generic(address), sizeof(address)) != 0 || listen(fd, kWaiting) != 0) {
    return failure(Code::kIo, "cannot listen on", listener.path_);
  }
  return listener;
}

PrivateListener::PrivateListener(PrivateListener&& other) noexcept
    : folder_(std::exchange(other.folder_, {})),
      path_(std::exchange(other.path_, {})),
      socket_(std::move(other.socket_)) {}

PrivateListener::~PrivateListener() {
  if (!path_.empty()) ::unlink(path_.c_str());
  if (!folder_.empty()) ::rmdir(folder_.c_str());
}

std::optional<Descriptor> PrivateListener::accept() {
  Descriptor socket(::accept4(socket_.fd(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
  if (!socket.valid()) return std::nullopt;
  return socket;
}

Result<Descriptor> connect_private(const std::string& path) {
  const std::string folder = path.substr(0, path.rfind('/'));
  struct stat status {};
  if (lstat(folder.c_str(), &status) != 0) return failure(Code::kUnavailable, "no folder", folder);
  if (!S_ISDIR(status.st_mode) || status.st_uid != geteuid() || (status.st_mode & 0077) != 0) {
    return Error{Code::kInvalidArgument,
                 fmt::format("shared memory: {} has mode {:o} and belongs to user {}, expected a folder 40700 of {}",
                             folder, status.st_mode, status.st_uid, geteuid())};
  }
  TROUPE_ASSIGN(const sockaddr_un address, address_of(path));
  Descriptor socket = make_socket();
  if (!socket.valid() || ::connect(socket.fd(), generic(address), sizeof(address)) != 0) {
    return failure(Code::kUnavailable, "cannot connect to", path);
  }
  return socket;
}

Status check_same_user(const Descriptor& socket) {
  ucred peer{};
  socklen_t size = sizeof(peer);
  if (getsockopt(socket.fd(), SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0) {
    return Error{Code::kInvalidArgument,
                 fmt::format("no credentials of the process at the other end: {}", std::strerror(errno))};
  }
  if (peer.uid == geteuid()) return {};
  return Error{Code::kInvalidArgument,
               fmt::format("the process at the other end (pid {}) belongs to user {}, expected {}", peer.pid, peer.uid,
                           geteuid())};
}

Packet send_packet(const Descriptor& socket, std::span<const std::byte> bytes, int fd) {
  iovec part{const_cast<std::byte*>(bytes.data()), bytes.size()};
  Ancillary ancillary{};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  if (fd >= 0) {
    message.msg_control = ancillary.bytes;
    message.msg_controllen = sizeof(ancillary.bytes);
    ancillary.header.cmsg_level = SOL_SOCKET;
    ancillary.header.cmsg_type = SCM_RIGHTS;
    ancillary.header.cmsg_len = CMSG_LEN(sizeof(fd));
    std::memcpy(CMSG_DATA(&ancillary.header), &fd, sizeof(fd));
  }
  ssize_t sent = 0;
  do {
    sent = ::sendmsg(socket.fd(), &message, MSG_DONTWAIT | MSG_NOSIGNAL);
  } while (sent < 0 && errno == EINTR);
  if (sent == static_cast<ssize_t>(bytes.size())) return Packet::kDone;
  return sent < 0 && (errno == EAGAIN || errno == EWOULDBLOCK) ? Packet::kLater : Packet::kEnded;
}

Packet receive_packet(const Descriptor& socket, std::span<std::byte> bytes, Descriptor* descriptor) {
  iovec part{bytes.data(), bytes.size()};
  Ancillary ancillary{};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  if (descriptor != nullptr) {
    message.msg_control = ancillary.bytes;
    message.msg_controllen = CMSG_LEN(sizeof(int));  // the padding behind it would let a second one in
  }
  ssize_t got = 0;
  do {
    got = ::recvmsg(socket.fd(), &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
  } while (got < 0 && errno == EINTR);
  if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return Packet::kLater;
  if (const cmsghdr* header = descriptor != nullptr && got >= 0 ? CMSG_FIRSTHDR(&message) : nullptr;
      header != nullptr && header->cmsg_level == SOL_SOCKET && header->cmsg_type == SCM_RIGHTS &&
      header->cmsg_len == CMSG_LEN(sizeof(int))) {
    int fd = -1;
    std::memcpy(&fd, CMSG_DATA(header), sizeof(fd));
    *descriptor = Descriptor(fd);
  }
  const bool truncated =
      (message.msg_flags & MSG_TRUNC) != 0 || (descriptor != nullptr && (message.msg_flags & MSG_CTRUNC) != 0);
  return got == static_cast<ssize_t>(bytes.size()) && !truncated ? Packet::kDone : Packet::kEnded;
}

}  // namespace troupe::transport
