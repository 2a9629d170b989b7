// What the ranks of a group write to each other: every message, and a rank that is told them by a peer.
#include <array>
#include <chrono>

#include <troupe/collectives/detail/group_message.hpp>
#include <troupe/collectives/group_communicator.hpp>
#include <troupe/tests/fuzz/fuzz.hpp>

namespace troupe::fuzz {
namespace {

using namespace collectives;
using namespace collectives::detail;
using std::chrono::milliseconds;

template <typename Note, typename Write>
void check_same(const std::optional<Note>& note, Bytes payload, Write write) {
  if (note) TROUPE_CHECK(same(write(*note), payload), "a message of {} bytes changed", payload.size());
}

void messages(Bytes bytes) {
  const auto message = parse(bytes);
  const Bytes payload = message ? message->payload : bytes;
  check_same(read_failed(payload), payload, write_failed);
  if (const auto answer = read_answer(payload)) {
    TROUPE_CHECK(read_answer(write_answer(*answer))->what == answer->what, "an answer changed");
  }
  check_same(read_head(payload), payload,
             [](const RankHead& head) { return write_head(head.call, head.weight, head.values); });
  if (const auto head = read_head(payload)) (void)head->call.describe();
  for (const std::size_t count : {1, 2, 5}) {
    check_same(read_block(payload, count), payload, [](const auto& heads) { return write_block(heads); });
  }
}

constexpr std::uint32_t kOwn = 10, kOther = 11, kThird = 12;

/// Delivers what it is told to, and loses what is sent.
class HostilePeers final : public Peers {
 public:
  Status send(std::uint32_t, Bytes, Bytes) override { return {}; }
  Status lend(std::uint32_t, Bytes, std::shared_ptr<const LentBytes>) override { return {}; }
  void deliver_to(std::function<void(PeerMessage)> receiver) override { receiver_ = std::move(receiver); }
  void deliver(std::uint32_t from, Bytes bytes) {
    auto owner = std::make_shared<std::vector<std::byte>>(bytes.begin(), bytes.end());
    if (receiver_) receiver_({from, *owner, owner});
  }

 private:
  std::function<void(PeerMessage)> receiver_;
};

std::vector<std::byte> message_of(const MessageHead& head, Bytes payload) {
  std::vector<std::byte> bytes(sizeof(head));
  std::memcpy(bytes.data(), &head, sizeof(head));
  bytes.insert(bytes.end(), payload.begin(), payload.end());
  return bytes;
}

/// A rank forms a group of two or three with peers that say what the input says, and calls what the input chooses.
void rank(Input input) {
  HostilePeers peers;
  const auto communicator = make_group_communicator(peers, kOwn, {.deterministic = input.choose(2) == 0});
  GroupView view{.epoch = 1, .rank = 0, .size = 2, .members = {{kOwn, "a", "x"}, {kOther, "b", "y"}}};
  if (input.choose(2) == 1) {
    view.members.push_back({kThird, "c", "z"});
    view.size = 3;
  }
  const std::size_t call = input.choose(5);
  const std::size_t count = input.choose(4) == 0 ? 20'000 : input.choose(9);  // more than one message carries, or few
  for (int rank = 1; rank < view.size; ++rank) {
    const Hello hello{static_cast<std::uint32_t>(rank), static_cast<std::uint32_t>(view.size), digest(view)};
    const MessageHead head{.kind = MessageKind::kHello, .epoch = 1, .index = MessageHead::kNoCall};
    peers.deliver(view.members[static_cast<std::size_t>(rank)].id,
                  message_of(head, std::as_bytes(std::span(&hello, 1))));
  }
  if (!communicator->reform(view, milliseconds(1)).ok()) return;
  std::vector<float> values(count, 1), gathered(count * static_cast<std::size_t>(view.size), 1);
  CallOptions options{.name = "g", .timeout = milliseconds(1)};
  std::unique_ptr<Work> work;
  switch (call) {
    case 0:
      work = communicator->all_reduce(values, input.choose(2) == 0 ? ReduceOp::kSum : ReduceOp::kMean, options);
      break;
    case 1:
      work = communicator->all_gather(values, gathered, options);
      break;
    case 2:
      work = communicator->reduce_scatter(gathered, values, ReduceOp::kSum, options);
      break;
    case 3:
      work = communicator->broadcast(values, 1, options);
      break;
    default:
      work = communicator->barrier(options);
  }
  while (!input.empty()) {
    const std::uint32_t from = kOther + input.take<std::uint8_t>() % 3;
    peers.deliver(from, input.part());
    if (work->done()) break;
  }
  (void)work->wait();
  (void)communicator->failure();
}

void one_input(Bytes input) {
  Input choice(input);
  choice.choose(2) == 0 ? messages(choice.rest()) : rank(choice);
}

std::vector<std::string> seeds() {
  std::vector<std::string> all;
  const std::array values = {1.0F, -2.0F, 0.5F};
  const Call call{.kind = CallKind::kAllReduce, .name = "g", .count = 3, .shape = Shape{3}};
  const Call plain{.kind = CallKind::kAllReduce, .name = "g", .count = 3};
  const auto add = [&](const std::vector<std::byte>& payload) {
    all.push_back(std::string(1, '\0') + to_string(payload));
  };
  add(write_failed({0, {Code::kCancelled, "rank 1 left"}}));
  add(write_answer({true, 412, 7'100'000'000, "input_fn"}));
  add(write_head(call, 32, values));
  const std::vector<std::vector<std::byte>> heads = {write_head(call, 1, {}), write_head(plain, 0.5, values)};
  add(write_block(heads));
  add(message_of({.kind = MessageKind::kValues, .epoch = 3, .index = 2, .step = 1}, std::as_bytes(std::span(values))));
  // Two ranks, an all-reduce of three values: what the other says, or that it has failed.
  const std::vector<std::vector<std::byte>> other = {write_head(plain, 1, values)};
  const auto from_other = [](const std::vector<std::byte>& bytes) {
    return std::string(1, '\0') + part(to_string(bytes));
  };
  const std::string choices("\1\0\0\0\1\3\0", 7);
  all.push_back(choices + from_other(message_of({.kind = MessageKind::kHeads, .epoch = 1}, write_block(other))));
  all.push_back(choices + from_other(message_of({.kind = MessageKind::kFailed, .epoch = 1},
                                                write_failed({1, {Code::kInternal, "no"}}))));
  const MessageHead ask{.kind = MessageKind::kAsk, .epoch = 1};
  all.push_back(choices + from_other(message_of(ask, {})));
  return all;
}

const Registered registered({"group_message", one_input, seeds});

}  // namespace
}  // namespace troupe::fuzz
