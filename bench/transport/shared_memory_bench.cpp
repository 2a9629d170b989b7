// Handing frames from one process to another on one host by shared memory. A frame is: a new value in the first and the
// last word of a payload that is there already, place(), its reference on a TLS link over loopback, open(), a word of
// each cache line read and summed by the other process, the slot released, the sum back on the link of the other
// direction. Up to four frames are under way, as much as the default pool holds of the largest. So a frame is copied
// once and read once, on two cores, at the same time.
#include <arpa/inet.h>
#include <benchmark/benchmark.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <memory>
#include <vector>

#include <troupe/core/check.hpp>
#include <troupe/core/clock.hpp>
#include <troupe/transport/authority.hpp>
#include <troupe/transport/link.hpp>
#include <troupe/transport/shared_memory.hpp>

namespace troupe::transport {
namespace {

constexpr std::int64_t kBytes = std::int64_t{4} << 30;  // in all, at each size
constexpr std::int64_t kWarmUp = 16;                    // frames before the time is taken: pages are made, caches fill
constexpr std::int64_t kUnderWay = 4;
constexpr std::size_t kWordsOfLine = 8;
constexpr Duration kTimeout = std::chrono::seconds(10);

using LinkPtr = std::unique_ptr<Link>;

/// Both ends of a TCP connection over loopback.
std::array<int, 2> connection() {
  const int listener = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(address);
  auto* const generic = reinterpret_cast<sockaddr*>(&address);
  TROUPE_CHECK(bind(listener, generic, size) == 0 && listen(listener, 1) == 0, "listen");
  TROUPE_CHECK(getsockname(listener, generic, &size) == 0, "getsockname");
  const int dialled = socket(AF_INET, SOCK_STREAM, 0);
  TROUPE_CHECK(connect(dialled, generic, size) == 0, "connect");
  const int accepted = accept(listener, nullptr, nullptr);
  close(listener);
  for (const int fd : {dialled, accepted}) {
    const int on = 1;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
  }
  return {dialled, accepted};
}

/// A producer and a consumer node of one run, and the two connections between them, one for each direction.
struct Nodes {
  const WallTime now = std::chrono::system_clock::now();
  const Authority authority = Authority::create("bench", now).value();
  const std::array<int, 2> references = connection();
  const std::array<int, 2> answers = connection();

  LinkPtr open(int fd, const char* self, const char* peer, Side side) const {
    const auto identity = [](const char* name) { return Identity{"bench", {"role"}, name}; };
    const Credentials credentials = authority.issue(identity(self), now).value();
    return Link::open(fd, credentials, {.side = side, .admit = only(identity(peer))}).value();
  }
};

template <typename T>
void send(Link& link, const T& value) {
  link.send(FrameKind::kData, std::as_bytes(std::span(&value, 1)), kTimeout).value();
}

template <typename T>
T receive(Link& link) {
  const auto payload = link.receive(kTimeout).value().payload;
  T value;
  TROUPE_CHECK(payload.size() == sizeof(value), "a message of {} bytes", payload.size());
  std::memcpy(&value, payload.data(), sizeof(value));
  return value;
}

std::uint64_t sum_of_lines(std::span<const std::byte> bytes) {
  const auto* const words = reinterpret_cast<const std::uint64_t*>(bytes.data());
  std::uint64_t sum = 0;
  for (std::size_t i = 0; i < bytes.size() / sizeof(*words); i += kWordsOfLine) sum += words[i];
  return sum;
}

[[noreturn]] void consume(const Nodes& nodes, const SharedOffer& offer, std::int64_t frames) {
  const LinkPtr references = nodes.open(nodes.references[1], "consumer", "producer", Side::kAccept);
  const LinkPtr answers = nodes.open(nodes.answers[1], "consumer", "producer", Side::kAccept);
  const auto receiver = SharedReceiver::connect(offer).value();
  send(*answers, std::uint64_t{0});
  for (std::int64_t i = 0; i < frames; ++i) {
    const auto reference = receive<SharedReference>(*references);
    const std::uint64_t sum = sum_of_lines(receiver->open(reference).value().bytes);
    send(*answers, sum);
  }
  _exit(0);
}

void frames(benchmark::State& state, std::size_t frame_bytes) {
  const std::int64_t count = kBytes / static_cast<std::int64_t>(frame_bytes);
  const SteadyClock clock;
  for (auto _ : state) {
    const Nodes nodes;
    const auto sender = SharedSender::make().value();
    const pid_t consumer = fork();  // the offer goes with it
    if (consumer == 0) consume(nodes, sender->offer(), kWarmUp + count);
    const LinkPtr references = nodes.open(nodes.references[0], "producer", "consumer", Side::kDial);
    const LinkPtr answers = nodes.open(nodes.answers[0], "producer", "consumer", Side::kDial);
    receive<std::uint64_t>(*answers);
    std::vector<std::uint64_t> payload(frame_bytes / sizeof(std::uint64_t));
    payload[payload.size() - kWordsOfLine] = 1;
    std::uint64_t sent = 0;
    std::uint64_t wrong = 0;
    Duration begin{};
    for (std::int64_t done = 0; done < kWarmUp + count; ++done) {
      while (sent < static_cast<std::uint64_t>(std::min(done + kUnderWay, kWarmUp + count))) {
        payload.front() = sent++;
        const auto reference = sender->place(std::as_bytes(std::span(payload)));
        TROUPE_CHECK(reference.has_value(), "frame {} found no slot", sent);
        send(*references, *reference);
      }
      wrong += receive<std::uint64_t>(*answers) != static_cast<std::uint64_t>(done) + 1;
      if (done + 1 == kWarmUp) begin = clock.now();
    }
    state.SetIterationTime(seconds(clock.now() - begin));
    int status = 0;
    TROUPE_CHECK(waitpid(consumer, &status, 0) == consumer && status == 0 && wrong == 0, "{} wrong sums", wrong);
    for (const int fd : {nodes.references[1], nodes.answers[1]}) close(fd);
  }
  state.SetItemsProcessed(state.iterations() * count);
  state.SetLabel("frames/s");
}

void frame_64_kib(benchmark::State& state) { frames(state, 64 << 10); }
void frame_1_mib(benchmark::State& state) { frames(state, 1 << 20); }
void frame_16_mib(benchmark::State& state) { frames(state, 16 << 20); }
void frame_64_mib(benchmark::State& state) { frames(state, 64 << 20); }
BENCHMARK(frame_64_kib)->UseManualTime()->Iterations(1);
BENCHMARK(frame_1_mib)->UseManualTime()->Iterations(1);
BENCHMARK(frame_16_mib)->UseManualTime()->Iterations(1);
BENCHMARK(frame_64_mib)->UseManualTime()->Iterations(1);

}  // namespace
}  // namespace troupe::transport

BENCHMARK_MAIN();
