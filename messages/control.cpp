#include <troupe/messages/control.hpp>

#include <algorithm>
#include <array>

#include <troupe/messages/detail/wire.hpp>

namespace troupe::messages {
namespace {

/// Longest name in a control message, and most entries of a list: both far above what a run has.
constexpr std::size_t kMaxEntries = 16384;
constexpr std::size_t kStructWords = 64;

capnp::Text::Reader text(const std::string& value) { return {value.data(), value.size()}; }

/// Upper bound of the words that the message takes.
std::size_t words_of(const Control& control) {
  std::size_t words = kStructWords + text_words(control.node.size()) + text_words(control.text.size());
  for (const auto& one : control.texts) words += 2 + text_words(one.size());
  for (const auto& one : control.instances) words += 6 + text_words(one.role.size());
  for (const auto& one : control.edges)
    words += 8 + text_words(one.peer_node.size()) + text_words(one.peer_role.size());
  for (const auto& one : control.nodes) words += 6 + text_words(one.name.size()) + text_words(one.host.size());
  for (const auto& one : control.counters) words += 4 + text_words(one.name.size());
  return words;
}

/// Those whose instances[0] says whom they are about.
bool names_an_instance(ControlKind kind) {
  constexpr std::array kThese = {ControlKind::kUp,   ControlKind::kDone,   ControlKind::kFailed, ControlKind::kSpawn,
                                 ControlKind::kWire, ControlKind::kUnwire, ControlKind::kGroup,  ControlKind::kRegroup};
  return std::ranges::find(kThese, kind) != kThese.end();
}

template <typename List>
Status check_count(const List& list, std::string_view what) {
  if (list.size() <= kMaxEntries) return {};
  return Error{Code::kInvalidArgument,
               fmt::format("control: got {} {}, expected at most {}", list.size(), what, kMaxEntries)};
}

Result<std::string> name_of(capnp::Text::Reader name, std::string_view what) {
  return text_of(name, kMaxControlNameBytes, what);
}

}  // namespace

std::string_view to_string(ControlKind kind) {
  static constexpr std::array<std::string_view, kControlKinds> kNames = {
      "join",   "alive",      "up",    "done",  "failed",  "captured", "written", "status",      "leave",  "welcome",
      "refuse", "heard",      "nodes", "spawn", "wire",    "unwire",   "start",   "cut",         "resume", "commit",
      "live",   "ask_status", "end",   "group", "regroup", "check",    "checked", "round_ended", "round"};
  const auto index = static_cast<std::size_t>(kind);
  return index < kNames.size() ? kNames[index] : "unknown";
}

Result<Frame> make_control(FramePool& pool, const Control& control) {
  const std::size_t words = words_of(control);
  if (words * sizeof(capnp::word) > kMaxControlBytes) {
    return Error{Code::kInvalidArgument,
                 fmt::format("control: a {} message of up to {} bytes, expected at most {}", to_string(control.kind),
                             words * sizeof(capnp::word), kMaxControlBytes)};
  }
  TROUPE_ASSIGN(MessageWriter writer, MessageWriter::make(pool, words, 0, 0));
  auto message = writer.root().initControl();
  message.setKind(static_cast<std::uint16_t>(control.kind));
  message.setNode(text(control.node));
  message.setBirth(control.birth);
  message.setProtocol(control.protocol);
  message.setConfigHash(control.config_hash);
  message.setTerm(control.term);
  message.setIncarnation(control.incarnation);
  message.setNumber(control.number);
  message.setLateMs(control.late_ms);
  message.setResume(control.resume);
  message.setFenced(control.fenced);
  message.setFailed(control.failed);
  message.setCode(static_cast<std::uint16_t>(control.code));
  message.setText(text(control.text));
  auto texts = message.initTexts(static_cast<unsigned>(control.texts.size()));
  for (unsigned i = 0; i < texts.size(); ++i) texts.set(i, text(control.texts[i]));
  auto instances = message.initInstances(static_cast<unsigned>(control.instances.size()));
  for (unsigned i = 0; i < instances.size(); ++i) {
    const ControlInstance& from = control.instances[i];
    instances[i].setRole(text(from.role));
    instances[i].setIndex(from.index);
    instances[i].setIncarnation(from.incarnation);
    instances[i].setNumber(from.number);
    instances[i].setDone(from.done);
  }
  auto edges = message.initEdges(static_cast<unsigned>(control.edges.size()));
  for (unsigned i = 0; i < edges.size(); ++i) {
    const ControlEdge& from = control.edges[i];
    edges[i].setChannel(from.channel);
    edges[i].setProducer(from.producer);
    edges[i].setConsumer(from.consumer);
    edges[i].setPeerProduces(from.peer_produces);
    edges[i].setPeerIncarnation(from.peer_incarnation);
    edges[i].setPeerNode(text(from.peer_node));
    edges[i].setPeerRole(text(from.peer_role));
  }
  auto nodes = message.initNodes(static_cast<unsigned>(control.nodes.size()));
  for (unsigned i = 0; i < nodes.size(); ++i) {
    const ControlNode& from = control.nodes[i];
    nodes[i].setName(text(from.name));
    nodes[i].setIncarnation(from.incarnation);
    nodes[i].setHost(text(from.host));
    nodes[i].setPort(from.port);
    nodes[i].setBirth(from.birth);
  }
  auto counters = message.initCounters(static_cast<unsigned>(control.counters.size()));
  for (unsigned i = 0; i < counters.size(); ++i) {
    counters[i].setName(text(control.counters[i].name));
    counters[i].setValue(control.counters[i].value);
  }
  return std::move(writer).finish(nullptr);
}

Result<Control> read_control(const Frame& frame) {
  return open_message(frame.bytes(), Kind::kControl, [](schema::Envelope::Reader root) -> Result<Control> {
    const auto message = root.getControl();
    Control control;
    control.kind = static_cast<ControlKind>(message.getKind());
    if (message.getKind() >= kControlKinds) {
      return Error{Code::kInvalidArgument, fmt::format("control: got unknown kind {}", message.getKind())};
    }
    TROUPE_ASSIGN(control.node, name_of(message.getNode(), "control: node"));
    control.birth = message.getBirth();
    control.protocol = message.getProtocol();
    control.config_hash = message.getConfigHash();
    control.term = message.getTerm();
    control.incarnation = message.getIncarnation();
    control.number = message.getNumber();
    control.late_ms = message.getLateMs();
    control.resume = message.getResume();
    control.fenced = message.getFenced();
    control.failed = message.getFailed();
    if (message.getCode() > static_cast<std::uint16_t>(kLastCode)) {
      return Error{Code::kInvalidArgument, fmt::format("control: got unknown code {}", message.getCode())};
    }
    control.code = static_cast<Code>(message.getCode());
    TROUPE_ASSIGN(control.text, text_of(message.getText(), kMaxControlBytes, "control: text"));
    TROUPE_TRY(check_count(message.getTexts(), "texts"));
    for (const auto one : message.getTexts()) {
      TROUPE_ASSIGN(std::string name, name_of(one, "control: text of a list"));
      control.texts.push_back(std::move(name));
    }
    TROUPE_TRY(check_count(message.getInstances(), "instances"));
    for (const auto one : message.getInstances()) {
      TROUPE_ASSIGN(std::string role, name_of(one.getRole(), "control: role of an instance"));
      control.instances.push_back(
          {std::move(role), one.getIndex(), one.getIncarnation(), one.getNumber(), one.getDone()});
    }
    if (control.instances.empty() && names_an_instance(control.kind)) {
      return Error{Code::kInvalidArgument, fmt::format("control: {} without an instance", to_string(control.kind))};
    }
    TROUPE_TRY(check_count(message.getEdges(), "edges"));
    for (const auto one : message.getEdges()) {
      TROUPE_ASSIGN(std::string node, name_of(one.getPeerNode(), "control: node of an edge"));
      TROUPE_ASSIGN(std::string role, name_of(one.getPeerRole(), "control: role of an edge"));
      control.edges.push_back({one.getChannel(), one.getProducer(), one.getConsumer(), one.getPeerProduces(),
                               one.getPeerIncarnation(), std::move(node), std::move(role)});
    }
    TROUPE_TRY(check_count(message.getNodes(), "nodes"));
    for (const auto one : message.getNodes()) {
      TROUPE_ASSIGN(std::string name, name_of(one.getName(), "control: name of a node"));
      TROUPE_ASSIGN(std::string host, name_of(one.getHost(), "control: host of a node"));
      control.nodes.push_back({std::move(name), one.getIncarnation(), std::move(host), one.getPort(), one.getBirth()});
    }
    TROUPE_TRY(check_count(message.getCounters(), "counters"));
    for (const auto one : message.getCounters()) {
      TROUPE_ASSIGN(std::string name, name_of(one.getName(), "control: name of a counter"));
      control.counters.push_back({std::move(name), one.getValue()});
    }
    return control;
  });
}

}  // namespace troupe::messages
