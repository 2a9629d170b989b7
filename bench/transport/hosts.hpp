#pragma once
// Two hosts on one machine, for the benches of links: network namespaces with one interface each, joined by a cable
// (veth). The process that runs the bench is the near host, a child of it the far one. Needs iproute2's `ip`, and
// either root or the right to make user namespaces.
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <string>

#include <troupe/core/check.hpp>
#include <troupe/core/clock.hpp>
#include <troupe/transport/authority.hpp>

namespace troupe::transport {

/// Makes this process a host of its own. First thing in main(): a process with threads cannot.
inline void become_near_host() {
  const auto user = std::to_string(geteuid());
  const auto group = std::to_string(getegid());
  const bool root = geteuid() == 0;
  TROUPE_CHECK(unshare(CLONE_NEWNET | (root ? 0 : CLONE_NEWUSER)) == 0, "no right to make network namespaces");
  if (root) return;
  std::ofstream("/proc/self/setgroups") << "deny";
  std::ofstream("/proc/self/uid_map") << "0 " << user << " 1";
  std::ofstream("/proc/self/gid_map") << "0 " << group << " 1";
}

/// The far host; its process lives as long as this object.
class FarHost {
 public:
  static constexpr std::uint16_t kPort = 7000;

  /// `body` runs on the far host, with this object there.
  explicit FarHost(const std::function<void(const FarHost&)>& body) {
    static int made = 0;
    const std::string number = std::to_string(++made);  // the cable before goes a moment after its host
    const std::string network = "10.77." + number + ".";
    address_ = network + "2";
    TROUPE_CHECK(pipe2(said_.data(), O_CLOEXEC) == 0 && pipe2(begin_.data(), O_CLOEXEC) == 0, "pipes");
    child_ = fork();
    TROUPE_CHECK(child_ >= 0, "fork");
    if (child_ == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      TROUPE_CHECK(unshare(CLONE_NEWNET) == 0, "network namespace");
      say();
      char byte = 0;
      TROUPE_CHECK(read(begin_[0], &byte, 1) == 1, "the near host is gone");
      run("ip addr add " + network + "2/24 dev far" + number + " && ip link set far" + number + " up");
      body(*this);
      for (;;) pause();
    }
    await();
    run("ip link add near" + number + " type veth peer name far" + number + " netns " + std::to_string(child_));
    run("ip addr add " + network + "1/24 dev near" + number + " && ip link set near" + number + " up");
    TROUPE_CHECK(write(begin_[1], "b", 1) == 1, "the far host is gone");
  }
  ~FarHost() { (void)end(); }
  FarHost(const FarHost&) = delete;
  FarHost& operator=(const FarHost&) = delete;

  /// Wakes the near host's await(), faster than any link.
  void say() const { TROUPE_CHECK(write(said_[1], "s", 1) == 1, "the near host is gone"); }
  void await() const {
    char byte = 0;
    TROUPE_CHECK(read(said_[0], &byte, 1) == 1, "the far host is gone");
  }

  const std::string& address() const { return address_; }

  /// On the far host: says that it listens, and takes one connection.
  int accept_one() const {
    const int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const sockaddr_in address = socket_address();
    TROUPE_CHECK(bind(listener, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0, "bind");
    TROUPE_CHECK(listen(listener, 1) == 0, "listen");
    say();
    const int accepted = accept(listener, nullptr, nullptr);
    close(listener);
    return without_delay(accepted);
  }
  /// On the near host, the other end of it.
  int dial() const {
    await();
    const int dialled = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const sockaddr_in address = socket_address();
    TROUPE_CHECK(connect(dialled, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0, "connect");
    return without_delay(dialled);
  }

  /// Ends it; the CPU time that its process took.
  Duration end() {
    if (child_ <= 0) return {};
    kill(child_, SIGKILL);
    rusage usage{};
    wait4(child_, nullptr, 0, &usage);
    child_ = 0;
    for (const int fd : {said_[0], said_[1], begin_[0], begin_[1]}) close(fd);
    const auto duration = [](const timeval& time) {
      return std::chrono::seconds(time.tv_sec) + std::chrono::microseconds(time.tv_usec);
    };
    return duration(usage.ru_utime) + duration(usage.ru_stime);
  }

 private:
  static void run(const std::string& command) {
    TROUPE_CHECK(std::system(command.c_str()) == 0, "failed: {}", command);
  }
  static int without_delay(int fd) {
    const int on = 1;
    TROUPE_CHECK(setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on)) == 0, "TCP_NODELAY");
    return fd;
  }
  sockaddr_in socket_address() const {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(kPort);
    inet_pton(AF_INET, address_.c_str(), &address.sin_addr);
    return address;
  }

  std::string address_;
  std::array<int, 2> said_{};
  std::array<int, 2> begin_{};
  pid_t child_ = 0;
};

/// One node on each host.
struct HostNodes {
  const WallTime now = std::chrono::system_clock::now();
  const Authority authority = Authority::create("bench", now).value();
  const Identity near{"bench", {"actor"}, "near"};
  const Identity far{"bench", {"replay"}, "far"};
  const Credentials near_credentials = authority.issue(near, now).value();
  const Credentials far_credentials = authority.issue(far, now).value();
};

}  // namespace troupe::transport
