#include <troupe/messages/reports.hpp>

#include <troupe/messages/detail/wire.hpp>

namespace troupe::messages {
namespace {

constexpr std::size_t kStructWords = 24;  // root pointer, Envelope and any of the structs here
constexpr std::size_t kMaxScalars = 65536;

/// Texts are checked when they are made, so that nobody sends what every reader refuses.
Status check_text(const std::string& text, std::string_view what) {
  if (text.size() > kMaxTextBytes || text.find('\0') != std::string::npos) {
    return Error{Code::kInvalidArgument,
                 fmt::format("{}: got {} bytes, expected at most {} without NUL", what, text.size(), kMaxTextBytes)};
  }
  return {};
}

Status check_not_negative(std::int64_t value, std::string_view what) {
  if (value >= 0) return {};
  return Error{Code::kInvalidArgument, fmt::format("{}: got {}, expected >= 0", what, value)};
}

kj::StringPtr text(const std::string& value) { return {value.c_str(), value.size()}; }

Status check(const PriorityUpdate& update) {
  if (update.keys.size() != update.priorities.size() || update.keys.size() > static_cast<std::size_t>(kMaxRows)) {
    return Error{Code::kInvalidArgument,
                 fmt::format("priority update: got {} keys and {} priorities, expected as many, at most {}",
                             update.keys.size(), update.priorities.size(), kMaxRows)};
  }
  if (update.deletes.size() > static_cast<std::size_t>(kMaxRows)) {
    return Error{Code::kInvalidArgument,
                 fmt::format("priority update: got {} deletes, expected at most {}", update.deletes.size(), kMaxRows)};
  }
  TROUPE_TRY(check_text(update.table, "priority update: table"));
  return check_priorities(update.priorities, "priority update: priorities");
}

Status check(const EpisodeReport& report) {
  TROUPE_TRY(check_text(report.role, "episode: role"));
  TROUPE_TRY(check_not_negative(report.steps, "episode: steps"));
  if (!std::isfinite(report.episode_return)) {
    return Error{Code::kInvalidArgument,
                 fmt::format("episode: got return {}, expected a finite value", report.episode_return)};
  }
  return {};
}

Status check(const EvaluationReport& report) {
  TROUPE_TRY(check_text(report.source, "evaluation: source"));
  TROUPE_TRY(check_not_negative(report.version, "evaluation: version"));
  if (report.values.size() > kMostValues) {
    return Error{Code::kInvalidArgument,
                 fmt::format("evaluation: got {} values, expected at most {}", report.values.size(), kMostValues)};
  }
  for (const Scalar& value : report.values) {
    TROUPE_TRY(check_text(value.name, "evaluation: name of a value"));
    if (std::ranges::count(report.values, value.name, &Scalar::name) > 1) {
      return Error{Code::kInvalidArgument, fmt::format("evaluation: got two values named \"{}\"", value.name)};
    }
  }
  return {};
}

Status check(const ParametersUse& use) {
  TROUPE_TRY(check_not_negative(use.version, "parameters use: version"));
  return check_not_negative(use.env_steps, "parameters use: env_steps");
}

Status check_steps(std::int64_t value, std::string_view what) {
  if (value >= 0 && value <= kMostSteps) return {};
  return Error{Code::kInvalidArgument, fmt::format("{}: got {}, expected 0..{}", what, value, kMostSteps)};
}

Status check(const StepsRequest& request) {
  TROUPE_TRY(check_steps(request.taken, "steps request: taken"));
  TROUPE_TRY(check_steps(request.allowed, "steps request: allowed"));
  return check_steps(request.wanted, "steps request: wanted");
}

Status check(const SampleRequest& request) {
  TROUPE_TRY(check_text(request.table, "sample request: table"));
  if (request.rows >= 0 && request.rows <= kMostSampleRows) return {};
  return Error{Code::kInvalidArgument,
               fmt::format("sample request: rows: got {}, expected 0..{}", request.rows, kMostSampleRows)};
}

Status check(const StepsGrant& grant) {
  TROUPE_TRY(check_steps(grant.taken, "steps grant: taken"));
  return check_steps(grant.allowed, "steps grant: allowed");
}

/// Words that a list of scalars takes.
std::size_t scalar_words(const std::vector<Scalar>& scalars) {
  std::size_t words = 0;
  for (const Scalar& scalar : scalars) words += 2 + text_words(scalar.name.size());
  return words;
}

void write_scalars(capnp::List<schema::Metrics::Scalar>::Builder list, const std::vector<Scalar>& scalars) {
  for (unsigned i = 0; i < list.size(); ++i) {
    list[i].setName(text(scalars[i].name));
    list[i].setValue(scalars[i].value);
  }
}

Result<std::vector<Scalar>> read_scalars(capnp::List<schema::Metrics::Scalar>::Reader list, std::size_t most,
                                         std::string_view what) {
  if (list.size() > most) {
    return Error{Code::kInvalidArgument,
                 fmt::format("{}: got {} of them, expected at most {}", what, list.size(), most)};
  }
  std::vector<Scalar> scalars;
  scalars.reserve(list.size());
  for (const auto scalar : list) {
    TROUPE_ASSIGN(std::string name, text_of(scalar.getName(), kMaxTextBytes, what));
    scalars.push_back({std::move(name), scalar.getValue()});
  }
  return scalars;
}

Status check(const MetricRow& row) {
  if (row.scalars.size() > kMaxScalars) {
    return Error{Code::kInvalidArgument,
                 fmt::format("metrics: got {} scalars, expected at most {}", row.scalars.size(), kMaxScalars)};
  }
  if (!(std::isfinite(row.wall_s) && row.wall_s >= 0)) {
    return Error{Code::kInvalidArgument, fmt::format("metrics: got wall time {} s, expected >= 0", row.wall_s)};
  }
  TROUPE_TRY(check_not_negative(row.env_steps, "metrics: env_steps"));
  TROUPE_TRY(check_not_negative(row.learner_steps, "metrics: learner_steps"));
  for (const Scalar& scalar : row.scalars) TROUPE_TRY(check_text(scalar.name, "metrics: name of a scalar"));
  return {};
}

}  // namespace

Result<Frame> make_priorities(FramePool& pool, const PriorityUpdate& update) {
  TROUPE_TRY(check(update));
  const std::size_t words =
      kStructWords + 2 * update.keys.size() + update.deletes.size() + text_words(update.table.size());
  TROUPE_ASSIGN(MessageWriter writer, MessageWriter::make(pool, words, 0, 0));
  auto message = writer.root().initPriorities();
  const auto count = static_cast<unsigned>(update.keys.size());
  std::ranges::copy(update.keys, elements_of<std::uint64_t>(message.initKeys(count)).begin());
  std::ranges::copy(update.priorities, elements_of<double>(message.initPriorities(count)).begin());
  if (!update.table.empty()) message.setTable(text(update.table));
  if (!update.deletes.empty()) {
    const auto deletes = message.initDeletes(static_cast<unsigned>(update.deletes.size()));
    std::ranges::copy(update.deletes, elements_of<std::uint64_t>(deletes).begin());
  }
  message.setReset(update.reset);
  return std::move(writer).finish(nullptr);
}

Result<PriorityUpdate> read_priorities(const Frame& frame) {
  return open_message(frame.bytes(), Kind::kPriorities, [](schema::Envelope::Reader root) -> Result<PriorityUpdate> {
    const auto message = root.getPriorities();
    const std::size_t count = message.getKeys().size();
    TROUPE_ASSIGN(const auto keys, elements_of<std::uint64_t>(message.getKeys(), count, "priority update: keys"));
    TROUPE_ASSIGN(const auto priorities,
                  elements_of<double>(message.getPriorities(), count, "priority update: priorities"));
    TROUPE_ASSIGN(std::string table, text_of(message.getTable(), kMaxTextBytes, "priority update: table"));
    TROUPE_ASSIGN(const auto deletes, elements_of<std::uint64_t>(message.getDeletes(), message.getDeletes().size(),
                                                                 "priority update: deletes"));
    PriorityUpdate update{{keys.begin(), keys.end()},
                          {priorities.begin(), priorities.end()},
                          std::move(table),
                          {deletes.begin(), deletes.end()},
                          message.getReset()};
    TROUPE_TRY(check(update));
    return update;
  });
}

Result<Frame> make_episode(FramePool& pool, const EpisodeReport& report) {
  TROUPE_TRY(check(report));
  TROUPE_ASSIGN(MessageWriter writer, MessageWriter::make(pool, kStructWords + text_words(report.role.size()), 0, 0));
  auto message = writer.root().initEpisode();
  message.setRole(text(report.role));
  message.setProducer(report.producer);
  message.setEpisodeReturn(report.episode_return);
  message.setSteps(report.steps);
  message.setParametersVersion(report.parameters_version);
  return std::move(writer).finish(nullptr);
}

Result<EpisodeReport> read_episode(const Frame& frame) {
  return open_message(frame.bytes(), Kind::kEpisode, [](schema::Envelope::Reader root) -> Result<EpisodeReport> {
    const auto message = root.getEpisode();
    EpisodeReport report;
    TROUPE_ASSIGN(report.role, text_of(message.getRole(), kMaxTextBytes, "episode: role"));
    report.producer = message.getProducer();
    report.episode_return = message.getEpisodeReturn();
    report.steps = message.getSteps();
    report.parameters_version = message.getParametersVersion();
    TROUPE_TRY(check(report));
    return report;
  });
}

Result<Frame> make_evaluation(FramePool& pool, const EvaluationReport& report) {
  TROUPE_TRY(check(report));
  const std::size_t words = kStructWords + text_words(report.source.size()) + scalar_words(report.values);
  TROUPE_ASSIGN(MessageWriter writer, MessageWriter::make(pool, words, 0, 0));
  auto message = writer.root().initEvaluation();
  message.setSource(text(report.source));
  message.setVersion(report.version);
  write_scalars(message.initValues(static_cast<unsigned>(report.values.size())), report.values);
  return std::move(writer).finish(nullptr);
}

Result<EvaluationReport> read_evaluation(const Frame& frame) {
  return open_message(frame.bytes(), Kind::kEvaluation, [](schema::Envelope::Reader root) -> Result<EvaluationReport> {
    const auto message = root.getEvaluation();
    EvaluationReport report;
    TROUPE_ASSIGN(report.source, text_of(message.getSource(), kMaxTextBytes, "evaluation: source"));
    report.version = message.getVersion();
    TROUPE_ASSIGN(report.values, read_scalars(message.getValues(), kMostValues, "evaluation: values"));
    TROUPE_TRY(check(report));
    return report;
  });
}

Result<Frame> make_parameters_use(FramePool& pool, const ParametersUse& use) {
  TROUPE_TRY(check(use));
  TROUPE_ASSIGN(MessageWriter writer, MessageWriter::make(pool, kStructWords, 0, 0));
  auto message = writer.root().initParametersUse();
  message.setProducer(use.producer);
  message.setVersion(use.version);
  message.setEnvSteps(use.env_steps);
  return std::move(writer).finish(nullptr);
}

Result<ParametersUse> read_parameters_use(const Frame& frame) {
  return open_message(frame.bytes(), Kind::kParametersUse, [](schema::Envelope::Reader root) -> Result<ParametersUse> {
    const auto message = root.getParametersUse();
    ParametersUse use{message.getProducer(), message.getVersion(), message.getEnvSteps()};
    TROUPE_TRY(check(use));
    return use;
  });
}

Result<Frame> make_parameters_version(FramePool& pool, const ParametersVersion& newest) {
  TROUPE_TRY(check_not_negative(newest.version, "parameters version: version"));
  TROUPE_ASSIGN(MessageWriter writer, MessageWriter::make(pool, kStructWords, 0, 0));
  writer.root().initParametersVersion().setVersion(newest.version);
  return std::move(writer).finish(nullptr);
}

Result<ParametersVersion> read_parameters_version(const Frame& frame) {
  return open_message(frame.bytes(), Kind::kParametersVersion,
                      [](schema::Envelope::Reader root) -> Result<ParametersVersion> {
                        const ParametersVersion newest{root.getParametersVersion().getVersion()};
                        TROUPE_TRY(check_not_negative(newest.version, "parameters version: version"));
                        return newest;
                      });
}

Result<Frame> make_steps_request(FramePool& pool, const StepsRequest& request) {
  TROUPE_TRY(check(request));
  TROUPE_ASSIGN(MessageWriter writer, MessageWriter::make(pool, kStructWords, 0, 0));
  auto message = writer.root().initStepsRequest();
  message.setProducer(request.producer);
  message.setTaken(request.taken);
  message.setAllowed(request.allowed);
  message.setWanted(request.wanted);
  return std::move(writer).finish(nullptr);
}

Result<StepsRequest> read_steps_request(const Frame& frame) {
  return open_message(frame.bytes(), Kind::kStepsRequest, [](schema::Envelope::Reader root) -> Result<StepsRequest> {
    const auto message = root.getStepsRequest();
    const StepsRequest request{message.getProducer(), message.getTaken(), message.getAllowed(), message.getWanted()};
    TROUPE_TRY(check(request));
    return request;
  });
}

Result<Frame> make_sample_request(FramePool& pool, const SampleRequest& request) {
  TROUPE_TRY(check(request));
  TROUPE_ASSIGN(MessageWriter writer, MessageWriter::make(pool, kStructWords + text_words(request.table.size()), 0, 0));
  auto message = writer.root().initSampleRequest();
  message.setRows(request.rows);
  message.setTimeoutMs(request.timeout_ms);
  if (!request.table.empty()) message.setTable(text(request.table));
  return std::move(writer).finish(nullptr);
}
Result<SampleRequest> read_sample_request(const Frame& frame) {
  return open_message(frame.bytes(), Kind::kSampleRequest, [](schema::Envelope::Reader root) -> Result<SampleRequest> {
    const auto message = root.getSampleRequest();
    TROUPE_ASSIGN(std::string table, text_of(message.getTable(), kMaxTextBytes, "sample request: table"));
    SampleRequest request{message.getRows(), message.getTimeoutMs(), std::move(table)};
    TROUPE_TRY(check(request));
    return request;
  });
}

Result<Frame> make_steps_grant(FramePool& pool, const StepsGrant& grant) {
  TROUPE_TRY(check(grant));
  TROUPE_ASSIGN(MessageWriter writer, MessageWriter::make(pool, kStructWords, 0, 0));
  auto message = writer.root().initStepsGrant();
  message.setTaken(grant.taken);
  message.setAllowed(grant.allowed);
  message.setOver(grant.over);
  return std::move(writer).finish(nullptr);
}

Result<StepsGrant> read_steps_grant(const Frame& frame) {
  return open_message(frame.bytes(), Kind::kStepsGrant, [](schema::Envelope::Reader root) -> Result<StepsGrant> {
    const auto message = root.getStepsGrant();
    const StepsGrant grant{message.getTaken(), message.getAllowed(), message.getOver()};
    TROUPE_TRY(check(grant));
    return grant;
  });
}

Result<Frame> make_metrics(FramePool& pool, const MetricRow& row) {
  TROUPE_TRY(check(row));
  TROUPE_ASSIGN(MessageWriter writer, MessageWriter::make(pool, kStructWords + scalar_words(row.scalars), 0, 0));
  auto message = writer.root().initMetrics();
  message.setWallSeconds(row.wall_s);
  message.setEnvSteps(row.env_steps);
  message.setLearnerSteps(row.learner_steps);
  write_scalars(message.initScalars(static_cast<unsigned>(row.scalars.size())), row.scalars);
  return std::move(writer).finish(nullptr);
}

Result<MetricRow> read_metrics(const Frame& frame) {
  return open_message(frame.bytes(), Kind::kMetrics, [](schema::Envelope::Reader root) -> Result<MetricRow> {
    const auto message = root.getMetrics();
    MetricRow row{message.getWallSeconds(), message.getEnvSteps(), message.getLearnerSteps(), {}};
    TROUPE_ASSIGN(row.scalars, read_scalars(message.getScalars(), kMaxScalars, "metrics: scalars"));
    TROUPE_TRY(check(row));
    return row;
  });
}

}  // namespace troupe::messages
