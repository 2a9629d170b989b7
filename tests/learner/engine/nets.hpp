#pragma once
// A small network and batches for it, for the tests of programs and engines; and what steps of it leave to be seen.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <troupe/core/rng.hpp>
#include <troupe/learner/engine/program.hpp>
#include <troupe/learner/ops/elementwise.hpp>
#include <troupe/learner/ops/joint.hpp>
#include <troupe/learner/ops/linear.hpp>
#include <troupe/learner/ops/reduce.hpp>

namespace troupe::learner {

/// A batch that owns its numbers: normal ones, classes for int32 columns, or any bytes.
struct Data {
  Data(const Signature& signature, std::int64_t rows, std::uint64_t seed, std::int64_t classes = 5)
      : buffer(signature, rows) {
    Rng rng(seed);
    const MutableBatchView& view = buffer.mutable_view();
    for (std::size_t c = 0; c < view.columns.size(); ++c) {
      if (signature[c].dtype == DType::kI32) {
        for (std::int32_t& x : view.as<std::int32_t>(c))
          x = static_cast<std::int32_t>(rng.uniform() * static_cast<double>(classes));
      } else if (signature[c].dtype == DType::kU8) {
        for (std::uint8_t& x : view.as<std::uint8_t>(c)) x = static_cast<std::uint8_t>(rng.below(256));
      } else {
        for (float& x : view.as<float>(c)) x = static_cast<float>(rng.normal());
      }
    }
  }
  BatchBuffer buffer;
};

inline constexpr std::int64_t kRows = 12;

struct NetOptions {
  JointFn forward;
  ReduceGradient reduce;
  bool followers = false;    ///< a target every three steps, and an average
  bool exempt_bias = false;  ///< from weight decay
};

/// logits = relu(x w0 + b0) w1 + b1 -> squares; a state counts steps.
inline std::unique_ptr<Program> net(const CompileOptions& options, const OptimizerSpec& optimizer,
                                    const NetOptions& with = {}) {
  Graph graph(kRows);
  const ParamGroup group = graph.group("net");
  const Var x = graph.input("x", {6});
  const auto param = [&](const char* name, Shape shape) { return graph.param(group, name, shape, Init::normal(0.3)); };
  Var h = linear(x, param("0/weight", {6, 17}), param("0/bias", {17}), Activation::kRelu);
  if (with.forward) {
    h = graph.emit_joint(h, with.forward, [](const JointArgs& args) -> Status {
      std::ranges::copy(args.in, args.out.begin());
      return {};
    });
  }
  const Var y = linear(h, param("1/weight", {17, 3}), param("1/bias", {3}), Activation::kTanh);
  const Var loss = mean(mul(y, y));
  const Var count = graph.state("count", {1}, Init::constant(0));
  graph.assign(count, affine(count, 1, 1));
  graph.metric("loss", loss);
  graph.output("y", y);
  OptimizerSpec spec = optimizer;
  spec.reduce = with.reduce;
  graph.minimize(loss, group, spec);
  if (with.exempt_bias) graph.exempt_from_decay(param("0/bias", {17}));
  if (with.followers) {
    graph.target(group, 3);
    graph.average(group, 0.9);
  }
  auto program = Program::compile(graph, options);
  EXPECT_TRUE(program.ok()) << program.error().message;
  return std::move(program).value();
}

inline const Signature& x_signature() {
  static const Signature signature{{"x", DType::kF32, Shape{6}}};
  return signature;
}

/// Batches of normal numbers; those at `bad` have one that is none.
class Batches {
 public:
  Batches(const Signature& signature, std::int64_t rows, std::size_t count, const std::vector<std::size_t>& bad = {}) {
    for (std::size_t i = 0; i < count; ++i) data_.push_back(std::make_unique<Data>(signature, rows, i + 1));
    for (const std::size_t i : bad) {
      data_[i]->buffer.mutable_view().as<float>(0)[2] = std::numeric_limits<float>::quiet_NaN();
    }
  }
  std::size_t size() const { return data_.size(); }
  BatchView operator[](std::size_t i) const { return data_[i]->buffer.view(); }
  /// For whoever may no longer look at it.
  void spoil(std::size_t i) {
    for (const std::span<std::byte> column : data_[i]->buffer.mutable_view().columns) {
      std::memset(column.data(), 0xff, column.size());
    }
  }

 private:
  std::vector<std::unique_ptr<Data>> data_;
};

/// What a step left to be seen. Numbers that are none are equal here.
struct Seen {
  std::vector<std::string> numbers;
  bool skipped = false;
  friend bool operator==(const Seen&, const Seen&) = default;
};
inline Seen seen(std::span<const double> metrics, std::span<const float> output, bool skipped) {
  Seen made{.numbers = {}, .skipped = skipped};
  for (const double x : metrics) made.numbers.push_back(std::to_string(std::isnan(x) ? -1 : x));
  for (const float x : output) {
    std::uint32_t bits = 0;
    std::memcpy(&bits, &x, sizeof(bits));
    made.numbers.push_back(std::isnan(x) ? "nan" : std::to_string(bits));
  }
  return made;
}

/// Each batch by itself.
inline std::vector<Seen> run_all(Program& program, const Batches& batches, std::string_view output) {
  std::vector<Seen> all;
  for (std::size_t i = 0; i < batches.size(); ++i) {
    program.bind(batches[i]).value();
    program.run().value();
    all.push_back(seen(program.metrics(), program.output(output), program.skipped_in_a_row() > 0));
  }
  return all;
}

/// In launches of `steps`, each staged while the one before is under way, and then spoilt where it was copied.
inline std::vector<Seen> launch_all(Program& program, Batches& batches, std::string_view output, std::size_t steps) {
  std::vector<Seen> all;
  const auto finish = [&] {
    const std::int64_t before = program.step();
    const int updates = program.finish().value();
    EXPECT_EQ(updates, program.step() - before);
    for (int step = 0; step < static_cast<int>(steps); ++step) {
      all.push_back(seen(program.metrics(step), program.output(output, step), program.skipped(step)));
    }
    const bool skipped = program.skipped(static_cast<int>(steps) - 1);
    EXPECT_EQ(seen(program.metrics(), program.output(output), skipped), all.back());
    EXPECT_TRUE(program.metrics(static_cast<int>(steps)).empty());
    EXPECT_TRUE(program.output(output, static_cast<int>(steps)).empty());
  };
  for (std::size_t first = 0; first < batches.size(); first += steps) {
    for (std::size_t i = first; i < first + steps; ++i) {
      program.stage(batches[i]).value();
      if (program.device() != Device{}) batches.spoil(i);  // a processor reads it until finish()
    }
    if (first > 0) finish();
    program.begin().value();
  }
  finish();
  return all;
}

inline void expect_same_counts(const Program& got, const Program& expected) {
  EXPECT_EQ(got.step(), expected.step());
  EXPECT_EQ(got.skipped(), expected.skipped());
  EXPECT_EQ(got.skipped_in_a_row(), expected.skipped_in_a_row());
}

}  // namespace troupe::learner
