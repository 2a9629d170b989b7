// Round trips of every message, in process (by pointer) and through bytes (validated).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <vector>

#include <troupe/core/stacks.hpp>

#include <troupe/tests/messages/samples.hpp>

namespace troupe::messages {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::sample_signature;

/// The same bytes in a frame that nobody has validated, as after a link.
Frame received(FramePool& pool, const Frame& frame) { return pool.copy(frame.bytes()).value(); }

void expect_inside(const Frame& frame, std::span<const std::byte> part) {
  EXPECT_GE(part.data(), frame.bytes().data());
  EXPECT_LE(part.data() + part.size(), frame.bytes().data() + frame.size());
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(part.data()) % 64, 0u);
}

void expect_same(const BatchView& a, const BatchView& b) {
  EXPECT_EQ(*a.signature, *b.signature);
  EXPECT_EQ(a.rows, b.rows);
  ASSERT_EQ(a.columns.size(), b.columns.size());
  for (std::size_t c = 0; c < a.columns.size(); ++c) {
    EXPECT_TRUE(std::ranges::equal(a.columns[c], b.columns[c])) << (*a.signature)[c].to_string();
  }
}

TEST(Trajectory, ColumnsAreWrittenAndReadInsideTheFrame) {
  FramePool pool;
  auto builder =
      TrajectoryBuilder::make(pool, {.signature = sample_signature(), .max_rows = 4, .priorities = true}).value();
  const MutableBatchView rows = builder.rows();
  testing::fill(rows);
  std::ranges::fill(builder.priorities(), 1.5);
  const Frame frame = std::move(builder).finish({.sequence = 3}, 4);
  const TrajectoryView view = read_trajectory(frame).value();
  EXPECT_EQ(view.info().sequence, 3u);
  EXPECT_THAT(view.priorities(), ElementsAre(1.5, 1.5, 1.5, 1.5));
  for (std::size_t c = 0; c < rows.columns.size(); ++c) {
    EXPECT_EQ(view.rows().columns[c].data(), rows.columns[c].data()) << "copied on the way";
    expect_inside(frame, view.rows().columns[c]);
  }
}

TEST(Trajectory, SurvivesBytes) {
  FramePool pool;
  const Frame frame = testing::sample_trajectory(pool);
  const TrajectoryView sent = read_trajectory(frame).value();
  const TrajectoryView got = read_trajectory(received(pool, frame)).value();
  EXPECT_EQ(got.info().producer, 2u);
  EXPECT_EQ(got.info().incarnation, 1u);
  EXPECT_EQ(got.info().sequence, 81u);
  EXPECT_EQ(got.info().parameters_version, 12);
  EXPECT_EQ(got.info().env_steps, 4);
  expect_same(got.rows(), sent.rows());
  EXPECT_THAT(got.priorities(), ElementsAre(0.5, 1.5, 2.5, 3.5));
  expect_inside(got.frame(), got.rows().columns[0]);
}

TEST(Trajectory, FinishingWithFewerRowsKeepsTheFirst) {
  FramePool pool;
  const TrajectoryView all = read_trajectory(testing::sample_trajectory(pool, 9, 9)).value();
  for (std::int64_t rows : {0, 1, 8}) {
    const Frame frame = testing::sample_trajectory(pool, 9, rows);
    const TrajectoryView sent = read_trajectory(frame).value();
    const TrajectoryView got = read_trajectory(received(pool, frame)).value();
    expect_same(got.rows(), sent.rows());
    EXPECT_EQ(got.rows().rows, rows);
    EXPECT_EQ(got.priorities().size(), static_cast<std::size_t>(rows));
    for (std::size_t c = 0; c < got.rows().columns.size(); ++c) {
      const auto column = got.rows().columns[c];
      EXPECT_TRUE(std::ranges::equal(column, all.rows().columns[c].first(column.size())));
    }
  }
}

TEST(Trajectory, StacksTravelSplitAndArriveWhole) {
  FramePool pool;
  const Frame frame = testing::sample_stacks(pool);
  for (const Frame& one : {frame, received(pool, frame)}) {
    const TrajectoryView view = read_trajectory(one).value();
    EXPECT_EQ(view.signature()[0], (TensorSpec{"pixels", DType::kU8, {2, 2, 6}}));
    EXPECT_EQ(view.signature()[0].stack, (Stack{3, -1}));
    EXPECT_EQ(view.signature()[3].stack, (Stack{3, 2}));
    EXPECT_EQ((*view.rows().signature)[0], (TensorSpec{"pixels", DType::kI32, {3}}));
    ASSERT_EQ(view.rows().planes.size(), 2U);
    EXPECT_EQ(view.rows().planes[0].size(), (5U + 2 + 1) * 8) << "one for each image";
    expect_inside(one, view.rows().planes[1]);
    EXPECT_THAT(view.priorities(), ElementsAre(0.5, 1.5, 2.5, 3.5, 4.5));
    const Stacks stacks(view.signature());
    WholeRows whole(stacks);
    const BatchView rows = whole.of(view.rows());
    for (std::size_t i = 0; i < 5 * 24; ++i) {
      const std::size_t step = i / 24 + i % 6 / 2;
      ASSERT_EQ(rows.as<std::uint8_t>(0)[i], 3 * step + i % 2);
      ASSERT_EQ(rows.as<std::uint8_t>(3)[i], 3 * (step + 1) + i % 2);
    }
    // As testing::fill() fills a column with this index.
    for (std::size_t i = 0; i < 5 * 24; ++i) ASSERT_EQ(rows.columns[2][i], static_cast<std::byte>((i * 7 + 2) % 50));
  }
  EXPECT_TRUE(read_trajectory(testing::sample_trajectory(pool)).value().rows().planes.empty());
}

TEST(Trajectory, WithoutRowsHasNoPlanes) {
  FramePool pool;
  const auto signature = std::make_shared<const Signature>(Signature{{"pixels", DType::kU8, {2, 2, 6}, {3}}});
  auto builder = TrajectoryBuilder::make(pool, {.signature = signature, .max_rows = 3}).value();
  const Frame frame = std::move(builder).finish({}, 0);
  const TrajectoryView view = read_trajectory(received(pool, frame)).value();
  EXPECT_EQ(view.rows().rows, 0);
  EXPECT_EQ(view.rows().planes.size(), 1U);
  const auto wrong = std::make_shared<const Signature>(Signature{{"pixels", DType::kU8, {2, 2, 5}, {3}}});
  EXPECT_FALSE(TrajectoryBuilder::make(pool, {.signature = wrong, .max_rows = 3}).ok());
}

TEST(Trajectory, ReadingAgainDoesNotValidateAgain) {
  FramePool pool;
  const Frame built = testing::sample_trajectory(pool);
  EXPECT_NE(built.parsed(), nullptr) << "a frame built here is good from the start";
  const Frame frame = received(pool, built);
  EXPECT_EQ(frame.parsed(), nullptr);
  const TrajectoryView first = read_trajectory(frame).value();
  const TrajectoryView second = read_trajectory(frame).value();
  EXPECT_EQ(&first.rows(), &second.rows());
}

TEST(Trajectory, ViewOutlivesTheFrameItWasReadFrom) {
  FramePool pool;
  Frame frame = testing::sample_trajectory(pool);
  const TrajectoryView view = read_trajectory(frame).value();
  frame = Frame();
  EXPECT_EQ(view.rows().columns[0][1], std::byte{7});
}

TEST(Trajectory, RecycledBuffersLeakNothingIntoTheNextMessage) {
  FramePool pool;
  const auto signature = std::make_shared<const Signature>(Signature{{"x", DType::kU8, {3}}});
  const auto build = [&] {
    auto builder = TrajectoryBuilder::make(pool, {.signature = signature, .max_rows = 3}).value();
    std::ranges::fill(builder.rows().columns[0], std::byte{1});
    return std::move(builder).finish({}, 2);
  };
  const Frame clean = build();
  {
    FrameBuffer dirty = pool.allocate(clean.size()).value();
    std::ranges::fill(dirty.bytes(), std::byte{0xff});
  }
  const Frame reused = build();
  EXPECT_EQ(pool.stats().reused, 1u);
  EXPECT_TRUE(std::ranges::equal(reused.bytes(), clean.bytes()));
}

TEST(Batch, SurvivesBytes) {
  FramePool pool;
  const Frame frame = testing::sample_batch(pool);
  const SampledBatchView sent = read_batch(frame).value();
  const SampledBatchView got = read_batch(received(pool, frame)).value();
  EXPECT_EQ(got.info().sequence, 5u);
  EXPECT_EQ(got.info().table_items, 1000);
  EXPECT_EQ(got.info().table_mass, 250.5);
  EXPECT_EQ(got.info().table_bytes, 64'000);
  EXPECT_EQ(got.info().table_inserts, 1200);
  EXPECT_EQ(got.info().table_samples, 900);
  EXPECT_EQ(got.info().table_evictions, 200);
  expect_same(got.columns(), sent.columns());
  EXPECT_THAT(got.rows().keys, ElementsAre(100, 101, 102));
  EXPECT_THAT(got.rows().probabilities, ElementsAre(0.25, 0.25, 0.25));
  EXPECT_THAT(got.rows().priorities, ElementsAre(2, 2, 2));
  EXPECT_THAT(got.rows().times_sampled, ElementsAre(1, 1, 1));
  EXPECT_THAT(got.rows().parameters_versions, ElementsAre(-1, -1, -1));
  expect_inside(frame, sent.columns().columns[0]);
}

TEST(Batch, RefusesCountsBelow0) {
  FramePool pool;
  for (const SampledBatchInfo& info :
       {SampledBatchInfo{.table_items = -1}, SampledBatchInfo{.table_bytes = -1}, SampledBatchInfo{.table_inserts = -1},
        SampledBatchInfo{.table_samples = -1}, SampledBatchInfo{.table_evictions = -1}}) {
    auto builder = SampledBatchBuilder::make(pool, testing::sample_signature(), 0).value();
    const auto read = read_batch(received(pool, std::move(builder).finish(info)));
    ASSERT_FALSE(read.ok());
    EXPECT_THAT(read.error().message, ::testing::ContainsRegex("batch 0: got -1 table [a-z]+, expected >= 0"));
  }
}

TEST(Batch, OfSequencesSurvivesBytes) {
  FramePool pool;
  const SampledBatchView got = read_batch(received(pool, testing::sample_sequences(pool))).value();
  EXPECT_THAT(got.rows().lengths, ElementsAre(3, 2));
  EXPECT_EQ((*got.columns().signature)[0].to_string(), "observation: float32[3, 2]");
}

TEST(Batch, RefusesLengthsThatItsColumnsDoNotHave) {
  FramePool pool;
  const auto refused = [&](const Signature& signature, std::int32_t length) {
    auto builder = SampledBatchBuilder::make(pool, std::make_shared<const Signature>(signature), 1, true).value();
    testing::fill(builder.columns());
    builder.rows().probabilities[0] = 1;
    builder.rows().lengths[0] = length;
    return read_batch(received(pool, std::move(builder).finish({}))).error().message;
  };
  EXPECT_THAT(refused({{"a", DType::kF32, {3}}}, 4), HasSubstr("a sequence of 4 steps, expected 1..3"));
  EXPECT_THAT(refused({{"a", DType::kF32, {3}}}, 0), HasSubstr("a sequence of 0 steps, expected 1..3"));
  EXPECT_THAT(refused({{"a", DType::kF32, {3}}, {"b", DType::kF32, {2}}}, 1),
              HasSubstr("column b: float32[2] of sequences"));
  EXPECT_THAT(refused({{"a", DType::kF32, {}}}, 1), HasSubstr("column a: float32[] of sequences"));
}

TEST(Steps, SurviveBytes) {
  FramePool pool;
  const Frame frame = testing::sample_steps(pool);
  const StepsView sent = read_steps(frame).value(), got = read_steps(received(pool, frame)).value();
  EXPECT_EQ(got.info().writer, 77U);
  EXPECT_EQ(got.info().sequence, 3U);
  EXPECT_EQ(got.info().max_steps, 8);
  EXPECT_TRUE(got.info().last);
  expect_same(got.rows(), sent.rows());
  ASSERT_EQ(got.items().size(), 2U);
  EXPECT_EQ(got.items()[0].table, "recent");
  EXPECT_EQ(got.items()[0].end, 2);
  EXPECT_EQ(got.items()[0].steps, 8);
  EXPECT_EQ(got.items()[0].priority, 0.5);
  EXPECT_EQ(got.items()[1].priority, 1);
  EXPECT_THAT(got.ends(), ElementsAre(2, 5));
}

TEST(Steps, RefuseToMakeWhatReadersWouldRefuse) {
  FramePool pool;
  const BatchBuffer rows({{"a", DType::kF32, {}}}, 3);
  const auto refused = [&](const StepsInfo& info, const StepsItem& item, std::vector<std::int64_t> ends) {
    return make_steps(pool, info, rows.view(), {&item, 1}, ends).error().message;
  };
  const StepsInfo good{.writer = 15, .max_steps = 4};
  EXPECT_THAT(refused({.writer = 15}, {"t", 1, 1}, {}), HasSubstr("steps of writer f: max_steps: got 0"));
  EXPECT_THAT(refused(good, {"", 1, 1}, {}), HasSubstr("a name of 0 bytes"));
  EXPECT_THAT(refused(good, {"t", 4, 1}, {}), HasSubstr("an item: got 4 rows before it, expected 0..3"));
  EXPECT_THAT(refused(good, {"t", 1, 5}, {}), HasSubstr("an item of 5 steps, expected 1..4"));
  EXPECT_THAT(refused(good, {"t", 1, 0}, {}), HasSubstr("an item of 0 steps"));
  EXPECT_THAT(refused(good, {"t", 1, 1, -1}, {}), HasSubstr("priority"));
  EXPECT_THAT(refused(good, {"t", 1, 1}, {2, 1}), HasSubstr("an episode's end: got 1 rows before it, expected 2..3"));
}

TEST(Parameters, SurviveBytes) {
  FramePool pool;
  const Frame frame = testing::sample_parameters(pool);
  const ParametersView got = read_parameters(received(pool, frame)).value();
  EXPECT_EQ(got.info().version, 7);
  EXPECT_EQ(got.info().layout_hash, 11u);
  EXPECT_EQ(got.info().fingerprint, 13u);
  EXPECT_EQ(got.info().dtype, DType::kF32);
  ASSERT_EQ(got.data().size(), 132u);
  EXPECT_EQ(got.data()[131], std::byte{131});
  EXPECT_EQ(got.piece().count, 1u);
  EXPECT_THAT(got.piece().ranges, ElementsAre(ParametersRange{0, 33}));
  expect_inside(frame, read_parameters(frame).value().data());
}

TEST(Parameters, PiecesSurviveBytes) {
  FramePool pool;
  const ParametersView got = read_parameters(received(pool, testing::sample_parameters_piece(pool))).value();
  EXPECT_EQ(got.info().version, 7);
  EXPECT_EQ(got.piece().index, 1u);
  EXPECT_EQ(got.piece().count, 3u);
  EXPECT_EQ(got.piece().elements, 40);
  EXPECT_THAT(got.piece().ranges, ElementsAre(ParametersRange{0, 4}, ParametersRange{32, 6}));
  ASSERT_EQ(got.data().size(), 40u);
  EXPECT_EQ(got.data()[39], std::byte{39});
}

TEST(Parameters, APieceThatOverlapsItselfIsNotBuilt) {
  FramePool pool;
  EXPECT_FALSE(ParametersBuilder::make(pool, DType::kF32, ParametersPiece{0, 2, 40, {{0, 4}, {3, 6}}}).ok());
  EXPECT_FALSE(ParametersBuilder::make(pool, DType::kF32, ParametersPiece{2, 2, 40, {}}).ok());
  EXPECT_FALSE(ParametersBuilder::make(pool, DType::kF32, -1).ok());
}

TEST(Reports, SurviveBytes) {
  FramePool pool;
  const PriorityUpdate update = read_priorities(make_priorities(pool, testing::sample_update()).value()).value();
  EXPECT_THAT(update.keys, ElementsAre(1, 2, 3));
  EXPECT_THAT(update.priorities, ElementsAre(0.5, 0, 4));
  EXPECT_THAT(update.deletes, ElementsAre(7, 1));
  EXPECT_TRUE(update.reset);
  const EpisodeReport episode = read_episode(make_episode(pool, testing::sample_episode()).value()).value();
  EXPECT_EQ(episode.role, "actor");
  EXPECT_EQ(episode.producer, 3u);
  EXPECT_EQ(episode.episode_return, 812.5);
  EXPECT_EQ(episode.steps, 1000);
  EXPECT_EQ(episode.parameters_version, 40);
  const EvaluationReport found = read_evaluation(make_evaluation(pool, testing::sample_evaluation()).value()).value();
  EXPECT_EQ(found.source, "gan-evaluator");
  EXPECT_EQ(found.version, 200);
  ASSERT_EQ(found.values.size(), 2u);
  EXPECT_EQ(found.values[1].name, "accuracy");
  EXPECT_EQ(found.values[1].value, 0.75);
  const ParametersUse use = read_parameters_use(make_parameters_use(pool, {2, 40, 16}).value()).value();
  EXPECT_EQ(use.producer, 2u);
  EXPECT_EQ(use.version, 40);
  EXPECT_EQ(use.env_steps, 16);
  EXPECT_EQ(read_parameters_version(make_parameters_version(pool, {41}).value()).value().version, 41);
  const StepsRequest request = read_steps_request(make_steps_request(pool, {2, 100, 164, 640}).value()).value();
  EXPECT_EQ(request.producer, 2u);
  EXPECT_EQ(request.taken, 100);
  EXPECT_EQ(request.allowed, 164);
  EXPECT_EQ(request.wanted, 640);
  const SampleRequest sample = read_sample_request(make_sample_request(pool, {256, 9}).value()).value();
  EXPECT_EQ(sample.rows, 256);
  EXPECT_EQ(sample.timeout_ms, 9U);
  EXPECT_EQ(sample.table, "");
  EXPECT_EQ(read_sample_request(make_sample_request(pool, {1, 2, "recent"}).value()).value().table, "recent");
  PriorityUpdate named = testing::sample_update();
  named.table = "whole";
  EXPECT_EQ(read_priorities(make_priorities(pool, named).value()).value().table, "whole");
  const StepsGrant grant = read_steps_grant(make_steps_grant(pool, {100, 740, true}).value()).value();
  EXPECT_EQ(grant.taken, 100);
  EXPECT_EQ(grant.allowed, 740);
  EXPECT_TRUE(grant.over);
  MetricRow sent = testing::sample_row();
  sent.scalars.push_back({"learner/diverged", std::numeric_limits<double>::infinity()});
  const MetricRow row = read_metrics(make_metrics(pool, sent).value()).value();
  EXPECT_EQ(row.wall_s, 12.5);
  EXPECT_EQ(row.env_steps, 1000);
  EXPECT_EQ(row.learner_steps, 40);
  ASSERT_EQ(row.scalars.size(), 3u);
  EXPECT_EQ(row.scalars[1].name, "replay/items");
  EXPECT_EQ(row.scalars[2].value, std::numeric_limits<double>::infinity());
  EXPECT_EQ(read_control(make_control(pool, testing::sample_control()).value()).value(), testing::sample_control());
  EXPECT_EQ(read_control(make_control(pool, {}).value()).value(), Control());
}

TEST(Reports, ControlAboutAnInstanceNamesOne) {
  FramePool pool;
  for (std::uint16_t number = 0; number < kControlKinds; ++number) {
    Control control;
    control.kind = static_cast<ControlKind>(number);
    const std::string name(to_string(control.kind));
    const bool needs = std::string("up done failed spawn wire unwire group regroup").find(name) != std::string::npos;
    EXPECT_EQ(read_control(make_control(pool, control).value()).ok(), !needs) << name;
    control.instances = {{"actor", 0, 1, 4, false}};
    EXPECT_EQ(read_control(make_control(pool, control).value()).value(), control) << name;
  }
}

TEST(Reports, RefuseToMakeWhatReadersWouldRefuse) {
  FramePool pool;
  EXPECT_THAT(make_priorities(pool, {{1}, {-1}}).error().message, HasSubstr("priorities[0]: got -1"));
  EXPECT_THAT(make_priorities(pool, {{1, 2}, {1}}).error().message, HasSubstr("2 keys and 1 priorities"));
  EXPECT_FALSE(make_parameters_use(pool, {.env_steps = -1}).ok());
  EXPECT_FALSE(make_parameters_version(pool, {.version = -1}).ok());
  EXPECT_FALSE(make_steps_request(pool, {0, -1, 0, 0}).ok());
  EXPECT_FALSE(make_steps_request(pool, {0, 0, 0, kMostSteps + 1}).ok());
  EXPECT_FALSE(make_steps_grant(pool, {0, -1, false}).ok());
  EXPECT_FALSE(make_sample_request(pool, {-1, 1}).ok());
  EXPECT_FALSE(make_sample_request(pool, {kMostSampleRows + 1, 1}).ok());
  EXPECT_FALSE(make_episode(pool, {.episode_return = std::numeric_limits<double>::quiet_NaN()}).ok());
  EXPECT_FALSE(make_evaluation(pool, {"evaluator", -1, {}}).ok());
  EXPECT_THAT(make_evaluation(pool, {"evaluator", 1, {{"a", 1}, {"a", 2}}}).error().message, HasSubstr("two values"));
  EXPECT_FALSE(make_evaluation(pool, {"evaluator", 1, std::vector<Scalar>(kMostValues + 1)}).ok());
  EXPECT_FALSE(make_metrics(pool, {.env_steps = -1}).ok());
  EXPECT_FALSE(make_control(pool, {.text = std::string(kMaxControlBytes, 'x')}).ok());
}

std::vector<float> floats_of(std::span<const std::byte> bytes, DType dtype) {
  std::vector<float> values(bytes.size() / dtype_bytes(dtype));
  if (dtype == DType::kF32) {
    std::memcpy(values.data(), bytes.data(), bytes.size());
  } else {
    from_bf16({reinterpret_cast<const std::uint16_t*>(bytes.data()), values.size()}, values);
  }
  return values;
}

TEST(Gradient, SurvivesBytes) {
  FramePool pool;
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    const Frame frame = testing::sample_gradient(pool, dtype);
    const GradientView view = read_gradient(pool.copy(frame.bytes()).value()).value();
    EXPECT_EQ(view.dtype(), dtype);
    EXPECT_EQ(view.info().worker, 3u);
    EXPECT_EQ(view.info().version, 16);
    EXPECT_EQ(view.info().samples, 32);
    EXPECT_EQ(view.info().model_hash, 99u);
    EXPECT_EQ(view.info().piece, 1u);
    EXPECT_EQ(view.info().pieces, 2u);
    // All of these are exact in bfloat16.
    EXPECT_THAT(floats_of(view.dense(), dtype), ElementsAre(2, -4, 1, -2, 0.5));
    ASSERT_EQ(view.sparse().size(), 2u);
    EXPECT_THAT(view.sparse()[0].rows, ElementsAre(4u, 9u));
    EXPECT_EQ(view.sparse()[0].columns, 3u);
    EXPECT_THAT(floats_of(view.sparse()[0].values, dtype), ElementsAre(1, -2, 0.5, 3, -0.25, 8));
    EXPECT_EQ(view.sparse()[1].table, 2u);
    EXPECT_TRUE(view.sparse()[1].rows.empty());
  }
}

TEST(Gradient, RoundsToTheNearestBfloat16AndTiesToEven) {
  FramePool pool;
  const std::array values = {1.00390625f, 1.01171875f, 1.0039064f, -3.3895314e38f};
  auto builder = GradientBuilder::make(pool, DType::kBF16, 4).value();
  ASSERT_TRUE(builder.write(values));
  const GradientView view = read_gradient(std::move(builder).finish({})).value();
  EXPECT_THAT(floats_of(view.dense(), DType::kBF16), ElementsAre(1.0f, 1.015625f, 1.0078125f, -3.3895314e38f));
}

TEST(Gradient, ABuilderSaysWhatIsNotFiniteAsItTravels) {
  FramePool pool;
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  for (const float bad : {kInfinity, -kInfinity, std::numeric_limits<float>::quiet_NaN()}) {
    for (const DType dtype : {DType::kF32, DType::kBF16}) {
      const std::array values = {1.0f, bad, 2.0f};
      EXPECT_FALSE(GradientBuilder::make(pool, dtype, 3)->write(values));
    }
  }
  const std::array largest = {std::numeric_limits<float>::max()};
  EXPECT_TRUE(GradientBuilder::make(pool, DType::kF32, 1)->write(largest));
  EXPECT_FALSE(GradientBuilder::make(pool, DType::kF32, 1)->write(largest, 2));
  EXPECT_FALSE(GradientBuilder::make(pool, DType::kBF16, 1)->write(largest)) << "rounds to infinity";
}

TEST(Gradient, OneThatIsNotFiniteIsRefusedAsAWhole) {
  FramePool pool;
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    const Frame good = testing::sample_gradient(pool, dtype);
    const GradientView view = read_gradient(good).value();
    std::vector<std::byte> bytes(good.bytes().begin(), good.bytes().end());
    for (const auto values : {view.dense(), view.sparse()[0].values}) {
      auto bad = bytes;
      const auto last = values.data() + values.size() - dtype_bytes(dtype) - good.bytes().data();
      const std::uint32_t infinity = dtype == DType::kF32 ? 0x7f800000 : 0x7f80;
      std::memcpy(bad.data() + last, &infinity, dtype_bytes(dtype));
      EXPECT_THAT(read_gradient(pool.copy(bad).value()).error().message,
                  HasSubstr("gradient of worker 3: got a value that is not finite"));
    }
  }
}

TEST(Gradient, RowsOutOfOrderAreNotBuilt) {
  FramePool pool;
  for (const std::array<std::uint32_t, 2> rows : {std::array{5u, 5u}, std::array{6u, 5u}}) {
    const std::array sparse = {SparseRows{.table = 1, .columns = 2, .rows = rows, .values = {}}};
    EXPECT_THAT(GradientBuilder::make(pool, DType::kF32, 0, sparse).error().message,
                HasSubstr("expected ascending rows"));
  }
  const std::array same = {SparseRows{.table = 1}, SparseRows{.table = 1}};
  EXPECT_THAT(GradientBuilder::make(pool, DType::kF32, 0, same).error().message, HasSubstr("ascending tables"));
  EXPECT_THAT(GradientBuilder::make(pool, DType::kI32, 1).error().message, HasSubstr("int32"));
}

TEST(Gradient, AnswersAndPullsSurviveBytes) {
  FramePool pool;
  const Frame answer = make_gradient_answer(pool, {GradientOutcome::kStale, 17}).value();
  EXPECT_EQ(read_gradient_answer(pool.copy(answer.bytes()).value())->outcome, GradientOutcome::kStale);
  EXPECT_EQ(read_gradient_answer(answer)->version, 17);
  const Frame pull = make_parameters_pull(pool, {2, 18, 99}).value();
  const ParametersPull read = read_parameters_pull(pool.copy(pull.bytes()).value()).value();
  EXPECT_EQ(read.worker, 2u);
  EXPECT_EQ(read.at_least, 18);
  EXPECT_EQ(read.model_hash, 99u);
  EXPECT_FALSE(make_parameters_pull(pool, {2, -1, 99}).ok());
}

TEST(Inference, SurvivesBytes) {
  FramePool pool;
  const auto inputs =
      std::make_shared<const Signature>(Signature{{"pixels", DType::kU8, {2, 2}}, {"speed", DType::kF32, {}}});
  const std::array<std::uint8_t, 8> pixels = {0, 255, 1, 2, 3, 4, 5, 6};
  const std::array speed = {-1.5f, 2.0f};
  const Frame made =
      make_inference_request(
          pool, {3, inputs, {inputs.get(), 2, {std::as_bytes(std::span(pixels)), std::as_bytes(std::span(speed))}}})
          .value();
  for (const Frame& frame : {made, received(pool, made)}) {
    const InferenceRequest request = read_inference_request(frame).value();
    EXPECT_EQ(request.producer, 3u);
    EXPECT_EQ(*request.signature, *inputs);
    EXPECT_EQ(request.inputs.rows, 2);
    EXPECT_TRUE(std::ranges::equal(request.inputs.as<std::uint8_t>(0), pixels));
    EXPECT_THAT(request.inputs.as<float>(1), ElementsAre(-1.5f, 2.0f));
  }
  const auto outputs = std::make_shared<const Signature>(Signature{{"action", DType::kF32, {1}}});
  const std::array action = {0.25f, std::numeric_limits<float>::infinity()};
  const Frame answered = received(
      pool, make_inference_answer(pool, {42, outputs, {outputs.get(), 2, {std::as_bytes(std::span(action))}}}).value());
  const InferenceAnswer answer = read_inference_answer(answered).value();
  EXPECT_EQ(answer.parameters_version, 42);
  EXPECT_THAT(answer.outputs.as<float>(0), ElementsAre(0.25f, std::numeric_limits<float>::infinity()))
      << "a policy that has diverged, which the env actor tells";
}

TEST(Inference, RefusesWhatNoPolicyCanTake) {
  FramePool pool;
  const auto two = std::make_shared<const Signature>(Signature{{"speed", DType::kF32, {2}}});
  const auto none = std::make_shared<const Signature>();
  const std::array bad = {1.0f, std::numeric_limits<float>::quiet_NaN()};
  const BatchView row{two.get(), 1, {std::as_bytes(std::span(bad))}};
  EXPECT_EQ(make_inference_request(pool, {0, two, row}).error().message,
            "inference request: column speed: float32[2] holds a NaN or an infinity");
  EXPECT_THAT(make_inference_request(pool, {0, two, row.slice(0, 0)}).error().message, HasSubstr("got 0 rows"));
  EXPECT_THAT(make_inference_request(pool, {0, none, {none.get(), 1, {}}}).error().message, HasSubstr("got 0 columns"));
  EXPECT_THAT(make_inference_answer(pool, {1, two, row.slice(0, 0)}).error().message, HasSubstr("got 0 rows"));
  EXPECT_THAT(make_inference_answer(pool, {-1, two, row}).error().message, HasSubstr("got version -1"));
}

TEST(Builders, RefuseSignaturesThatReadersWouldRefuse) {
  FramePool pool;
  const auto refusal = [&](Signature signature, std::int64_t rows) {
    const auto shared = std::make_shared<const Signature>(std::move(signature));
    return TrajectoryBuilder::make(pool, {.signature = shared, .max_rows = rows}).error().message;
  };
  EXPECT_THAT(refusal({}, 1), HasSubstr("got 0 columns"));
  EXPECT_THAT(refusal({{"a", DType::kF32, {}}, {"a", DType::kF32, {}}}, 1), HasSubstr("two columns are named a"));
  EXPECT_THAT(refusal({{"a", DType::kF32, {0}}}, 1), HasSubstr("no elements"));
  EXPECT_THAT(refusal({{"a", DType::kF32, {}}}, -1), HasSubstr("got -1 rows"));
  EXPECT_THAT(refusal({{"a", DType::kF64, {1 << 20, 1 << 20, 1 << 20, 1 << 20}}}, 1), HasSubstr("more than"));
}

}  // namespace
}  // namespace troupe::messages
