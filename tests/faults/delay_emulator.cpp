// A cable with a delay: the tests' own substitute for the kernel's netem, which not every kernel has. It makes a TAP
// device in each of two network namespaces and carries Ethernet frames between them, where it delays, loses, doubles
// and reorders them as it is told. tests/faults/harness/network.py starts one for each host that hangs on such a cable.
//
//   delay_emulator NETNS_A DEVICE_A NETNS_B DEVICE_B SEED     e.g. /run/netns/host eth0 /run/netns/switch p-host 7
//
// It prints `ready` when both devices are there. Then each line of standard input is a command, answered by one line:
//   ab delay_ms=10 jitter_ms=3 loss=0.02 duplicate=0.01 reorder=0.01     what happens to frames from A to B from now
//   on;
//                                                                        keys that are left out are 0; `ba` likewise
//   stats                                                                counters of both directions since the start
// The end of standard input ends the process and with it both devices, so none outlives a runner that crashed.
//
// A frame waits delay +- jitter (uniform), but never less long than the one before it, so jitter alone keeps the order.
// `reorder` is the share of frames that wait for nothing and overtake those before them. Each frame draws four numbers
// from a generator of its direction that starts from the seed, whatever becomes of it: the n-th frame of a direction
// has the same fate in every run. At most kQueueFrames wait in a direction; what comes beyond is dropped and counted,
// as in a router.
#include <fcntl.h>
#include <linux/if.h>
#include <linux/if_tun.h>
#include <sched.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <optional>
#include <random>
#include <sstream>
#include <string>
#include <vector>

namespace {

using Clock = std::chrono::steady_clock;  // CLOCK_MONOTONIC, as the timerfd
using Time = Clock::time_point;
using Milliseconds = std::chrono::duration<double, std::milli>;

constexpr std::size_t kQueueFrames = 10'000;
constexpr std::size_t kFrameBytesMax = 65'536;
constexpr std::size_t kReadsMax = 256;  // then the other direction and the timer have their turn

[[noreturn]] void die(const std::string& what) {
  std::fprintf(stderr, "delay_emulator: %s: %s\n", what.c_str(), std::strerror(errno));
  std::exit(1);
}

/// Makes the TAP device `name` in the network namespace at the path `netns`. The process stays in that namespace.
int open_tap(const char* netns, const char* name) {
  const int space = open(netns, O_RDONLY | O_CLOEXEC);
  if (space < 0 || setns(space, CLONE_NEWNET) != 0) die(std::string("enter the network namespace ") + netns);
  close(space);
  const int tap = open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC);
  if (tap < 0) die("open /dev/net/tun");
  ifreq request = {};
  request.ifr_flags = IFF_TAP | IFF_NO_PI;
  std::strncpy(request.ifr_name, name, IFNAMSIZ - 1);
  if (ioctl(tap, TUNSETIFF, &request) != 0) die(std::string("make the device ") + name);
  return tap;
}

struct Impairment {
  double delay_ms = 0, jitter_ms = 0;           ///< jitter: at most delay
  double loss = 0, duplicate = 0, reorder = 0;  ///< probabilities

  /// From "delay_ms=10 loss=0.02"; empty when a key is unknown or a value is no number of its range.
  static std::optional<Impairment> parse(std::istream& words) {
    Impairment result;
    const std::map<std::string, double*> keys = {{"delay_ms", &result.delay_ms},
                                                 {"jitter_ms", &result.jitter_ms},
                                                 {"loss", &result.loss},
                                                 {"duplicate", &result.duplicate},
                                                 {"reorder", &result.reorder}};
    for (std::string word; words >> word;) {
      const std::size_t equals = word.find('=');
      const auto key = keys.find(word.substr(0, equals));
      if (equals == std::string::npos || key == keys.end()) return std::nullopt;
      char* end = nullptr;
      *key->second = std::strtod(word.c_str() + equals + 1, &end);
      if (*end != 0 || end == word.c_str() + equals + 1) return std::nullopt;
    }
    const auto share = [](double value) { return value >= 0 && value <= 1; };
    const bool good = result.delay_ms >= 0 && result.delay_ms <= 60'000 && result.jitter_ms >= 0 &&
                      result.jitter_ms <= result.delay_ms && share(result.loss) && share(result.duplicate) &&
                      share(result.reorder);
    return good ? std::optional(result) : std::nullopt;
  }
};

/// The frames on their way from one device to the other.
class Direction {
 public:
  Direction(int from, int to, std::uint64_t seed) : from_(from), to_(to), random_(seed), buffer_(kFrameBytesMax) {}

  void set(const Impairment& impairment) { impairment_ = impairment; }

  /// Takes what the device has and puts it in line.
  void receive(Time now) {
    for (std::size_t i = 0; i < kReadsMax; ++i) {
      const ssize_t bytes = read(from_, buffer_.data(), buffer_.size());
      if (bytes < 0 && errno == EINTR) continue;
      if (bytes <= 0) return;  // nothing more, or the device is down
      admit({buffer_.begin(), buffer_.begin() + bytes}, now);
    }
  }

  void send_due(Time now) {
    while (!line_.empty() && line_.begin()->first <= now) {
      const Frame& frame = line_.begin()->second;
      const bool sent = write(to_, frame.data(), frame.size()) == static_cast<ssize_t>(frame.size());
      ++(sent ? delivered_ : dropped_);  // a device that is down takes nothing
      line_.erase(line_.begin());
    }
  }

  std::optional<Time> next_due() const { return line_.empty() ? std::nullopt : std::optional(line_.begin()->first); }

  std::string stats() const {
    std::ostringstream text;
    text << "received=" << received_ << " delivered=" << delivered_ << " lost=" << lost_ << " doubled=" << doubled_
         << " reordered=" << reordered_ << " dropped=" << dropped_ << " waiting=" << line_.size();
    return text.str();
  }

 private:
  using Frame = std::vector<char>;

  /// Uniform in [0, 1): the same numbers with every standard library.
  double draw() { return static_cast<double>(random_() >> 11) * 0x1.0p-53; }

  void admit(Frame frame, Time now) {
    ++received_;
    const double loses = draw(), doubles = draw(), overtakes = draw(), wobbles = draw();
    if (loses < impairment_.loss) {
      ++lost_;
      return;
    }
    Time due = now;
    if (overtakes < impairment_.reorder) {
      ++reordered_;
    } else {
      const Milliseconds wait(impairment_.delay_ms + (2 * wobbles - 1) * impairment_.jitter_ms);
      due = last_due_ = std::max(last_due_, now + std::chrono::duration_cast<Clock::duration>(wait));
    }
    const bool twice = doubles < impairment_.duplicate;
    if (line_.size() + (twice ? 2 : 1) > kQueueFrames) {
      ++dropped_;
      return;
    }
    if (twice) {
      ++doubled_;
      line_.emplace(due, frame);
    }
    line_.emplace(due, std::move(frame));  // after all that are due at the same time
  }

  int from_, to_;
  Impairment impairment_;
  std::mt19937_64 random_;
  std::multimap<Time, Frame> line_;
  Time last_due_;
  std::vector<char> buffer_;
  std::uint64_t received_ = 0, delivered_ = 0, lost_ = 0, doubled_ = 0, reordered_ = 0, dropped_ = 0;
};

class Commands {
 public:
  Commands(Direction& ab, Direction& ba) : ab_(ab), ba_(ba) {}

  /// Reads what standard input has; false at its end.
  bool receive() {
    char bytes[4096];
    const ssize_t count = read(STDIN_FILENO, bytes, sizeof(bytes));
    if (count <= 0) return count < 0 && errno == EINTR;
    text_.append(bytes, static_cast<std::size_t>(count));
    for (std::size_t end; (end = text_.find('\n')) != std::string::npos; text_.erase(0, end + 1)) {
      std::printf("%s\n", answer(text_.substr(0, end)).c_str());
    }
    std::fflush(stdout);
    return text_.size() <= sizeof(bytes);  // a longer line is no command
  }

 private:
  std::string answer(const std::string& line) {
    std::istringstream words(line);
    std::string verb;
    words >> verb;
    if (verb == "stats") return "ab " + ab_.stats() + "; ba " + ba_.stats();
    if (verb != "ab" && verb != "ba") return "error: expected ab, ba or stats, got: " + line;
    const std::optional<Impairment> impairment = Impairment::parse(words);
    if (!impairment) return "error: unknown key or value out of range: " + line;
    (verb == "ab" ? ab_ : ba_).set(*impairment);
    return "ok";
  }

  Direction& ab_;
  Direction& ba_;
  std::string text_;
};

void arm(int timer, std::optional<Time> due) {
  itimerspec when = {};  // all zero: off
  if (due) {
    const auto since_boot = std::chrono::nanoseconds(due->time_since_epoch()).count();
    when.it_value = {.tv_sec = since_boot / 1'000'000'000, .tv_nsec = since_boot % 1'000'000'000};
  }
  if (timerfd_settime(timer, TFD_TIMER_ABSTIME, &when, nullptr) != 0) die("set the timer");
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 6) {
    std::fprintf(stderr, "usage: delay_emulator NETNS_A DEVICE_A NETNS_B DEVICE_B SEED\n");
    return 2;
  }
  const int a = open_tap(argv[1], argv[2]), b = open_tap(argv[3], argv[4]);
  const std::uint64_t seed = std::strtoull(argv[5], nullptr, 10);
  Direction ab(a, b, 2 * seed), ba(b, a, 2 * seed + 1);
  Commands commands(ab, ba);

  const int timer = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
  const int poll = epoll_create1(EPOLL_CLOEXEC);
  for (const int fd : {STDIN_FILENO, timer, a, b}) {
    epoll_event event = {.events = EPOLLIN, .data = {.fd = fd}};
    if (epoll_ctl(poll, EPOLL_CTL_ADD, fd, &event) != 0) die("watch a descriptor");
  }
  std::printf("ready\n");
  std::fflush(stdout);

  for (;;) {
    std::optional<Time> due = ab.next_due();
    if (const auto other = ba.next_due(); other && (!due || *other < *due)) due = other;
    arm(timer, due);

    epoll_event events[4];
    const int count = epoll_wait(poll, events, 4, -1);
    if (count < 0 && errno != EINTR) die("wait");
    const Time now = Clock::now();
    for (int i = 0; i < count; ++i) {
      const int fd = events[i].data.fd;
      if (fd == a) ab.receive(now);
      if (fd == b) ba.receive(now);
      if (fd == STDIN_FILENO && !commands.receive()) return 0;
      std::uint64_t expirations;
      if (fd == timer && read(timer, &expirations, sizeof(expirations)) < 0 && errno != EAGAIN) die("read the timer");
    }
    ab.send_due(now);
    ba.send_due(now);
  }
}
