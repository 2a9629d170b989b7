#include <troupe/tests/messages/samples.hpp>

#include <array>
#include <numeric>

namespace troupe::messages::testing {
namespace {

volatile std::uint64_t sink = 0;  // so that the optimiser keeps the reads, and a sanitizer sees them

void touch(std::span<const std::byte> bytes) {
  for (std::byte byte : bytes) sink = sink + std::to_integer<std::uint64_t>(byte);
}
void touch(const BatchView& view) {
  for (const auto& column : view.columns) touch(column);
  for (const auto& pool : view.planes) touch(pool);
}

template <typename T>
Status status_of(const Result<T>& result) {
  if (!result.ok()) return result.error();
  return {};
}

}  // namespace

std::shared_ptr<const Signature> sample_signature() {
  return std::make_shared<const Signature>(Signature{{"observation", DType::kF32, {3}},
                                                     {"pixels", DType::kU8, {2, 3}},
                                                     {"reward", DType::kF64, {}},
                                                     {"half", DType::kBF16, {5}},
                                                     {"index", DType::kI32, {1}},
                                                     {"key", DType::kI64, {}}});
}

void fill(const MutableBatchView& view) {
  for (std::size_t c = 0; c < view.columns.size(); ++c) {
    for (std::size_t i = 0; i < view.columns[c].size(); ++i) {
      view.columns[c][i] = static_cast<std::byte>((i * 7 + c) % 50);
    }
  }
}

Frame sample_trajectory(FramePool& pool, std::int64_t max_rows, std::int64_t rows) {
  auto builder =
      TrajectoryBuilder::make(pool, {.signature = sample_signature(), .max_rows = max_rows, .priorities = true})
          .value();
  fill(builder.rows());
  std::iota(builder.priorities().begin(), builder.priorities().end(), 0.5);
  return std::move(builder).finish(
      {.producer = 2, .incarnation = 1, .sequence = 81, .parameters_version = 12, .env_steps = 4}, rows);
}

Frame sample_stacks(FramePool& pool) {
  const auto signature = std::make_shared<const Signature>(Signature{{"pixels", DType::kU8, {2, 2, 6}, {3}},
                                                                     {"action", DType::kF32, {2}},
                                                                     {"depth", DType::kF32, {2, 3}, {2, 0}},
                                                                     {"next_pixels", DType::kU8, {2, 2, 6}, {3, 2}}});
  auto builder = TrajectoryBuilder::make(pool, {.signature = signature, .max_rows = 7, .priorities = true}).value();
  fill(builder.rows());
  for (const std::size_t column : {0, 3}) {
    const auto bytes = builder.rows().as<std::uint8_t>(column);
    for (std::size_t i = 0; i < bytes.size(); ++i) {
      bytes[i] = static_cast<std::uint8_t>(3 * (i / 24 + i % 6 / 2 + column / 3) + i % 2);
    }
  }
  std::iota(builder.priorities().begin(), builder.priorities().end(), 0.5);
  return std::move(builder).finish({.producer = 2, .sequence = 82, .env_steps = 5}, 5);
}

Frame sample_batch(FramePool& pool) {
  auto builder = SampledBatchBuilder::make(pool, sample_signature(), 3).value();
  fill(builder.columns());
  for (std::size_t i = 0; i < 3; ++i) {
    builder.rows().keys[i] = 100 + i;
    builder.rows().probabilities[i] = 0.25;
    builder.rows().priorities[i] = 2.0;
    builder.rows().times_sampled[i] = 1;
  }
  return std::move(builder).finish({.sequence = 5,
                                    .table_items = 1000,
                                    .table_mass = 250.5,
                                    .table_bytes = 64'000,
                                    .table_inserts = 1200,
                                    .table_samples = 900,
                                    .table_evictions = 200});
}

Frame sample_sequences(FramePool& pool) {
  const auto signature =
      std::make_shared<const Signature>(Signature{{"observation", DType::kF32, {3, 2}}, {"action", DType::kI32, {3}}});
  auto builder = SampledBatchBuilder::make(pool, signature, 2, true).value();
  fill(builder.columns());
  for (std::size_t i = 0; i < 2; ++i) {
    builder.rows().probabilities[i] = 0.5;
    builder.rows().lengths[i] = static_cast<std::int32_t>(3 - i);
  }
  return std::move(builder).finish({.sequence = 6, .table_items = 10, .table_mass = 10});
}

Frame sample_steps(FramePool& pool) {
  BatchBuffer rows(*sample_signature(), 5);
  fill(rows.mutable_view());
  return make_steps(pool, {.writer = 77, .sequence = 3, .max_steps = 8, .last = true}, rows.view(),
                    std::vector<StepsItem>{{"recent", 2, 8, 0.5}, {"whole", 5, 3}}, std::vector<std::int64_t>{2, 5})
      .value();
}

Frame sample_parameters(FramePool& pool) {
  auto builder = ParametersBuilder::make(pool, DType::kF32, 33).value();
  for (std::size_t i = 0; i < builder.data().size(); ++i) builder.data()[i] = static_cast<std::byte>(i);
  return std::move(builder).finish({.version = 7, .layout_hash = 11, .fingerprint = 13, .dtype = DType::kF32});
}

Frame sample_parameters_piece(FramePool& pool) {
  auto builder = ParametersBuilder::make(pool, DType::kF32, ParametersPiece{1, 3, 40, {{0, 4}, {32, 6}}}).value();
  for (std::size_t i = 0; i < builder.data().size(); ++i) builder.data()[i] = static_cast<std::byte>(i);
  return std::move(builder).finish({.version = 7, .layout_hash = 11, .fingerprint = 13, .dtype = DType::kF32});
}

PriorityUpdate sample_update() { return {{1, 2, 3}, {0.5, 0, 4}, "", {7, 1}, true}; }
EpisodeReport sample_episode() { return {"actor", 3, 812.5, 1000, 40}; }
EvaluationReport sample_evaluation() {
  return {"gan-evaluator", 200, {{"frechet_distance", 12.5}, {"accuracy", 0.75}}};
}
MetricRow sample_row() { return {12.5, 1000, 40, {{"learner/critic_loss", 0.25}, {"replay/items", 1000}}}; }
Control sample_control() {
  Control control;
  control.kind = ControlKind::kWire;
  control.node = "replay-0";
  control.birth = 11;
  control.protocol = kControlProtocol;
  control.config_hash = 0x1234;
  control.term = 3;
  control.incarnation = 2;
  control.number = 7;
  control.late_ms = 5;
  control.resume = control.fenced = control.failed = true;
  control.code = Code::kUnavailable;
  control.text = "the reason";
  control.texts = {"actor", "learner"};
  control.instances = {{"replay", 0, 1, 4, true}};
  control.edges = {{0, 2, 0, true, 5, "actor-2", "actor"}, {3, 0, 0, false, 0, "learner", "learner"}};
  control.nodes = {{"chief", 1, "127.0.0.1", 4000, 77}};
  control.counters = {{"learner/steps", 60}};
  return control;
}

Frame sample_gradient(FramePool& pool, DType dtype) {
  constexpr std::array<std::uint32_t, 2> kRows = {4, 9};
  const std::array sparse = {SparseRows{.table = 0, .columns = 3, .rows = kRows, .values = {}},
                             SparseRows{.table = 2, .columns = 1, .rows = {}, .values = {}}};
  GradientBuilder builder = GradientBuilder::make(pool, dtype, 5, sparse).value();
  const std::array values = {1.0f, -2.0f, 0.5f, 3.0f, -0.25f, 8.0f};
  if (!builder.write(std::span(values).first(2), 2) || !builder.write(std::span(values).first(3)) ||
      !builder.write_rows(0, values)) {
    std::abort();  // these are finite
  }
  return std::move(builder).finish(
      {.worker = 3, .version = 16, .samples = 32, .model_hash = 99, .piece = 1, .pieces = 2});
}

constexpr std::array kObservation = {0.5f, -1.5f, 2.0f};
constexpr std::array<std::uint8_t, 4> kPixels = {0, 1, 128, 255};
constexpr std::array kAction = {0.25f, -0.75f};

Frame sample_inference_request(FramePool& pool) {
  const auto inputs =
      std::make_shared<const Signature>(Signature{{"observation", DType::kF32, {3}}, {"pixels", DType::kU8, {2, 2}}});
  const BatchView row{inputs.get(), 1, {std::as_bytes(std::span(kObservation)), std::as_bytes(std::span(kPixels))}};
  return make_inference_request(pool, {3, inputs, row}).value();
}

Frame sample_inference_answer(FramePool& pool) {
  const auto outputs = std::make_shared<const Signature>(Signature{{"action", DType::kF32, {1}}});
  return make_inference_answer(pool, {42, outputs, {outputs.get(), 2, {std::as_bytes(std::span(kAction))}}}).value();
}

std::vector<Frame> samples(FramePool& pool) {
  return {sample_trajectory(pool),
          sample_batch(pool),
          sample_parameters(pool),
          make_priorities(pool, sample_update()).value(),
          make_episode(pool, sample_episode()).value(),
          make_metrics(pool, sample_row()).value(),
          make_control(pool, sample_control()).value(),
          make_parameters_use(pool, {2, 40, 16}).value(),
          make_parameters_version(pool, {41}).value(),
          sample_inference_request(pool),
          sample_inference_answer(pool),
          sample_gradient(pool),
          make_gradient_answer(pool, {GradientOutcome::kStale, 17}).value(),
          make_parameters_pull(pool, {2, 18, 99}).value(),
          make_steps_request(pool, {2, 100, 164, 640}).value(),
          make_steps_grant(pool, {100, 740, false}).value(),
          make_sample_request(pool, {256, 10'000}).value(),
          sample_parameters_piece(pool),
          make_evaluation(pool, sample_evaluation()).value(),
          sample_steps(pool),
          sample_sequences(pool)};
}

Status read_all(const Frame& frame, Kind kind) {
  switch (kind) {
    case Kind::kTrajectory: {
      TROUPE_ASSIGN(const TrajectoryView view, read_trajectory(frame));
      touch(view.rows());
      touch(std::as_bytes(view.priorities()));
      return {};
    }
    case Kind::kBatch: {
      TROUPE_ASSIGN(const SampledBatchView view, read_batch(frame));
      touch(view.columns());
      touch(std::as_bytes(view.rows().keys));
      touch(std::as_bytes(view.rows().probabilities));
      touch(std::as_bytes(view.rows().priorities));
      touch(std::as_bytes(view.rows().times_sampled));
      touch(std::as_bytes(view.rows().parameters_versions));
      touch(std::as_bytes(view.rows().lengths));
      return {};
    }
    case Kind::kParameters: {
      TROUPE_ASSIGN(const ParametersView view, read_parameters(frame));
      touch(view.data());
      touch(std::as_bytes(std::span(view.piece().ranges)));
      return {};
    }
    case Kind::kPriorities:
      return status_of(read_priorities(frame));
    case Kind::kEpisode:
      return status_of(read_episode(frame));
    case Kind::kParametersUse:
      return status_of(read_parameters_use(frame));
    case Kind::kParametersVersion:
      return status_of(read_parameters_version(frame));
    case Kind::kInferenceRequest: {
      TROUPE_ASSIGN(const InferenceRequest request, read_inference_request(frame));
      touch(request.inputs);
      return {};
    }
    case Kind::kInferenceAnswer: {
      TROUPE_ASSIGN(const InferenceAnswer answer, read_inference_answer(frame));
      touch(answer.outputs);
      return {};
    }
    case Kind::kGradient: {
      TROUPE_ASSIGN(const GradientView view, read_gradient(frame));
      touch(view.dense());
      for (const SparseRows& table : view.sparse()) {
        touch(std::as_bytes(table.rows));
        touch(table.values);
      }
      return {};
    }
    case Kind::kGradientAnswer:
      return status_of(read_gradient_answer(frame));
    case Kind::kParametersPull:
      return status_of(read_parameters_pull(frame));
    case Kind::kStepsRequest:
      return status_of(read_steps_request(frame));
    case Kind::kStepsGrant:
      return status_of(read_steps_grant(frame));
    case Kind::kSampleRequest:
      return status_of(read_sample_request(frame));
    case Kind::kEvaluation:
      return status_of(read_evaluation(frame));
    case Kind::kSteps: {
      TROUPE_ASSIGN(const StepsView view, read_steps(frame));
      touch(view.rows());
      for (const StepsItem& item : view.items()) touch(std::as_bytes(std::span(item.table)));
      touch(std::as_bytes(std::span(view.ends())));
      return {};
    }
    case Kind::kMetrics:
      return status_of(read_metrics(frame));
    case Kind::kControl:
      return status_of(read_control(frame));
    case Kind::kChunk:
    case Kind::kCounters:
      break;  // read only from checkpoints: checkpoint_test.cpp
  }
  return Error{Code::kInvalidArgument, "no reader for this kind"};
}

}  // namespace troupe::messages::testing
