// Which message a frame holds, without validating the rest: for whoever passes frames on (the network's authorization).
#include <array>

#include <troupe/messages/detail/wire.hpp>

namespace troupe::messages {

std::string_view type_name(const Frame& frame) {
  static constexpr std::array<std::string_view, 19> kNames = {
      "Trajectory",      "Batch",    "Parameters",     "Priorities",     "Episode",           "Metrics",
      "Control",         "Chunk",    "Counters",       "ParametersUse",  "ParametersVersion", "InferenceRequest",
      "InferenceAnswer", "Gradient", "GradientAnswer", "ParametersPull", "StepsRequest",      "StepsGrant",
      "Evaluation"};
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
