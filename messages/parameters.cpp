#include <troupe/messages/parameters.hpp>

#include <troupe/messages/detail/wire.hpp>

namespace troupe::messages {
namespace {

struct Content final : Parsed {
  Content() : Parsed(Kind::kParameters) {}
  ParametersInfo info;
  ParametersPiece piece;
  std::span<const std::byte> data;
};

const Content& content(const Parsed* parsed) { return *static_cast<const Content*>(parsed); }

ParametersPiece whole(std::int64_t elements) {
  ParametersPiece piece{.elements = elements};
  if (elements > 0) piece.ranges = {{0, elements}};
  return piece;
}

/// Errors: kInvalidArgument naming what is wrong with the piece.
Status check(const ParametersPiece& piece, std::string_view where) {
  if (piece.count < 1 || piece.count > kMaxParametersPieces || piece.index >= piece.count) {
    return Error{Code::kInvalidArgument, fmt::format("{}: got piece {} of {}, expected one of at most {}", where,
                                                     piece.index, piece.count, kMaxParametersPieces)};
  }
  if (piece.elements < 0) {
    return Error{Code::kInvalidArgument, fmt::format("{}: got {} elements, expected >= 0", where, piece.elements)};
  }
  std::int64_t end = 0;
  for (const ParametersRange& range : piece.ranges) {
    if (range.offset < end || range.offset > piece.elements || range.count < 1 ||
        range.count > piece.elements - range.offset) {
      return Error{Code::kInvalidArgument, fmt::format("{}: got a range of {} elements at {}, expected it in {}..{}",
                                                       where, range.count, range.offset, end, piece.elements)};
    }
    end = range.offset + range.count;
  }
  return {};
}

Result<ParametersPiece> read_piece(schema::Parameters::Reader message, std::int64_t data_elements,
                                   std::string_view where) {
  if (message.getPieces() <= 1) return whole(data_elements);
  ParametersPiece piece{message.getPiece(), message.getPieces(), message.getElements(), {}};
  for (const auto range : message.getRanges()) piece.ranges.push_back({range.getOffset(), range.getCount()});
  TROUPE_TRY(check(piece, where));
  if (piece.own_elements() != data_elements) {
    return Error{Code::kInvalidArgument, fmt::format("{}: got {} elements, expected the {} of its ranges", where,
                                                     data_elements, piece.own_elements())};
  }
  return piece;
}

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
  TROUPE_ASSIGN(result->piece, read_piece(message, static_cast<std::int64_t>(data.size() / dtype_bytes(dtype)), where));
  result->data = {reinterpret_cast<const std::byte*>(data.begin()), data.size()};
  return std::unique_ptr<const Parsed>(std::move(result));
}

}  // namespace

std::int64_t ParametersPiece::own_elements() const {
  std::int64_t sum = 0;
  for (const ParametersRange& range : ranges) sum += range.count;
  return sum;
}

const ParametersInfo& ParametersView::info() const { return content(parsed_).info; }
const ParametersPiece& ParametersView::piece() const { return content(parsed_).piece; }
std::span<const std::byte> ParametersView::data() const { return content(parsed_).data; }

Result<std::span<const float>> ParametersView::floats() const {
  if (info().dtype != DType::kF32) {
    return Error{Code::kInvalidArgument, fmt::format("parameters of version {}: got {}, expected float32",
                                                     info().version, to_string(info().dtype))};
  }
  return std::span(reinterpret_cast<const float*>(data().data()), data().size() / sizeof(float));
}

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
  ParametersPiece piece;
  std::span<std::byte> data;
};

Status check_parameters(DType dtype, std::int64_t elements) {
  const std::size_t most = kMaxColumnBytes / dtype_bytes(dtype);
  if (static_cast<std::size_t>(elements) <= most) return {};
  return Error{Code::kInvalidArgument, fmt::format("got {} parameters, expected at most {}, as {} in one message",
                                                   elements, most, to_string(dtype))};
}

ParametersBuilder::ParametersBuilder(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
ParametersBuilder::ParametersBuilder(ParametersBuilder&&) noexcept = default;
ParametersBuilder& ParametersBuilder::operator=(ParametersBuilder&&) noexcept = default;
ParametersBuilder::~ParametersBuilder() = default;

Result<ParametersBuilder> ParametersBuilder::make(FramePool& pool, DType dtype, std::int64_t elements) {
  return make(pool, dtype, whole(elements));
}

Result<ParametersBuilder> ParametersBuilder::make(FramePool& pool, DType dtype, const ParametersPiece& piece) {
  TROUPE_TRY(check(piece, "parameters"));
  const std::int64_t elements = piece.own_elements();
  TROUPE_TRY(check_parameters(dtype, elements));
  constexpr std::size_t kStructWords = 16;  // root pointer, Envelope, Parameters, tag of the list
  const std::size_t range_words = piece.count > 1 ? 2 * piece.ranges.size() : 0;
  const std::size_t bytes = static_cast<std::size_t>(elements) * dtype_bytes(dtype);
  TROUPE_ASSIGN(MessageWriter writer, MessageWriter::make(pool, kStructWords + range_words, bytes, 1));
  auto impl = std::make_unique<Impl>(std::move(writer));
  impl->dtype = dtype;
  impl->piece = piece;
  if (piece.count > 1) {
    impl->message.setPiece(piece.index);
    impl->message.setPieces(piece.count);
    impl->message.setElements(piece.elements);
    auto ranges = impl->message.initRanges(static_cast<unsigned>(piece.ranges.size()));
    for (unsigned i = 0; i < ranges.size(); ++i) {
      ranges[i].setOffset(piece.ranges[i].offset);
      ranges[i].setCount(piece.ranges[i].count);
    }
  }
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
  content->piece = std::move(impl->piece);
  content->data = impl->data;
  return std::move(impl->writer).finish(std::move(content));
}

}  // namespace troupe::messages
