// The names of our messages, and which of them a frame holds, without validating the rest: for whoever passes frames on
// (the network's authorization).
#include <algorithm>
#include <array>

#include <troupe/messages/detail/wire.hpp>
#include <troupe/messages/message_type.hpp>

namespace troupe::messages {
namespace {

/// By messages::Kind.
constexpr std::array<std::string_view, 21> kNames = {
    "Trajectory",      "Batch",         "Parameters",     "Priorities",     "Episode",           "Metrics",
    "Control",         "Chunk",         "Counters",       "ParametersUse",  "ParametersVersion", "InferenceRequest",
    "InferenceAnswer", "Gradient",      "GradientAnswer", "ParametersPull", "StepsRequest",      "StepsGrant",
    "Evaluation",      "SampleRequest", "Steps"};
/// Chief and nodes have lanes of their own, and the others are only stored.
constexpr std::array<std::string_view, 3> kOnNoChannel = {"Control", "Chunk", "Counters"};

}  // namespace

bool is_kind_name(std::string_view name) { return std::ranges::find(kNames, name) != kNames.end(); }

bool is_shipped_type(std::string_view name) {
  return is_kind_name(name) && std::ranges::find(kOnNoChannel, name) == kOnNoChannel.end();
}

std::vector<std::string> shipped_type_names() {
  std::vector<std::string> names;
  for (const std::string_view name : kNames) {
    if (is_shipped_type(name)) names.emplace_back(name);
  }
  std::ranges::sort(names);
  return names;
}

std::string_view type_name(const Frame& frame) {
  const auto bytes = frame.bytes();
  if (bytes.empty() || !check_segment_table(bytes).ok()) return {};
  try {
    const std::size_t words = bytes.size() / sizeof(capnp::word);
    capnp::ReaderOptions options;
    options.nestingLimit = 16;
    capnp::FlatArrayMessageReader message(kj::arrayPtr(reinterpret_cast<const capnp::word*>(bytes.data()), words),
                                          options);
    const auto which = static_cast<std::size_t>(message.getRoot<schema::Envelope>().which());
    return which < kNames.size() ? kNames[which] : std::string_view();
  } catch (const kj::Exception&) {
    return {};
  }
}

}  // namespace troupe::messages
