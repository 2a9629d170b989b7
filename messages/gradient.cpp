#include <troupe/messages/gradient.hpp>

#include <algorithm>

#include <troupe/messages/detail/finite.hpp>
#include <troupe/messages/detail/wire.hpp>
#include <troupe/messages/parameters.hpp>

namespace troupe::messages {
namespace {

constexpr std::size_t kMaxTables = 1024;
constexpr std::size_t kSmallWords = 8;  // root pointer, Envelope and an answer or a pull

struct Content final : Parsed {
  Content() : Parsed(Kind::kGradient) {}
  GradientInfo info;
  DType dtype = DType::kF32;
  std::span<const std::byte> dense;
  std::vector<SparseRows> sparse;
};

const Content& content(const Parsed* parsed) { return *static_cast<const Content*>(parsed); }

Status check(const GradientInfo& info, std::string_view where) {
  if (info.version < 0) {
    return Error{Code::kInvalidArgument, fmt::format("{}: got version {}, expected >= 0", where, info.version)};
  }
  if (!(std::isfinite(info.samples) && info.samples > 0)) {
    return Error{Code::kInvalidArgument,
                 fmt::format("{}: got {} samples, expected a finite number above 0", where, info.samples)};
  }
  if (info.pieces < 1 || info.pieces > kMaxParametersPieces || info.piece >= info.pieces) {
    return Error{Code::kInvalidArgument, fmt::format("{}: got piece {} of {}, expected one of at most {}", where,
                                                     info.piece, info.pieces, kMaxParametersPieces)};
  }
  return {};
}

Status check_dtype(DType dtype, std::string_view where) {
  if (dtype == DType::kF32 || dtype == DType::kBF16) return {};
  return Error{Code::kInvalidArgument,
               fmt::format("{}: got values of {}, expected float32 or bfloat16", where, to_string(dtype))};
}

/// Tables and rows ascend, and the values of each fit into a message.
Status check(std::span<const SparseRows> sparse, DType dtype, std::string_view where) {
  if (sparse.size() > kMaxTables) {
    return Error{Code::kInvalidArgument,
                 fmt::format("{}: got {} sparse tables, expected at most {}", where, sparse.size(), kMaxTables)};
  }
  for (std::size_t i = 0; i < sparse.size(); ++i) {
    const SparseRows& table = sparse[i];
    if (i > 0 && table.table <= sparse[i - 1].table) {
      return Error{Code::kInvalidArgument, fmt::format("{}: got table {} behind table {}, expected ascending tables",
                                                       where, table.table, sparse[i - 1].table)};
    }
    if (table.columns == 0 || table.rows.size() > kMaxColumnBytes / dtype_bytes(dtype) / table.columns) {
      return Error{Code::kInvalidArgument,
                   fmt::format("{}: got {} rows of {} columns in table {}, expected 1 column or more and at most {} "
                               "bytes",
                               where, table.rows.size(), table.columns, table.table, kMaxColumnBytes)};
    }
    const auto fall = std::ranges::adjacent_find(table.rows, std::greater_equal<>());
    if (fall != table.rows.end()) {
      return Error{Code::kInvalidArgument, fmt::format("{}: got row {} behind row {} in table {}, expected ascending "
                                                       "rows",
                                                       where, *(fall + 1), *fall, table.table)};
    }
  }
  return {};
}

bool write_f32(std::span<const float> from, float scale, float* to) {
  FiniteF32 check;
  for (std::size_t i = 0; i < from.size(); ++i) {
    const float value = from[i] * scale;
    to[i] = value;
    check.see(std::bit_cast<std::uint32_t>(value));
  }
  return check.all_finite();
}

/// Rounds to nearest, ties to even.
bool write_bf16(std::span<const float> from, float scale, std::uint16_t* to) {
  FiniteF32 check;
  for (std::size_t i = 0; i < from.size(); ++i) {
    const auto bits = std::bit_cast<std::uint32_t>(from[i] * scale);
    // A NaN whose bits would overflow when rounded is caught by its own bits.
    const std::uint32_t rounded = (bits + 0x7fffU + (bits >> 16 & 1U)) & 0xffff0000U;
    to[i] = static_cast<std::uint16_t>(rounded >> 16);
    check.see(bits);
    check.see(rounded);
  }
  return check.all_finite();
}

Result<std::unique_ptr<const Parsed>> validate(schema::Envelope::Reader root) {
  const auto message = root.getGradient();
  auto result = std::make_unique<Content>();
  const std::string where = fmt::format("gradient of worker {}", message.getWorker());
  result->info = {message.getWorker(),    message.getVersion(), message.getSamples(),
                  message.getModelHash(), message.getPiece(),   message.getPieces()};
  TROUPE_TRY(check(result->info, where));
  TROUPE_ASSIGN(result->dtype, dtype_of(message.getDtype(), where));
  TROUPE_TRY(check_dtype(result->dtype, where));
  const auto bytes_of = [](capnp::Data::Reader data) {
    return std::span(reinterpret_cast<const std::byte*>(data.begin()), data.size());
  };
  result->dense = bytes_of(message.getDense());
  if (result->dense.size() % dtype_bytes(result->dtype) != 0) {
    return Error{Code::kInvalidArgument,
                 fmt::format("{}: got {} bytes, expected a multiple of {} ({})", where, result->dense.size(),
                             dtype_bytes(result->dtype), to_string(result->dtype))};
  }
  if (message.getSparse().size() > kMaxTables) {
    return Error{Code::kInvalidArgument, fmt::format("{}: got {} sparse tables, expected at most {}", where,
                                                     message.getSparse().size(), kMaxTables)};
  }
  for (const auto table : message.getSparse()) {
    SparseRows rows{table.getTable(), table.getColumns(), {}, bytes_of(table.getValues())};
    TROUPE_ASSIGN(rows.rows, elements_of<std::uint32_t>(table.getRows(), table.getRows().size(), where));
    result->sparse.push_back(rows);
  }
  TROUPE_TRY(check(result->sparse, result->dtype, where));
  bool finite = all_finite(result->dtype, result->dense);
  for (const SparseRows& table : result->sparse) {
    const std::size_t expected = table.rows.size() * table.columns * dtype_bytes(result->dtype);
    if (table.values.size() != expected) {
      return Error{Code::kInvalidArgument,
                   fmt::format("{}: got {} bytes for {} rows of {} columns in table {}, "
                               "expected {}",
                               where, table.values.size(), table.rows.size(), table.columns, table.table, expected)};
    }
    finite = finite && all_finite(result->dtype, table.values);
  }
  if (!finite) return Error{Code::kInvalidArgument, fmt::format("{}: got a value that is not finite", where)};
  return std::unique_ptr<const Parsed>(std::move(result));
}

Status check_version(std::int64_t version, std::string_view what) {
  if (version >= 0) return {};
  return Error{Code::kInvalidArgument, fmt::format("{}: got version {}, expected >= 0", what, version)};
}

}  // namespace

const GradientInfo& GradientView::info() const { return content(parsed_).info; }
DType GradientView::dtype() const { return content(parsed_).dtype; }
std::span<const std::byte> GradientView::dense() const { return content(parsed_).dense; }
std::span<const SparseRows> GradientView::sparse() const { return content(parsed_).sparse; }

Result<GradientView> read_gradient(const Frame& frame) {
  TROUPE_ASSIGN(const Parsed* parsed, parsed_once(frame, Kind::kGradient, validate));
  return GradientView(frame, parsed);
}

struct GradientBuilder::Impl {
  /// Bytes of the message that are filled from the front.
  struct Part {
    std::span<std::byte> bytes;
    std::size_t written = 0;
  };
  explicit Impl(MessageWriter message_writer)
      : writer(std::move(message_writer)), message(writer.root().initGradient()) {}

  Part part_of(capnp::Orphan<capnp::Data>& data) {
    return {{reinterpret_cast<std::byte*>(data.get().begin()), data.get().size()}};
  }
  bool append(Part& part, std::span<const float> values, float scale) {
    std::byte* const to = part.bytes.data() + part.written;
    part.written += values.size() * dtype_bytes(parsed->dtype);
    TROUPE_CHECK(part.written <= part.bytes.size(), "a gradient of {} bytes in a builder of {}", part.written,
                 part.bytes.size());
    return parsed->dtype == DType::kF32 ? write_f32(values, scale, reinterpret_cast<float*>(to))
                                        : write_bf16(values, scale, reinterpret_cast<std::uint16_t*>(to));
  }

  MessageWriter writer;
  schema::Gradient::Builder message;
  std::unique_ptr<Content> parsed = std::make_unique<Content>();
  Part dense;
  std::vector<Part> tables;
};

GradientBuilder::GradientBuilder(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
GradientBuilder::GradientBuilder(GradientBuilder&&) noexcept = default;
GradientBuilder& GradientBuilder::operator=(GradientBuilder&&) noexcept = default;
GradientBuilder::~GradientBuilder() = default;

Result<GradientBuilder> GradientBuilder::make(FramePool& pool, DType dtype, std::int64_t dense,
                                              std::span<const SparseRows> sparse) {
  TROUPE_TRY(check_dtype(dtype, "gradient"));
  TROUPE_TRY(check(sparse, dtype, "gradient"));
  const std::size_t element = dtype_bytes(dtype);
  if (dense < 0 || static_cast<std::size_t>(dense) > kMaxColumnBytes / element) {
    return Error{Code::kInvalidArgument, fmt::format("gradient: got {} elements of {}, expected 0 or more and at most "
                                                     "{} bytes",
                                                     dense, to_string(dtype), kMaxColumnBytes)};
  }
  std::size_t head_words = 16;  // root pointer, Envelope, Gradient, tag of the list
  std::size_t bytes = static_cast<std::size_t>(dense) * element;
  for (const SparseRows& table : sparse) {
    head_words += 4 + table.rows.size() / 2;
    bytes += table.rows.size() * table.columns * element;
  }
  TROUPE_ASSIGN(MessageWriter writer, MessageWriter::make(pool, head_words, bytes, 1 + sparse.size()));
  auto impl = std::make_unique<Impl>(std::move(writer));
  impl->parsed->dtype = dtype;
  impl->message.setDtype(to_schema(dtype));
  auto tables = impl->message.initSparse(static_cast<unsigned>(sparse.size()));
  for (unsigned i = 0; i < tables.size(); ++i) {
    const SparseRows& table = sparse[i];
    tables[i].setTable(table.table);
    tables[i].setColumns(table.columns);
    const auto rows = elements_of<std::uint32_t>(tables[i].initRows(static_cast<unsigned>(table.rows.size())));
    std::ranges::copy(table.rows, rows.begin());
    impl->parsed->sparse.push_back({table.table, table.columns, rows, {}});
  }
  auto data = impl->writer.aligned_data(static_cast<std::size_t>(dense) * element);
  impl->dense = impl->part_of(data);
  impl->parsed->dense = impl->dense.bytes;
  impl->message.adoptDense(std::move(data));
  for (unsigned i = 0; i < tables.size(); ++i) {
    auto values = impl->writer.aligned_data(sparse[i].rows.size() * sparse[i].columns * element);
    impl->tables.push_back(impl->part_of(values));
    impl->parsed->sparse[i].values = impl->tables.back().bytes;
    tables[i].adoptValues(std::move(values));
  }
  return GradientBuilder(std::move(impl));
}

bool GradientBuilder::write(std::span<const float> values, float scale) {
  return impl_->append(impl_->dense, values, scale);
}

bool GradientBuilder::write_rows(std::size_t table, std::span<const float> values, float scale) {
  return impl_->append(impl_->tables[table], values, scale);
}

Frame GradientBuilder::finish(const GradientInfo& info) && {
  const std::unique_ptr<Impl> impl = std::move(impl_);
  const auto full = [](const Impl::Part& part) { return part.written == part.bytes.size(); };
  TROUPE_CHECK(full(impl->dense) && std::ranges::all_of(impl->tables, full), "a gradient was not written to its end");
  const Status valid = check(info, "gradient");
  TROUPE_CHECK(valid.ok(), "{}", valid.error().message);
  impl->message.setWorker(info.worker);
  impl->message.setVersion(info.version);
  impl->message.setSamples(info.samples);
  impl->message.setModelHash(info.model_hash);
  impl->message.setPiece(info.piece);
  impl->message.setPieces(info.pieces);
  impl->parsed->info = info;
  return std::move(impl->writer).finish(std::move(impl->parsed));
}

std::string_view to_string(GradientOutcome outcome) {
  switch (outcome) {
    case GradientOutcome::kApplied:
      return "applied";
    case GradientOutcome::kTaken:
      return "taken";
    case GradientOutcome::kStale:
      return "stale";
    case GradientOutcome::kUnknown:
      return "unknown";
    case GradientOutcome::kFinished:
      return "finished";
  }
  return "unknown";
}

Result<Frame> make_gradient_answer(FramePool& pool, const GradientAnswer& answer) {
  TROUPE_TRY(check_version(answer.version, "gradient answer"));
  TROUPE_ASSIGN(MessageWriter writer, MessageWriter::make(pool, kSmallWords, 0, 0));
  auto message = writer.root().initGradientAnswer();
  message.setOutcome(static_cast<schema::GradientAnswer::Outcome>(answer.outcome));
  message.setVersion(answer.version);
  return std::move(writer).finish(nullptr);
}

Result<GradientAnswer> read_gradient_answer(const Frame& frame) {
  return open_message(
      frame.bytes(), Kind::kGradientAnswer, [](schema::Envelope::Reader root) -> Result<GradientAnswer> {
        const auto message = root.getGradientAnswer();
        const auto outcome = static_cast<std::uint16_t>(message.getOutcome());
        if (outcome > static_cast<std::uint16_t>(GradientOutcome::kFinished)) {
          return Error{Code::kInvalidArgument, fmt::format("gradient answer: got unknown outcome {}", outcome)};
        }
        TROUPE_TRY(check_version(message.getVersion(), "gradient answer"));
        return GradientAnswer{static_cast<GradientOutcome>(outcome), message.getVersion()};
      });
}

Result<Frame> make_parameters_pull(FramePool& pool, const ParametersPull& pull) {
  TROUPE_TRY(check_version(pull.at_least, "parameters pull"));
  TROUPE_ASSIGN(MessageWriter writer, MessageWriter::make(pool, kSmallWords, 0, 0));
  auto message = writer.root().initParametersPull();
  message.setWorker(pull.worker);
  message.setAtLeast(pull.at_least);
  message.setModelHash(pull.model_hash);
  return std::move(writer).finish(nullptr);
}

Result<ParametersPull> read_parameters_pull(const Frame& frame) {
  return open_message(frame.bytes(), Kind::kParametersPull,
                      [](schema::Envelope::Reader root) -> Result<ParametersPull> {
                        const auto message = root.getParametersPull();
                        TROUPE_TRY(check_version(message.getAtLeast(), "parameters pull"));
                        return ParametersPull{message.getWorker(), message.getAtLeast(), message.getModelHash()};
                      });
}

void from_bf16(std::span<const std::uint16_t> from, std::span<float> to) {
  TROUPE_CHECK(from.size() == to.size(), "{} bfloat16 values for {}", from.size(), to.size());
  for (std::size_t i = 0; i < from.size(); ++i) {
    to[i] = std::bit_cast<float>(static_cast<std::uint32_t>(from[i]) << 16);
  }
}

}  // namespace troupe::messages
