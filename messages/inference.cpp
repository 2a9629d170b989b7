#include <troupe/messages/inference.hpp>

#include <algorithm>

#include <troupe/messages/detail/wire.hpp>

namespace troupe::messages {
namespace {

constexpr std::size_t kStructWords = 8;  // root pointer, Envelope and either struct
constexpr std::size_t kMaxElements = kMaxColumnBytes / sizeof(float);

Status check_size(std::size_t elements, std::string_view what) {
  if (elements >= 1 && elements <= kMaxElements) return {};
  return Error{Code::kInvalidArgument,
               fmt::format("{}: got {} elements, expected 1..{}", what, elements, kMaxElements)};
}

Status check(const InferenceRequest& request) {
  TROUPE_TRY(check_size(request.observation.size(), "inference request: observation"));
  for (std::size_t i = 0; i < request.observation.size(); ++i) {
    if (!std::isfinite(request.observation[i])) {
      return Error{Code::kInvalidArgument, fmt::format("inference request: observation[{}]: got {}, expected a finite "
                                                       "value",
                                                       i, request.observation[i])};
    }
  }
  return {};
}

Status check(const InferenceAnswer& answer) {
  if (answer.parameters_version < 0) {
    return Error{Code::kInvalidArgument,
                 fmt::format("inference answer: got version {}, expected >= 0", answer.parameters_version)};
  }
  return check_size(answer.action.size(), "inference answer: action");
}

Result<MessageWriter> writer_for(FramePool& pool, std::size_t elements) {
  return MessageWriter::make(pool, kStructWords + (elements + 1) / 2, 0, 0);
}

}  // namespace

Result<Frame> make_inference_request(FramePool& pool, const InferenceRequest& request) {
  TROUPE_TRY(check(request));
  TROUPE_ASSIGN(MessageWriter writer, writer_for(pool, request.observation.size()));
  auto message = writer.root().initInferenceRequest();
  message.setProducer(request.producer);
  const auto size = static_cast<unsigned>(request.observation.size());
  std::ranges::copy(request.observation, elements_of<float>(message.initObservation(size)).begin());
  return std::move(writer).finish(nullptr);
}

Result<InferenceRequest> read_inference_request(const Frame& frame) {
  return open_message(
      frame.bytes(), Kind::kInferenceRequest, [](schema::Envelope::Reader root) -> Result<InferenceRequest> {
        const auto message = root.getInferenceRequest();
        InferenceRequest request{message.getProducer(), {}};
        TROUPE_ASSIGN(request.observation, elements_of<float>(message.getObservation(), message.getObservation().size(),
                                                              "inference request: observation"));
        TROUPE_TRY(check(request));
        return request;
      });
}

Result<Frame> make_inference_answer(FramePool& pool, const InferenceAnswer& answer) {
  TROUPE_TRY(check(answer));
  TROUPE_ASSIGN(MessageWriter writer, writer_for(pool, answer.action.size()));
  auto message = writer.root().initInferenceAnswer();
  message.setParametersVersion(answer.parameters_version);
  const auto size = static_cast<unsigned>(answer.action.size());
  std::ranges::copy(answer.action, elements_of<float>(message.initAction(size)).begin());
  return std::move(writer).finish(nullptr);
}

Result<InferenceAnswer> read_inference_answer(const Frame& frame) {
  return open_message(
      frame.bytes(), Kind::kInferenceAnswer, [](schema::Envelope::Reader root) -> Result<InferenceAnswer> {
        const auto message = root.getInferenceAnswer();
        InferenceAnswer answer{message.getParametersVersion(), {}};
        TROUPE_ASSIGN(answer.action,
                      elements_of<float>(message.getAction(), message.getAction().size(), "inference answer: action"));
        TROUPE_TRY(check(answer));
        return answer;
      });
}

}  // namespace troupe::messages
