#include <troupe/messages/inference.hpp>

#include <cstring>
#include <utility>

#include <troupe/messages/detail/wire.hpp>

namespace troupe::messages {
namespace {

constexpr std::size_t kStructWords = 12;  // root pointer, Envelope and either struct

struct RequestContent final : Parsed {
  RequestContent() : Parsed(Kind::kInferenceRequest) {}
  InferenceRequest request;
};

struct AnswerContent final : Parsed {
  AnswerContent() : Parsed(Kind::kInferenceAnswer) {}
  InferenceAnswer answer;
};

Status check_rows(std::int64_t rows, std::string_view where) {
  if (rows >= 1) return {};
  return Error{Code::kInvalidArgument, fmt::format("{}: got {} rows, expected at least 1", where, rows)};
}

Status check_version(std::int64_t version) {
  if (version >= 0) return {};
  return Error{Code::kInvalidArgument, fmt::format("inference answer: got version {}, expected >= 0", version)};
}

Result<MessageWriter> writer_of_columns(FramePool& pool, const Signature& signature, const BatchView& columns,
                                        std::string_view where) {
  TROUPE_TRY(check_rows(columns.rows, where));
  TROUPE_TRY(check_columns(signature, columns.rows, where));
  return MessageWriter::make(pool, kStructWords + column_head_words(signature),
                             row_bytes(signature) * static_cast<std::size_t>(columns.rows), signature.size());
}

/// Writes the columns into a message of either kind, which so is complete. Returns them as they lie there.
template <typename Message>
BatchView write_columns_to(MessageWriter& writer, Message message, const Signature& signature,
                           const BatchView& columns) {
  message.setRows(columns.rows);
  auto list = message.initColumns(static_cast<unsigned>(signature.size()));
  write_specs(list, signature);
  const MutableBatchView to = lay_out_columns(writer, list, signature, columns.rows);
  for (std::size_t c = 0; c < signature.size(); ++c) {
    TROUPE_CHECK(columns.columns[c].size() == to.columns[c].size(), "inference: column {} has {} bytes, expected {}",
                 signature[c].name, columns.columns[c].size(), to.columns[c].size());
    std::memcpy(to.columns[c].data(), columns.columns[c].data(), to.columns[c].size());
  }
  return to.view();
}

Result<std::unique_ptr<const Parsed>> validate_request(schema::Envelope::Reader root) {
  const auto message = root.getInferenceRequest();
  TROUPE_TRY(check_rows(message.getRows(), "inference request"));
  TROUPE_ASSIGN(ReadColumns columns, read_columns(message.getColumns(), message.getRows(), "inference request"));
  auto result = std::make_unique<RequestContent>();
  result->request = {message.getProducer(), std::move(columns.signature), std::move(columns.view)};
  return std::unique_ptr<const Parsed>(std::move(result));
}

Result<std::unique_ptr<const Parsed>> validate_answer(schema::Envelope::Reader root) {
  const auto message = root.getInferenceAnswer();
  TROUPE_TRY(check_version(message.getParametersVersion()));
  TROUPE_TRY(check_rows(message.getRows(), "inference answer"));
  TROUPE_ASSIGN(ReadColumns columns,
                read_columns(message.getColumns(), message.getRows(), "inference answer", Values::kAny));
  auto result = std::make_unique<AnswerContent>();
  result->answer = {message.getParametersVersion(), std::move(columns.signature), std::move(columns.view)};
  return std::unique_ptr<const Parsed>(std::move(result));
}

}  // namespace

Result<Frame> make_inference_request(FramePool& pool, const InferenceRequest& request) {
  const Signature& signature = *request.signature;
  TROUPE_ASSIGN(MessageWriter writer, writer_of_columns(pool, signature, request.inputs, "inference request"));
  for (std::size_t c = 0; c < signature.size(); ++c) {
    TROUPE_TRY(check_finite(signature[c], request.inputs.columns[c], "inference request"));
  }
  auto message = writer.root().initInferenceRequest();
  message.setProducer(request.producer);
  auto content = std::make_unique<RequestContent>();
  content->request = {request.producer, request.signature,
                      write_columns_to(writer, message, signature, request.inputs)};
  return std::move(writer).finish(std::move(content));
}

Result<Frame> make_inference_answer(FramePool& pool, const InferenceAnswer& answer) {
  const Signature& signature = *answer.signature;
  TROUPE_TRY(check_version(answer.parameters_version));
  TROUPE_ASSIGN(MessageWriter writer, writer_of_columns(pool, signature, answer.outputs, "inference answer"));
  auto message = writer.root().initInferenceAnswer();
  message.setParametersVersion(answer.parameters_version);
  auto content = std::make_unique<AnswerContent>();
  content->answer = {answer.parameters_version, answer.signature,
                     write_columns_to(writer, message, signature, answer.outputs)};
  return std::move(writer).finish(std::move(content));
}

Result<InferenceRequest> read_inference_request(const Frame& frame) {
  TROUPE_ASSIGN(const Parsed* parsed, parsed_once(frame, Kind::kInferenceRequest, validate_request));
  return static_cast<const RequestContent*>(parsed)->request;
}

Result<InferenceAnswer> read_inference_answer(const Frame& frame) {
  TROUPE_ASSIGN(const Parsed* parsed, parsed_once(frame, Kind::kInferenceAnswer, validate_answer));
  return static_cast<const AnswerContent*>(parsed)->answer;
}

}  // namespace troupe::messages
