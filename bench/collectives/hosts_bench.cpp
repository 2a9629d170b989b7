// All-reduces (sum of float32, in place) between hosts: network namespaces of this machine joined by cables, the first
// of which forwards for the others; TLS 1.3 on every connection, as between the nodes of a run.
//
// hosts_P_SIZE: megabytes of one rank's values per second. Its limit, vs_ring_bound, is what the links themselves carry
// when every host streams to its neighbour at once, in frames of 1 MiB, divided by 2 (P-1)/P: the bytes that each rank
// of a ring must send.
#include <array>
#include <atomic>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <memory>
#include <mutex>

#include <troupe/bench/collectives/rows.hpp>
#include <troupe/bench/transport/hosts.hpp>
#include <troupe/collectives/group_communicator.hpp>
#include <troupe/messages/frame.hpp>
#include <troupe/transport/dial.hpp>
#include <troupe/transport/listener.hpp>
#include <troupe/transport/receive_pool.hpp>
#include <troupe/transport/stream.hpp>
#include <troupe/transport/stream_acceptor.hpp>

namespace troupe::collectives {
namespace {

using namespace std::chrono_literals;
using transport::FarHost;

constexpr std::uint16_t kPort = 7100;  // plus the number of ranks: every group has a port of its own on the near host
constexpr std::size_t kStreamFrame = 1 << 20;
constexpr int kStreamFrames = 400;
const std::string kGroupLane = "group";
const std::string kRawLane = "raw";

std::string node(int rank) { return "host" + std::to_string(rank); }

/// What all hosts of a row have in common.
struct Hosts {
  int ranks = 0;
  transport::Authority authority = transport::Authority::create("bench", std::chrono::system_clock::now()).value();
  std::vector<std::shared_ptr<FarHost>> far;  // of ranks 1 and up
  std::vector<std::string> addresses;         // of ranks 1 and up
};

/// The links of one host to all others: a stream there and one back, for each lane.
class Links final : public Peers {
 public:
  /// to: where to dial each rank.
  Links(const transport::Authority& authority, int rank, std::vector<std::string> to)
      : rank_(rank), to_(std::move(to)), port_(static_cast<std::uint16_t>(kPort + to_.size())) {
    const auto now = std::chrono::system_clock::now();
    credentials_ =
        std::make_unique<transport::Credentials>(authority.issue({"bench", {"learner"}, node(rank)}, now).value());
    for (int peer = 0; peer < static_cast<int>(to_.size()); ++peer) {
      if (peer != rank) make(peer);
    }
    acceptor_ = transport::StreamAcceptor::make({.on_hello = [this](std::unique_ptr<transport::Link> link,
                                                                    transport::StreamHello hello) {
                  const auto receiver = receivers_.find({link->peer().node, hello.name});
                  if (receiver != receivers_.end()) receiver->second->attach(std::move(link), std::move(hello));
                }}).value();
    const transport::LinkOptions accept{.side = transport::Side::kAccept,
                                        .admit = [](const transport::Identity&) { return Status{}; }};
    listener_ =
        transport::Listener::start({"0.0.0.0", port_}, *credentials_, accept,
                                   [this](std::unique_ptr<transport::Link> link) { acceptor_->take(std::move(link)); })
            .value();
  }
  ~Links() override {
    listener_->stop();
    acceptor_->stop();
    senders_.clear();
    receivers_.clear();
  }

  Status send(std::uint32_t member, std::span<const std::byte> head, std::span<const std::byte> body) override {
    return post(member, head, body, nullptr);
  }
  Status lend(std::uint32_t member, std::span<const std::byte> head, std::shared_ptr<const LentBytes> body) override {
    return post(member, head, {}, std::move(body));
  }
  Status post(std::uint32_t member, std::span<const std::byte> head, std::span<const std::byte> body,
              std::shared_ptr<const LentBytes> lent) {
    // As the nodes of a run do it (actors/control/groups.cpp): in a frame of a pool, since fresh memory costs as much
    // as TLS.
    TROUPE_ASSIGN(messages::FrameBuffer buffer, frames_.allocate(head.size() + body.size()));
    std::byte* const to = buffer.bytes().data();
    std::memcpy(to, head.data(), head.size());
    if (!body.empty()) std::memcpy(to + head.size(), body.data(), body.size());
    auto frame = std::make_shared<messages::Frame>(std::move(buffer).freeze(head.size() + body.size()));
    return senders_.at({node(static_cast<int>(member)), kGroupLane})
        ->send({.body = frame->bytes(), .owner = frame, .lent = std::move(lent)});
  }

  void deliver_to(std::function<void(PeerMessage)> receiver) override {
    const std::lock_guard lock(mutex_);
    receiver_ = std::move(receiver);
    for (PeerMessage& message : std::exchange(waiting_, {})) {
      if (receiver_) receiver_(std::move(message));
    }
  }

  /// Streams to the next rank, and waits until all of the previous one's has come here.
  void stream() {
    const int ranks = static_cast<int>(to_.size());
    const auto frame = std::make_shared<std::vector<std::byte>>(kStreamFrame, std::byte{1});
    auto& sender = senders_.at({node((rank_ + 1) % ranks), kRawLane});
    for (int i = 0; i < kStreamFrames; ++i) sender->send({.body = *frame, .owner = frame}).value();
    std::unique_lock lock(raw_mutex_);
    TROUPE_CHECK(raw_changed_.wait_for(lock, 300s, [&] { return raw_frames_ == kStreamFrames; }), "stream");
  }

 private:
  void make(int peer) {
    for (const std::string& lane : {kGroupLane, kRawLane}) {
      const auto on_message = [this, peer, raw = lane == kRawLane](transport::StreamMessage message) {
        raw ? count() : hand_over({static_cast<std::uint32_t>(peer), message.body, std::move(message.owner)});
      };
      receivers_[{node(peer), lane}] =
          transport::StreamReceiver::make({.peer = node(peer), .pool = pool_, .on_message = on_message}).value();
      transport::StreamSenderOptions options{.name = lane};
      options.connect = [this, peer](const std::stop_token& stop) -> Result<std::unique_ptr<transport::Link>> {
        TROUPE_ASSIGN(const int socket, transport::dial({to_[static_cast<std::size_t>(peer)], port_}, 2s, stop));
        const transport::LinkOptions dial{.side = transport::Side::kDial,
                                          .admit = transport::only({"bench", {"learner"}, node(peer)})};
        return transport::Link::open(socket, *credentials_, dial);
      };
      senders_[{node(peer), lane}] = transport::StreamSender::make(std::move(options)).value();
    }
  }
  void count() {
    const std::lock_guard lock(raw_mutex_);
    ++raw_frames_;
    raw_changed_.notify_all();
  }
  void hand_over(PeerMessage message) {
    const std::lock_guard lock(mutex_);
    if (receiver_) return receiver_(std::move(message));
    waiting_.push_back(std::move(message));
  }

  const int rank_;
  const std::vector<std::string> to_;
  const std::uint16_t port_;
  std::unique_ptr<transport::Credentials> credentials_;
  messages::FramePool frames_;
  std::shared_ptr<transport::ReceivePool> pool_ = std::make_shared<transport::ReceivePool>();
  std::map<std::pair<std::string, std::string>, std::unique_ptr<transport::StreamReceiver>> receivers_;
  std::map<std::pair<std::string, std::string>, std::unique_ptr<transport::StreamSender>> senders_;
  std::unique_ptr<transport::StreamAcceptor> acceptor_;
  std::unique_ptr<transport::Listener> listener_;
  std::mutex mutex_;
  std::function<void(PeerMessage)> receiver_;
  std::deque<PeerMessage> waiting_;
  std::mutex raw_mutex_;
  std::condition_variable raw_changed_;
  int raw_frames_ = 0;
};

struct Results {
  double stream = 0;                    // MB/s that the links carry
  std::map<std::string, double> sizes;  // MB/s of values, by size
};

/// What every rank does; the numbers are this rank's.
Results run_rank(const Hosts& hosts, int rank, std::vector<std::string> to) {
  Links links(hosts.authority, rank, std::move(to));
  const auto communicator = make_group_communicator(links, static_cast<std::uint32_t>(rank));
  GroupView view{.epoch = 1, .rank = rank, .size = hosts.ranks};
  for (int r = 0; r < hosts.ranks; ++r) view.members.push_back({.id = static_cast<std::uint32_t>(r), .name = node(r)});
  const Status formed = communicator->reform(view, 600s);
  TROUPE_CHECK(formed.ok(), "{}", formed.error().message);
  Results results;
  const AllReduce sum = [&](float* values, std::size_t count) {
    const Status status =
        communicator->all_reduce({values, count}, ReduceOp::kSum, {.name = "bench", .timeout = 120s})->wait();
    TROUPE_CHECK(status.ok(), "{}", status.error().message);
  };
  const auto together = [&](std::string name) {
    const Status met = communicator->barrier({.name = std::move(name), .timeout = 120s})->wait();
    TROUPE_CHECK(met.ok(), "{}", met.error().message);
  };
  together("begin");
  const auto begin = std::chrono::steady_clock::now();
  links.stream();
  together("streamed");  // the slowest link counts, as it does in a ring
  results.stream = static_cast<double>(kStreamFrame) * kStreamFrames / 1e6 /
                   std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  for (const auto& [size, bytes] : kRowSizes) results.sizes[size] = measure_row(rank, bytes, sum);
  together("over");
  // Links that close forget what they have not sent yet: whoever misses somebody's last word here has all that counts.
  (void)communicator->barrier({.name = "end", .timeout = 1s})->wait();
  return results;
}

/// The far hosts of a group; made before anything runs here, since a process with threads cannot be forked.
std::shared_ptr<Hosts> make_hosts(int ranks) {
  auto hosts = std::make_shared<Hosts>();
  hosts->ranks = ranks;
  // A far host must know where those are that are made after it: cables are numbered one after the other.
  static int cables = 0;
  for (int rank = 1; rank < ranks; ++rank) hosts->addresses.push_back("10.77." + std::to_string(cables + rank) + ".2");
  for (int rank = 1; rank < ranks; ++rank) {
    const std::string near = "10.77." + std::to_string(cables + rank) + ".1";
    hosts->far.push_back(std::make_shared<FarHost>([&hosts = *hosts, rank, near](const FarHost&) {
      TROUPE_CHECK(std::system(("ip route add default via " + near).c_str()) == 0, "route");
      std::vector<std::string> to{near};
      to.insert(to.end(), hosts.addresses.begin(), hosts.addresses.end());
      run_rank(hosts, rank, std::move(to));
    }));
    TROUPE_CHECK(hosts->far.back()->address() == hosts->addresses[static_cast<std::size_t>(rank - 1)], "addresses");
  }
  cables += ranks - 1;
  return hosts;
}

}  // namespace
}  // namespace troupe::collectives

int main(int argc, char** argv) {
  using namespace troupe::collectives;
  benchmark::Initialize(&argc, argv);
  troupe::transport::become_near_host();
  TROUPE_CHECK(std::system("ip link set lo up; echo 1 > /proc/sys/net/ipv4/ip_forward") == 0, "forwarding");
  std::vector<std::shared_ptr<Hosts>> groups;
  for (const int ranks : {2, 4}) groups.push_back(make_hosts(ranks));
  for (const auto& hosts : groups) {
    const auto results = std::make_shared<std::optional<Results>>();
    for (const auto& [size, bytes] : kRowSizes) {
      const std::string name = "hosts_" + std::to_string(hosts->ranks) + "_" + size;
      const auto body = [=, size = std::string(size)](benchmark::State& state) {
        for ([[maybe_unused]] auto _ : state) {
          if (*results) continue;
          std::vector<std::string> to{""};
          to.insert(to.end(), hosts->addresses.begin(), hosts->addresses.end());
          *results = run_rank(*hosts, 0, std::move(to));
        }
        const double ranks = hosts->ranks;
        state.counters["value"] = (*results)->sizes.at(size);
        state.counters["vs_ring_bound"] = (*results)->stream / (2 * (ranks - 1) / ranks);
        state.SetLabel("MB/s");
      };
      benchmark::RegisterBenchmark(name.c_str(), body)->Iterations(1);
    }
  }
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
  return 0;
}
