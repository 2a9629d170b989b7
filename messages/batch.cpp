#include <troupe/messages/batch.hpp>

#include <algorithm>

#include <troupe/messages/detail/wire.hpp>

namespace troupe::messages {
namespace {

struct Content final : Parsed {
  Content() : Parsed(Kind::kBatch) {}
  SampledBatchInfo info;
  std::shared_ptr<const Signature> signature;  // keeps columns.signature alive
  BatchView columns;
  SampledBatchView::Rows rows;
};

const Content& content(const Parsed* parsed) { return *static_cast<const Content*>(parsed); }

/// Of rows that are sequences.
Status check_lengths(std::span<const std::int32_t> lengths, const Signature& signature, const std::string& where) {
  const std::int64_t longest = signature[0].shape.rank() == 0 ? 0 : signature[0].shape[0];
  for (const TensorSpec& column : signature) {
    if (column.shape.rank() != 0 && column.shape[0] == longest) continue;
    return Error{Code::kInvalidArgument, fmt::format("{}: column {} of sequences, expected [steps, ...], as many steps "
                                                     "as in the others",
                                                     where, column.to_string())};
  }
  for (const std::int32_t length : lengths) {
    if (length >= 1 && length <= longest) continue;
    return Error{Code::kInvalidArgument,
                 fmt::format("{}: got a sequence of {} steps, expected 1..{}", where, length, longest)};
  }
  return {};
}

Result<std::unique_ptr<const Parsed>> validate(schema::Envelope::Reader root) {
  const auto message = root.getBatch();
  auto result = std::make_unique<Content>();
  result->info = {.sequence = message.getSequence(),
                  .table_items = message.getTableItems(),
                  .table_mass = message.getTableMass(),
                  .table_bytes = message.getTableBytes(),
                  .table_inserts = message.getTableInserts(),
                  .table_samples = message.getTableSamples(),
                  .table_evictions = message.getTableEvictions()};
  const std::string where = fmt::format("batch {}", result->info.sequence);
  const SampledBatchInfo& info = result->info;
  for (const auto& [what, count] : {std::pair{"items", info.table_items},
                                    {"bytes", info.table_bytes},
                                    {"inserts", info.table_inserts},
                                    {"samples", info.table_samples},
                                    {"evictions", info.table_evictions}}) {
    if (count >= 0) continue;
    return Error{Code::kInvalidArgument, fmt::format("{}: got {} table {}, expected >= 0", where, count, what)};
  }
  if (!(result->info.table_mass >= 0) || !std::isfinite(result->info.table_mass)) {
    return Error{Code::kInvalidArgument, fmt::format("{}: got a table mass of {}, expected it finite and >= 0", where,
                                                     result->info.table_mass)};
  }
  TROUPE_ASSIGN(ReadColumns columns, read_columns(message.getColumns(), message.getRows(), where));
  result->signature = std::move(columns.signature);
  result->columns = std::move(columns.view);
  const auto count = static_cast<std::size_t>(result->columns.rows);
  SampledBatchView::Rows& rows = result->rows;
  TROUPE_ASSIGN(rows.keys, elements_of<std::uint64_t>(message.getKeys(), count, where + ": keys"));
  TROUPE_ASSIGN(rows.probabilities, elements_of<double>(message.getProbabilities(), count, where + ": probabilities"));
  TROUPE_ASSIGN(rows.priorities, elements_of<double>(message.getPriorities(), count, where + ": priorities"));
  TROUPE_ASSIGN(rows.times_sampled,
                elements_of<std::int32_t>(message.getTimesSampled(), count, where + ": timesSampled"));
  TROUPE_ASSIGN(rows.parameters_versions,
                elements_of<std::int64_t>(message.getParametersVersions(), count, where + ": parametersVersions"));
  TROUPE_TRY(check_priorities(rows.priorities, where + ": priorities"));
  for (double probability : rows.probabilities) {
    // Importance weights divide by it.
    if (!(probability > 0 && probability <= 1)) {
      return Error{Code::kInvalidArgument,
                   fmt::format("{}: got probability {}, expected 0 < p <= 1", where, probability)};
    }
  }
  if (message.getLengths().size() != 0) {
    TROUPE_ASSIGN(rows.lengths, elements_of<std::int32_t>(message.getLengths(), count, where + ": lengths"));
    TROUPE_TRY(check_lengths(rows.lengths, *result->signature, where));
  }
  return std::unique_ptr<const Parsed>(std::move(result));
}

}  // namespace

const SampledBatchInfo& SampledBatchView::info() const { return content(parsed_).info; }
const BatchView& SampledBatchView::columns() const { return content(parsed_).columns; }
const SampledBatchView::Rows& SampledBatchView::rows() const { return content(parsed_).rows; }

Result<SampledBatchView> read_batch(const Frame& frame) {
  TROUPE_ASSIGN(const Parsed* parsed, parsed_once(frame, Kind::kBatch, validate));
  return SampledBatchView(frame, parsed);
}

struct SampledBatchBuilder::Impl {
  Impl(MessageWriter message_writer, std::shared_ptr<const Signature> shared_signature)
      : writer(std::move(message_writer)), message(writer.root().initBatch()), signature(std::move(shared_signature)) {}

  MessageWriter writer;
  schema::Batch::Builder message;
  std::shared_ptr<const Signature> signature;
  MutableBatchView columns;
  Rows rows;
};

SampledBatchBuilder::SampledBatchBuilder(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
SampledBatchBuilder::SampledBatchBuilder(SampledBatchBuilder&&) noexcept = default;
SampledBatchBuilder& SampledBatchBuilder::operator=(SampledBatchBuilder&&) noexcept = default;
SampledBatchBuilder::~SampledBatchBuilder() = default;

Result<SampledBatchBuilder> SampledBatchBuilder::make(FramePool& pool, std::shared_ptr<const Signature> signature,
                                                      std::int64_t rows, bool sequences) {
  TROUPE_TRY(check_columns(*signature, rows, "batch"));
  const auto count = static_cast<std::size_t>(rows);
  const auto size = static_cast<unsigned>(rows);
  constexpr std::size_t kStructWords = 21;  // root pointer, Envelope, Batch
  constexpr std::size_t kRowLists = 6;      // at most one word a row each
  TROUPE_ASSIGN(MessageWriter writer,
                MessageWriter::make(pool, kStructWords + column_head_words(*signature) + kRowLists * count,
                                    row_bytes(*signature) * count, signature->size()));
  auto impl = std::make_unique<Impl>(std::move(writer), std::move(signature));
  auto columns = impl->message.initColumns(static_cast<unsigned>(impl->signature->size()));
  write_specs(columns, *impl->signature);
  impl->rows = {elements_of<std::uint64_t>(impl->message.initKeys(size)),
                elements_of<double>(impl->message.initProbabilities(size)),
                elements_of<double>(impl->message.initPriorities(size)),
                elements_of<std::int32_t>(impl->message.initTimesSampled(size)),
                elements_of<std::int64_t>(impl->message.initParametersVersions(size)),
                {}};
  if (sequences) impl->rows.lengths = elements_of<std::int32_t>(impl->message.initLengths(size));
  std::ranges::fill(impl->rows.parameters_versions, -1);
  impl->columns = lay_out_columns(impl->writer, columns, *impl->signature, rows);
  return SampledBatchBuilder(std::move(impl));
}

const MutableBatchView& SampledBatchBuilder::columns() const { return impl_->columns; }
const SampledBatchBuilder::Rows& SampledBatchBuilder::rows() const { return impl_->rows; }

Frame SampledBatchBuilder::finish(const SampledBatchInfo& info) && {
  const std::unique_ptr<Impl> impl = std::move(impl_);
  impl->message.setSequence(info.sequence);
  impl->message.setTableItems(info.table_items);
  impl->message.setTableMass(info.table_mass);
  impl->message.setTableBytes(info.table_bytes);
  impl->message.setTableInserts(info.table_inserts);
  impl->message.setTableSamples(info.table_samples);
  impl->message.setTableEvictions(info.table_evictions);
  impl->message.setRows(impl->columns.rows);
  auto content = std::make_unique<Content>();
  content->info = info;
  content->signature = impl->signature;
  content->columns = impl->columns.view();
  content->rows = {impl->rows.keys,          impl->rows.probabilities,       impl->rows.priorities,
                   impl->rows.times_sampled, impl->rows.parameters_versions, impl->rows.lengths};
  return std::move(impl->writer).finish(std::move(content));
}

}  // namespace troupe::messages
