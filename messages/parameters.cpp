#include <troupe/messages/parameters.hpp>

#include <troupe/messages/detail/wire.hpp>

namespace troupe::messages {
namespace {

struct Content final : Parsed {
  Content() : Parsed(Kind::kParameters) {}
  ParametersInfo info;
  std::span<const std::byte> data;
};

const Content& content(const Parsed* parsed) { return *static_cast<const Content*>(parsed); }

Result<std::unique_ptr<const Parsed>> validate(schema::Envelope::Reader root) {
  const auto message = root.getParameters();
  auto result = std::make_unique<Content>();
  const std::string where = fmt::format("parameters of version {}", message.getVersion());
  TROUPE_ASSIGN(const DType dtype, dtype_of(message.getDtype(), where));
  result->info = {message.getVersion(), message.getLayoutHash(), message.getFingerprint(), dtype};
  const capnp::Data::Reader data = message.getData();
  if (result->info.version < 0) {
    return Error{Code::kInvalidArgument, fmt::format("{}: expected a version >= 0", where)};
  }
  if (data.size() % dtype_bytes(dtype) != 0) {
    return Error{Code::kInvalidArgument, fmt::format("{}: got {} bytes, expected a multiple of {} ({})", where,
                                                     data.size(), dtype_bytes(dtype), to_string(dtype))};
  }
  result->data = {reinterpret_cast<const std::byte*>(data.begin()), data.size()};
  return std::unique_ptr<const Parsed>(std::move(result));
}

}  // namespace

const ParametersInfo& ParametersView::info() const { return content(parsed_).info; }
std::span<const std::byte> ParametersView::data() const { return content(parsed_).data; }

Result<ParametersView> read_parameters(const Frame& frame) {
  TROUPE_ASSIGN(const Parsed* parsed, parsed_once(frame, Kind::kParameters, validate));
  return ParametersView(frame, parsed);
}

struct ParametersBuilder::Impl {
  explicit Impl(MessageWriter message_writer)
      : writer(std::move(message_writer)), message(writer.root().initParameters()) {}

  MessageWriter writer;
  schema::Parameters::Builder message;
  DType dtype = DType::kF32;
  std::span<std::byte> data;
};

ParametersBuilder::ParametersBuilder(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
ParametersBuilder::ParametersBuilder(ParametersBuilder&&) noexcept = default;
ParametersBuilder& ParametersBuilder::operator=(ParametersBuilder&&) noexcept = default;
ParametersBuilder::~ParametersBuilder() = default;

Result<ParametersBuilder> ParametersBuilder::make(FramePool& pool, DType dtype, std::int64_t elements) {
  if (elements < 0 || static_cast<std::size_t>(elements) > kMaxColumnBytes / dtype_bytes(dtype)) {
    return Error{Code::kInvalidArgument, fmt::format("parameters: got {} elements of {}, expected at most {} bytes",
                                                     elements, to_string(dtype), kMaxColumnBytes)};
  }
  constexpr std::size_t kStructWords = 16;  // root pointer, Envelope, Parameters
  const std::size_t bytes = static_cast<std::size_t>(elements) * dtype_bytes(dtype);
  TROUPE_ASSIGN(MessageWriter writer, MessageWriter::make(pool, kStructWords, bytes, 1));
  auto impl = std::make_unique<Impl>(std::move(writer));
  impl->dtype = dtype;
  auto data = impl->writer.aligned_data(bytes);
  impl->data = {reinterpret_cast<std::byte*>(data.get().begin()), bytes};
  impl->message.adoptData(std::move(data));
  return ParametersBuilder(std::move(impl));
}

std::span<std::byte> ParametersBuilder::data() { return impl_->data; }

Frame ParametersBuilder::finish(const ParametersInfo& info) && {
  const std::unique_ptr<Impl> impl = std::move(impl_);
  TROUPE_CHECK(info.dtype == impl->dtype, "parameters of {} in a builder of {}", to_string(info.dtype),
               to_string(impl->dtype));
  impl->message.setVersion(info.version);
  impl->message.setLayoutHash(info.layout_hash);
  impl->message.setFingerprint(info.fingerprint);
  impl->message.setDtype(to_schema(info.dtype));
  auto content = std::make_unique<Content>();
  content->info = info;
  content->data = impl->data;
  return std::move(impl->writer).finish(std::move(content));
}

}  // namespace troupe::messages
