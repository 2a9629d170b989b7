#include <troupe/messages/trajectory.hpp>

#include <troupe/messages/detail/wire.hpp>

namespace troupe::messages {
namespace {

struct Content final : Parsed {
  Content() : Parsed(Kind::kTrajectory) {}
  TrajectoryInfo info;
  std::shared_ptr<const Signature> signature;  // keeps rows.signature alive
  BatchView rows;
  std::span<const double> priorities;
};

const Content& content(const Parsed* parsed) { return *static_cast<const Content*>(parsed); }

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
};

TrajectoryBuilder::TrajectoryBuilder(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
TrajectoryBuilder::TrajectoryBuilder(TrajectoryBuilder&&) noexcept = default;
TrajectoryBuilder& TrajectoryBuilder::operator=(TrajectoryBuilder&&) noexcept = default;
TrajectoryBuilder::~TrajectoryBuilder() = default;

Result<TrajectoryBuilder> TrajectoryBuilder::make(FramePool& pool, const TrajectoryOptions& options) {
  const Signature& signature = *options.signature;
  TROUPE_TRY(check_columns(signature, options.max_rows, "trajectory"));
  const auto rows = static_cast<std::size_t>(options.max_rows);
  constexpr std::size_t kStructWords = 16;  // root pointer, Envelope, Trajectory
  TROUPE_ASSIGN(MessageWriter writer,
                MessageWriter::make(pool, kStructWords + column_head_words(signature) + (options.priorities ? rows : 0),
                                    row_bytes(signature) * rows, signature.size()));
  auto impl = std::make_unique<Impl>(std::move(writer), options.signature);
  auto columns = impl->message.initColumns(static_cast<unsigned>(signature.size()));
  write_specs(columns, signature);
  if (options.priorities) {
    impl->priorities = elements_of<double>(impl->message.initPriorities(static_cast<unsigned>(rows)));
  }
  impl->rows = lay_out_columns(impl->writer, columns, signature, options.max_rows);
  return TrajectoryBuilder(std::move(impl));
}

const MutableBatchView& TrajectoryBuilder::rows() const { return impl_->rows; }
std::span<double> TrajectoryBuilder::priorities() { return impl_->priorities; }

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
  content->rows = impl->rows.view();
  content->rows.rows = rows;
  content->priorities = impl->priorities.first(impl->priorities.empty() ? 0 : static_cast<std::size_t>(rows));
  if (rows < impl->rows.rows) {
    // The unused tail of each column stays in the message as cleared words; only the last column's is given back.
    auto columns = message.getColumns();
    for (unsigned i = columns.size(); i-- > 0;) {
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
