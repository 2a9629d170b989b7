// What stands beside a frame between two nodes, offers of shared memory, and whether a node may send what it sends.
#include <array>

#include <troupe/actors/network/authorization.hpp>
#include <troupe/actors/network/detail/wire_head.hpp>
#include <troupe/messages/parameters.hpp>
#include <troupe/messages/reports.hpp>
#include <troupe/tests/fuzz/fuzz.hpp>
#include <troupe/tests/messages/samples.hpp>

namespace troupe::fuzz {
namespace {

using namespace actors;
using messages::Control;
using transport::StreamHead;

const Topology& topology() {
  static const Topology made = [] {
    Topology topology;
    RoleSpec actor, store, metrics;
    actor.name = "actor";
    actor.inlets = {{"policy", "Parameters", ChannelKind::kLatest}};
    actor.outlets = {{"use", "ParametersUse"}, {"ask", "ParametersUse", ChannelKind::kRequest}};
    store.name = "store";
    store.group = true;
    store.inlets = {{"use", "ParametersUse"}, {"ask", "ParametersUse", ChannelKind::kRequest}};
    store.outlets = {{"policy", "Parameters", ChannelKind::kLatest}};
    metrics.name = "metrics";
    metrics.inlets = {{"reports", "Metrics"}};
    topology.roles = {actor, store, metrics};
    topology.channels = {{"actor", "use", "store", "use", 8},
                         {"store", "policy", "actor", "policy", 1},
                         {"actor", "ask", "store", "ask", 4}};
    topology.reports = PortName{"metrics", "reports"};
    return topology;
  }();
  return made;
}

struct Packed {
  StreamHead head{};
  std::string body;
};

/// As the network sends it.
Packed pack(const RemoteMessage& message) {
  Packed packed;
  messages::FramePool pool;
  messages::Frame frame;
  packed.head = pack_head(message, frame, packed.body);
  if (const auto* control = std::get_if<Control>(&message)) frame = messages::make_control(pool, *control).value();
  if (frame) packed.body = to_string(frame.bytes());
  return packed;
}

transport::StreamMessage message_of(const StreamHead& head, Bytes body) {
  transport::StreamMessage message;
  message.head = head;
  auto frame = std::make_shared<messages::Frame>(messages::FramePool().copy(body).value());
  message.body = frame->bytes();
  message.owner = frame;
  return message;
}

void unpack(Input input) {
  const bool repair = input.choose(2) == 1;
  const auto head = input.take<StreamHead>();
  std::vector<std::byte> body(input.rest().begin(), input.rest().end());
  if (repair) store(body, 0, static_cast<std::uint64_t>(body.size() / 8 - 1) << 32);  // one segment, to the end
  (void)reference_of(head);
  const auto got = unpack_message(message_of(head, body));
  if (!got.ok()) return;
  for (const char* role : {"actor", "store", "metrics", "chief", kOperatorRole}) {
    for (const bool to_chief : {false, true}) (void)may_send(topology(), {"run", {role}, "node"}, to_chief, *got);
  }
  // An error's text is cut off and never empty, and a Control may not be writable: the rest comes back as it was.
  if (std::holds_alternative<Control>(*got)) return;
  const Packed again = pack(*got);
  const auto back = unpack_message(message_of(again.head, bytes_of(again.body)));
  TROUPE_CHECK(back.ok() && back->index() == got->index(), "a message of type {} changed", got->index());
  const Packed twice = pack(*back);
  TROUPE_CHECK(twice.head == again.head && twice.body == again.body && same(bytes_of(again.body), body),
               "a message of type {} changed", got->index());
}

void offer(Bytes body) {
  const auto got = unpack_offer(body);
  if (!got.ok()) return;
  const auto again = unpack_offer(bytes_of(pack_offer(*got)));
  TROUPE_CHECK(again.ok() && again->host == got->host && again->path == got->path && again->secret == got->secret,
               "an offer changed");
}

void one_input(Bytes input) {
  Input choice(input);
  choice.choose(4) == 0 ? offer(choice.rest()) : unpack(choice);
}

std::vector<std::string> seeds() {
  messages::FramePool pool;
  const Route route{{0, 2, 3}, 4, 5};
  const auto frame = [&] { return messages::make_parameters_use(pool, {0, 9, 1}).value(); };
  const std::vector<RemoteMessage> messages = {FrameMessage{route, frame()},
                                               CreditMessage{route, 3, 2},
                                               CallMessage{{{2, 0, 0}, 1, 1}, 77, frame()},
                                               AnswerMessage{route, 7, std::nullopt, frame()},
                                               AnswerMessage{route, 7, Error{Code::kInternal, "why not"}, {}},
                                               MarkerMessage{12},
                                               messages::testing::sample_control(),
                                               GroupMessage{1, 1, 2, frame()}};
  std::vector<std::string> all;
  for (const RemoteMessage& message : messages) {
    const Packed packed = pack(message);
    all.push_back("\1" + std::string(1, '\0') + to_string(packed.head) + packed.body);
  }
  all.push_back(std::string(1, '\0') + pack_offer({"host\n1", "/tmp/a b", std::string("\0\n12", 4)}));
  return all;
}

const Registered registered({"wire_head", one_input, seeds});

}  // namespace
}  // namespace troupe::fuzz
