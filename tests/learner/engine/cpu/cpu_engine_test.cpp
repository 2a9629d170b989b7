// The processor's engine by the suite for all, and what it alone promises.
#include <troupe/tests/learner/engine/engine_conformance.hpp>

namespace troupe::learner {
namespace {

INSTANTIATE_TEST_SUITE_P(Cpu, EngineConformance, ::testing::Values(EngineUnderTest{.name = "cpu"}),
                         [](const auto& info) { return info.param.name; });

TEST(CpuEngine, ALaunchIsOneRun) {
  const auto program = net({}, {.rule = Adam{}});
  EXPECT_EQ(program->steps_per_launch(), 1);
  const Data data(x_signature(), kRows, 1);
  program->stage(data.buffer.view()).value();
  program->begin().value();
  EXPECT_TRUE(program->finished());
  EXPECT_EQ(program->finish().value(), 1);
  EXPECT_TRUE(program->metrics(1).empty());
}

TEST(CpuEngine, ASnapshotIsTheParametersThemselves) {
  const auto program = net({}, {.rule = Adam{.learning_rate = 0.1}});
  const Data data(x_signature(), kRows, 1);
  program->stage(data.buffer.view()).value();
  program->begin().value();
  program->begin_snapshot("net").value();
  EXPECT_FALSE(program->snapshot().value());
  program->finish().value();
  const Snapshot got = program->snapshot().value().value();
  EXPECT_EQ(got.values.data(), program->params("net")->values().data());
  EXPECT_EQ(got.step, 1);
}

}  // namespace
}  // namespace troupe::learner
