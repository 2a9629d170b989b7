#include <troupe/messages/trajectory.hpp>

#include <algorithm>
#include <cstring>
#include <optional>
#include <utility>

#include <troupe/core/round_up.hpp>
#include <troupe/core/stacks.hpp>
#include <troupe/messages/detail/wire.hpp>

namespace troupe::messages {
namespace {

constexpr std::size_t kColumnAlignment = 64;

struct Content final : Parsed {
  Content() : Parsed(Kind::kTrajectory) {}
  TrajectoryInfo info;
  std::shared_ptr<const Signature> signature;  // of whole rows; keeps rows.signature alive
  std::shared_ptr<const Stacks> stacks;        // of split rows the same
  BatchView rows;
  std::span<const double> priorities;
};

const Content& content(const Parsed* parsed) { return *static_cast<const Content*>(parsed); }

/// The signature of whole rows, of which `rows` has the split one.
Result<Signature> read_stacks(capnp::List<schema::Trajectory::Stack>::Reader stacks, const BatchView& rows,
                              const std::string& where) {
  Signature whole = *rows.signature;
  std::int64_t before = -1;
  for (unsigned i = 0; i < stacks.size(); ++i) {
    const std::string stack = fmt::format("{}: stack {}", where, i);
    const std::int64_t column = stacks[i].getColumn();
    if (column <= before || column >= static_cast<std::int64_t>(whole.size())) {
      return Error{Code::kInvalidArgument, fmt::format("{}: of column {}, expected one from {} to {}", stack, column,
                                                       before + 1, whole.size() - 1)};
    }
    before = column;
    TensorSpec& places = whole[static_cast<std::size_t>(column)];
    TROUPE_ASSIGN(TensorSpec spec, read_spec(stacks[i].getSpec(), stack));
    if (places.dtype != DType::kI32 || places.shape.rank() != 1 || places.shape[0] < 2 || spec.name != places.name) {
      return Error{Code::kInvalidArgument,
                   fmt::format("{}: {} has its places in {}, expected int32[planes] of its name", stack,
                               spec.to_string(), places.to_string())};
    }
    spec.stack = {.planes = places.shape[0], .axis = stacks[i].getAxis()};
    places = std::move(spec);
  }
  TROUPE_TRY(check_columns(whole, rows.rows, where));
  TROUPE_TRY(check_stacks(whole, where));
  return whole;
}

/// Makes result.rows split ones. Errors: kInvalidArgument.
Status read_planes(schema::Trajectory::Reader message, const std::string& where, Content& result) {
  TROUPE_ASSIGN(Signature whole, read_stacks(message.getStacks(), result.rows, where));
  result.signature = std::make_shared<const Signature>(whole);
  result.stacks = std::make_shared<const Stacks>(std::move(whole));
  result.rows.signature = &result.stacks->split();
  for (const capnp::Data::Reader data : message.getPlanes()) {
    result.rows.planes.emplace_back(reinterpret_cast<const std::byte*>(data.begin()), data.size());
  }
  TROUPE_TRY(result.stacks->check_planes(result.rows, where));
  for (const Stacks::Column& column : result.stacks->columns()) {
    TROUPE_TRY(check_finite((*result.signature)[column.index], result.rows.planes[column.pool], where));
  }
  return {};
}

Result<std::unique_ptr<const Parsed>> validate(schema::Envelope::Reader root) {
  const auto message = root.getTrajectory();
  auto result = std::make_unique<Content>();
  result->info = {message.getProducer(), message.getIncarnation(), message.getSequence(),
                  message.getParametersVersion(), message.getEnvSteps()};
  const std::string where = fmt::format("trajectory {} of producer {}", result->info.sequence, result->info.producer);
  if (result->info.env_steps < 0) {
    return Error{Code::kInvalidArgument,
                 fmt::format("{}: got {} env steps, expected >= 0", where, result->info.env_steps)};
  }
  TROUPE_ASSIGN(ReadColumns columns, read_columns(message.getColumns(), message.getRows(), where));
  result->signature = std::move(columns.signature);
  result->rows = std::move(columns.view);
  if (message.getStacks().size() != 0) TROUPE_TRY(read_planes(message, where, *result));
  if (message.getPriorities().size() != 0) {
    TROUPE_ASSIGN(result->priorities,
                  elements_of<double>(message.getPriorities(), static_cast<std::size_t>(result->rows.rows),
                                      where + ": priorities"));
    TROUPE_TRY(check_priorities(result->priorities, where + ": priorities"));
  }
  return std::unique_ptr<const Parsed>(std::move(result));
}

}  // namespace

const TrajectoryInfo& TrajectoryView::info() const { return content(parsed_).info; }
const BatchView& TrajectoryView::rows() const { return content(parsed_).rows; }
const Signature& TrajectoryView::signature() const { return *content(parsed_).signature; }
std::span<const double> TrajectoryView::priorities() const { return content(parsed_).priorities; }

Result<TrajectoryView> read_trajectory(const Frame& frame) {
  TROUPE_ASSIGN(const Parsed* parsed, parsed_once(frame, Kind::kTrajectory, validate));
  return TrajectoryView(frame, parsed);
}

struct TrajectoryBuilder::Impl {
  Impl(MessageWriter message_writer, std::shared_ptr<const Signature> shared_signature)
      : writer(std::move(message_writer)),
        message(writer.root().initTrajectory()),
        signature(std::move(shared_signature)) {}

  MessageWriter writer;
  schema::Trajectory::Builder message;
  std::shared_ptr<const Signature> signature;
  MutableBatchView rows;
  std::span<double> priorities;
  // Of rows that are to be split: how, and where they are whole until then.
  std::shared_ptr<const Stacks> stacks;
  std::optional<FrameBuffer> whole;
};

TrajectoryBuilder::TrajectoryBuilder(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
TrajectoryBuilder::TrajectoryBuilder(TrajectoryBuilder&&) noexcept = default;
TrajectoryBuilder& TrajectoryBuilder::operator=(TrajectoryBuilder&&) noexcept = default;
TrajectoryBuilder::~TrajectoryBuilder() = default;

namespace {

/// Words of what says which columns are stacks, beside the columns themselves.
std::size_t stack_head_words(const Stacks& stacks) {
  if (!stacks.any()) return 0;
  std::size_t words = 2 + stacks.pools().size();  // both lists
  for (const Stacks::Column& column : stacks.columns()) {
    const TensorSpec& spec = stacks.whole()[column.index];
    words += 2 + 3 + text_words(spec.name.size()) + static_cast<std::size_t>(spec.shape.rank());
  }
  return words;
}

void write_stacks(schema::Trajectory::Builder message, const Stacks& stacks) {
  auto list = message.initStacks(static_cast<unsigned>(stacks.columns().size()));
  for (unsigned i = 0; i < list.size(); ++i) {
    const std::size_t column = stacks.columns()[i].index;
    list[i].setColumn(static_cast<std::uint32_t>(column));
    write_spec(list[i].initSpec(), stacks.whole()[column]);
    list[i].setAxis(stacks.whole()[column].stack.axis);
  }
  message.initPlanes(static_cast<unsigned>(stacks.pools().size()));
}

/// Memory for so many whole rows, column by column, each aligned to 64 bytes.
MutableBatchView lay_out_rows(std::span<std::byte> bytes, const Signature& signature, std::int64_t rows) {
  MutableBatchView view{&signature, rows, {}};
  for (const TensorSpec& spec : signature) {
    const std::size_t column = spec.bytes() * static_cast<std::size_t>(rows);
    view.columns.push_back(bytes.first(column));
    bytes = bytes.subspan(round_up(column, kColumnAlignment));
  }
  return view;
}

std::size_t laid_out_bytes(const Signature& signature, std::int64_t rows) {
  std::size_t bytes = 0;
  for (const TensorSpec& spec : signature) {
    bytes += round_up(spec.bytes() * static_cast<std::size_t>(rows), kColumnAlignment);
  }
  return bytes;
}

}  // namespace

Result<TrajectoryBuilder> TrajectoryBuilder::make(FramePool& pool, const TrajectoryOptions& options) {
  const Signature& signature = *options.signature;
  TROUPE_TRY(check_columns(signature, options.max_rows, "trajectory"));
  TROUPE_TRY(check_stacks(signature, "trajectory"));
  const auto stacks = std::make_shared<const Stacks>(signature);
  const auto rows = static_cast<std::size_t>(options.max_rows);
  constexpr std::size_t kStructWords = 20;  // root pointer, Envelope, Trajectory
  const std::size_t head_words = kStructWords + column_head_words(signature) + stack_head_words(*stacks);
  // Split rows have no more bytes than whole ones, but for the places.
  const std::size_t places = stacks->any() ? row_bytes(stacks->split()) : 0;
  TROUPE_ASSIGN(MessageWriter writer,
                MessageWriter::make(pool, head_words + (options.priorities ? rows : 0),
                                    (row_bytes(signature) + places) * rows, signature.size() + stacks->pools().size()));
  auto impl = std::make_unique<Impl>(std::move(writer), options.signature);
  auto columns = impl->message.initColumns(static_cast<unsigned>(signature.size()));
  write_specs(columns, stacks->split());
  if (stacks->any()) write_stacks(impl->message, *stacks);
  if (options.priorities) {
    impl->priorities = elements_of<double>(impl->message.initPriorities(static_cast<unsigned>(rows)));
  }
  if (stacks->any()) {
    impl->stacks = stacks;
    TROUPE_ASSIGN(impl->whole, pool.allocate(laid_out_bytes(signature, options.max_rows)));
    impl->rows = lay_out_rows(impl->whole->bytes(), signature, options.max_rows);
  } else {
    impl->rows = lay_out_columns(impl->writer, columns, signature, options.max_rows);
  }
  return TrajectoryBuilder(std::move(impl));
}

const MutableBatchView& TrajectoryBuilder::rows() const { return impl_->rows; }
std::span<double> TrajectoryBuilder::priorities() { return impl_->priorities; }

/// Writes the first `rows` whole rows into the message, split. Returns them as they lie there.
BatchView TrajectoryBuilder::write_split(Impl& impl, std::int64_t rows) {
  StackSplitter splitter(*impl.stacks);
  const BatchView split = splitter.split(impl.rows.view().slice(0, rows));
  const MutableBatchView there = lay_out_columns(impl.writer, impl.message.getColumns(), impl.stacks->split(), rows);
  for (std::size_t c = 0; c < there.columns.size(); ++c) std::ranges::copy(split.columns[c], there.columns[c].begin());
  BatchView written = there.view();
  for (unsigned p = 0; p < split.planes.size(); ++p) {
    auto data = impl.writer.aligned_data(split.planes[p].size());
    std::memcpy(data.get().begin(), split.planes[p].data(), split.planes[p].size());
    written.planes.emplace_back(reinterpret_cast<const std::byte*>(data.get().begin()), data.get().size());
    impl.message.getPlanes().adopt(p, std::move(data));
  }
  return written;
}

Frame TrajectoryBuilder::finish(const TrajectoryInfo& info, std::int64_t rows) && {
  const std::unique_ptr<Impl> impl = std::move(impl_);
  TROUPE_CHECK(rows >= 0 && rows <= impl->rows.rows, "trajectory of {} rows in room for {}", rows, impl->rows.rows);
  auto message = impl->message;
  message.setProducer(info.producer);
  message.setIncarnation(info.incarnation);
  message.setSequence(info.sequence);
  message.setParametersVersion(info.parameters_version);
  message.setEnvSteps(info.env_steps);
  message.setRows(rows);

  auto content = std::make_unique<Content>();
  content->info = info;
  content->signature = impl->signature;
  content->stacks = impl->stacks;
  content->rows = impl->stacks ? write_split(*impl, rows) : impl->rows.view();
  content->rows.rows = rows;
  content->priorities = impl->priorities.first(impl->priorities.empty() ? 0 : static_cast<std::size_t>(rows));
  if (rows < impl->rows.rows) {
    // The unused tail of each column stays in the message as cleared words; only the last column's is given back.
    auto columns = message.getColumns();
    for (unsigned i = columns.size(); !impl->stacks && i-- > 0;) {
      const std::size_t bytes = (*impl->signature)[i].bytes() * static_cast<std::size_t>(rows);
      auto data = columns[i].disownData();
      data.truncate(static_cast<unsigned>(bytes));
      columns[i].adoptData(std::move(data));
      content->rows.columns[i] = content->rows.columns[i].first(bytes);
    }
    if (!impl->priorities.empty()) {
      auto priorities = message.disownPriorities();
      priorities.truncate(static_cast<unsigned>(rows));
      message.adoptPriorities(std::move(priorities));
    }
  }
  return std::move(impl->writer).finish(std::move(content));
}

}  // namespace troupe::messages
