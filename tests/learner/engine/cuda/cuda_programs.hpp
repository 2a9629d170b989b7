#pragma once
// Programs on the emulated device (tests/gpu/emulator), for the tests of what they compute and of how they are
// launched. With TROUPE_TEST_GPU=1 in the environment they run on the first GPU of this machine instead, but for those
// that ask the emulator.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <memory>

#include <troupe/tests/gpu/emulator/emulator.h>
#include <troupe/core/rng.hpp>
#include <troupe/learner/engine/program.hpp>
#include <troupe/learner/ops/elementwise.hpp>
#include <troupe/learner/ops/joint.hpp>
#include <troupe/learner/ops/linear.hpp>
#include <troupe/learner/ops/reduce.hpp>

namespace troupe::learner {

inline constexpr Device kGpu{.cuda = 0};

inline const TroupeEmulator& emulator() { return *troupe_cuda_emulator(); }

inline bool on_emulator() { return std::getenv("TROUPE_TEST_GPU") == nullptr; }

class CudaProgramTest : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    if (on_emulator()) setenv("TROUPE_PLUGIN_PATH", EMULATED_PLUGINS, 1);
  }
  void SetUp() override {
    emulator().reset();
    before_ = emulator().alive();
  }
  void TearDown() override {
    if (lost_) return;
    EXPECT_EQ(emulator().alive(), before_) << "left behind on the device";
  }
  bool lost_ = false;  ///< the device, from which CUDA then takes nothing back

 private:
  std::int64_t before_ = 0;
};

/// Of what the emulated device alone can count, or fail at.
class EmulatedProgramTest : public CudaProgramTest {
 protected:
  void SetUp() override {
    if (!on_emulator()) GTEST_SKIP() << "asks the emulated device, and TROUPE_TEST_GPU is set";
    CudaProgramTest::SetUp();
  }
};

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

}  // namespace troupe::learner
