// Rows that stay on the device: launches that take them by number give the bits of those whose batches come from the
// host, also where rows change while a launch is under way.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <troupe/learner/engine/pjrt/pjrt_clients.hpp>
#include <troupe/learner/engine/pjrt/pjrt_rows.hpp>
#include <troupe/learner/ops/image.hpp>
#include <troupe/learner/ops/shaping.hpp>
#include <troupe/tests/learner/engine/nets.hpp>
#include <troupe/tests/learner/engine/pjrt/cpu_plugin.hpp>

namespace troupe::learner {
namespace {

const Signature kColumns = {
    {"x", DType::kF32, {6}}, {"image", DType::kU8, {2, 3}}, {"reward", DType::kF32, {}}, {"unread", DType::kI32, {}}};
const Signature kWeight = {{"weight", DType::kF32, {}}};
constexpr std::int64_t kTable = 150;

class KeptRows : public testing::Test {
 protected:
  void SetUp() override { need_cpu_plugin(); }

  static std::unique_ptr<Program> make(const CompileOptions& options = {.device = {"pjrt:cpu", 0}}) {
    Graph graph(kRows);
    const ParamGroup group = graph.group("net");
    const auto param = [&](const char* name, Shape shape) {
      return graph.param(group, name, shape, Init::normal(0.3));
    };
    const Var x = graph.input("x", {6}), weight = graph.input("weight", {}), reward = graph.input("reward", {});
    const Var image = reshape(from_bytes(graph.input("image", {2, 3}, DType::kU8), 1.0 / 255), {kRows, 6});
    graph.input("unread", {}, DType::kI32);
    const Var y = linear(add(x, image), param("weight", {6, 1}), param("bias", {1}));
    const Var error = sub(reshape(y, {kRows}), reward);
    graph.output("error", error);
    const Var loss = mean(mul(weight, square(error)));
    graph.metric("loss", loss);
    graph.minimize(loss, group, {.rule = Adam{.learning_rate = 0.01}});
    auto program = Program::compile(graph, options);
    EXPECT_TRUE(program.ok()) << program.error().message;
    return std::move(program).value();
  }

  /// `count` rows of the table from `first` on.
  static void copy_rows_of(const BatchView& from, std::int64_t row, const MutableBatchView& to, std::int64_t at) {
    for (std::size_t c = 0; c < to.columns.size(); ++c) {
      const std::size_t bytes = kColumns[c].bytes();
      std::ranges::copy(from.columns[c].subspan(static_cast<std::size_t>(row) * bytes, bytes),
                        to.columns[c].begin() + at * static_cast<std::ptrdiff_t>(bytes));
    }
  }
};

TEST_F(KeptRows, AreTakenByNumberBitForBit) {
  if (IsSkipped()) return;
  const auto kept = make(), sent = make();
  ASSERT_EQ(kept->steps_per_launch(), kStepsPerLaunch);
  kept->keep_rows(kColumns, kTable).value();
  EXPECT_EQ(kept->kept_rows(), kTable);
  Data table(kColumns, kTable, 7);
  kept->store_rows(0, table.buffer.view()).value();
  Rng rng(3);
  std::int64_t overwritten = 0;
  for (const int steps : {1, kStepsPerLaunch, 3, kStepsPerLaunch}) {
    std::vector<std::unique_ptr<BatchBuffer>> batches;
    for (int step = 0; step < steps; ++step) {
      Signature whole = kColumns;
      whole.push_back(kWeight[0]);
      batches.push_back(std::make_unique<BatchBuffer>(whole, kRows));
      std::vector<std::int32_t> numbers;
      std::vector<float> weights;
      for (std::int64_t row = 0; row < kRows; ++row) {
        numbers.push_back(static_cast<std::int32_t>(rng.below(kTable)));
        weights.push_back(static_cast<float>(rng.uniform()));
        MutableBatchView columns = batches.back()->mutable_view();
        columns.columns.pop_back();
        copy_rows_of(table.buffer.view(), numbers.back(), columns, row);
        batches.back()->mutable_view().as<float>(kColumns.size())[static_cast<std::size_t>(row)] = weights.back();
      }
      kept->stage_rows(numbers, {&kWeight, kRows, {std::as_bytes(std::span(weights))}}).value();
      sent->stage(batches.back()->view()).value();
    }
    sent->begin().value();
    kept->begin(steps).value();
    // While it is under way other rows come, more than are written together, up to the end and from the front.
    for (const std::int64_t rows : {std::int64_t{70}, std::int64_t{1}}) {
      const Data fresh(kColumns, rows, static_cast<std::uint64_t>(100 + overwritten));
      const std::int64_t first = overwritten % (kTable - rows + 1);
      kept->store_rows(first, fresh.buffer.view()).value();
      for (std::int64_t row = 0; row < rows; ++row) {
        copy_rows_of(fresh.buffer.view(), row, table.buffer.mutable_view(), first + row);
      }
      overwritten += 80;
    }
    EXPECT_EQ(kept->finish().value(), steps);
    EXPECT_EQ(sent->finish().value(), steps);
    for (int step = 0; step < steps; ++step) {
      EXPECT_TRUE(std::ranges::equal(kept->output("error", step), sent->output("error", step))) << step;
      EXPECT_EQ(kept->metrics(step)[0], sent->metrics(step)[0]) << step;
    }
  }
  kept->fetch().value();
  sent->fetch().value();
  EXPECT_TRUE(std::ranges::equal(kept->group(0).values(), sent->group(0).values()));
}

TEST_F(KeptRows, AreFoundByOneOperationOrInALoop) {
  if (IsSkipped()) return;
  constexpr std::int64_t kBatch = 5;
  const std::vector<ValueSpec> inputs{
      {Shape({kBatch, 2, 3}), DType::kU8}, {Shape({kBatch}), DType::kF32}, {Shape({kBatch, 4}), DType::kI32}};
  const Signature signature{{"a", DType::kU8, {2, 3}}, {"b", DType::kF32, {}}, {"c", DType::kI32, {4}}};
  const Data table(signature, kTable, 11);
  const BatchView view = table.buffer.view();
  for (const RowLookup lookup : {RowLookup::kGather, RowLookup::kRowByRow}) {
    auto rows = PjrtRows::make(pjrt_client("pjrt:cpu").value(), 0, inputs, kTable, lookup).value();
    rows.store(0, view.columns, kTable).value();
    for (const int steps : {1, 3}) {
      std::vector<std::int32_t> numbers;
      Rng rng(4);
      for (std::int64_t i = 0; i < kBatch * steps; ++i) numbers.push_back(static_cast<std::int32_t>(rng.below(kTable)));
      const auto taken = rows.take(numbers, steps).value();
      ASSERT_EQ(taken.size(), inputs.size());
      for (std::size_t c = 0; c < taken.size(); ++c) {
        const std::size_t bytes = signature[c].bytes();
        std::vector<std::byte> expected, got(bytes * numbers.size());
        for (const std::int32_t number : numbers) {
          const auto row = view.columns[c].subspan(static_cast<std::size_t>(number) * bytes, bytes);
          expected.insert(expected.end(), row.begin(), row.end());
        }
        taken[c].begin_copy_to(got).value().await().value();
        EXPECT_EQ(got, expected) << "column " << c << " of " << steps;
      }
    }
  }
}

TEST_F(KeptRows, AreZeroUntilTheyAreStored) {
  if (IsSkipped()) return;
  const auto program = make();
  program->keep_rows(kColumns, 2).value();
  const std::vector<std::int32_t> numbers(kRows, 1);
  const std::vector<float> weights(kRows, 1);
  ParamBuffer& net = program->group(0);
  const float bias = net.tensor(*net.layout().find("net/bias"))[0];  // alone: of x = 0, an image and a reward of zeros
  program->stage_rows(numbers, {&kWeight, kRows, {std::as_bytes(std::span(weights))}}).value();
  program->begin(1).value();
  EXPECT_EQ(program->finish().value(), 1);
  EXPECT_THAT(program->output("error", 0), ::testing::Each(bias));
}

TEST_F(KeptRows, WhatMakesNoSenseIsRefused) {
  if (IsSkipped()) return;
  const auto program = make();
  const std::vector<float> weights(kRows, 1);
  const BatchView weight{&kWeight, kRows, {std::as_bytes(std::span(weights))}};
  std::vector<std::int32_t> numbers(kRows, 0);
  const auto expect = [](const Status& status, Code code, const char* said) {
    ASSERT_FALSE(status.ok()) << said;
    EXPECT_EQ(status.error().code, code);
    EXPECT_THAT(status.error().message, ::testing::HasSubstr(said));
  };
  expect(program->stage_rows(numbers, weight), Code::kInvalidArgument, "no rows are kept");
  expect(program->keep_rows(kColumns, 0), Code::kInvalidArgument, "got 0 rows");
  expect(program->keep_rows({{"y", DType::kF32, {}}}, 5), Code::kNotFound, "there is no \"y\"");
  expect(program->keep_rows({{"x", DType::kF32, {7}}}, 5), Code::kShapeMismatch, "column x");
  expect(program->store_rows(0, Data(kColumns, 1, 1).buffer.view()), Code::kOutOfRange, "rows 0 to 0");
  program->keep_rows(kColumns, 5).value();
  expect(program->store_rows(3, Data(kColumns, 3, 1).buffer.view()), Code::kOutOfRange, "rows 3 to 5, expected 0 to 4");
  expect(program->store_rows(0, Data({kColumns[0]}, 1, 1).buffer.view()), Code::kNotFound, "is missing");
  expect(program->stage_rows(std::span(numbers).first(3), weight), Code::kShapeMismatch, "got 3 numbers, expected 12");
  expect(program->stage_rows(numbers, {}), Code::kInvalidArgument, "\"weight\" is no column");
  expect(program->stage(weight), Code::kInvalidArgument, "expected stage_rows()");
  numbers[4] = 5;
  expect(program->stage_rows(numbers, weight), Code::kOutOfRange, "got row 5, expected 0 to 4");
  expect(program->begin(1), Code::kInvalidArgument, "no feed");
  expect(make({})->keep_rows(kColumns, 5), Code::kInvalidArgument, "the program is on cpu");
}

TEST_F(KeptRows, BeginAnewWhenOthersAreKept) {
  if (IsSkipped()) return;
  const auto program = make();
  program->keep_rows(kColumns, kTable).value();
  const std::size_t bytes = program->arena_bytes();
  program->keep_rows({kColumns[0]}, 10).value();
  EXPECT_LT(program->arena_bytes(), bytes);
  const Data rest({kColumns[1], kColumns[2], kWeight[0]}, kRows, 4);
  program->stage_rows(std::vector<std::int32_t>(kRows, 9), rest.buffer.view()).value();
  program->begin(1).value();
  EXPECT_EQ(program->finish().value(), 1);
}

}  // namespace
}  // namespace troupe::learner
