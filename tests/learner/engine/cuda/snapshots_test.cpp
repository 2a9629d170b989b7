// Snapshots of parameters on the emulated device: they are those of their step, whatever runs meanwhile.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <optional>
#include <string>
#include <vector>

#include <troupe/tests/learner/engine/cuda/cuda_programs.hpp>

namespace troupe::learner {
namespace {

using testing::HasSubstr;

class SnapshotsTest : public CudaProgramTest {
 protected:
  /// On a GPU, which takes a copy.
  static void stage(Program& program, std::uint64_t seed, int steps) {
    for (int step = 0; step < steps; ++step) {
      const Data data(x_signature(), kRows, 100 * seed + static_cast<std::uint64_t>(step));
      program.stage(data.buffer.view()).value();
    }
  }
  static std::vector<float> values(Program& program) {
    const auto of = program.params("net")->values();
    return {of.begin(), of.end()};
  }
  static std::vector<float> copy(const Snapshot& of) { return {of.values.begin(), of.values.end()}; }
};

TEST_F(SnapshotsTest, AreOfTheirStepAlthoughLaterLaunchesRun) {
  const auto make = [] {
    return net({.device = kGpu, .seed = 3}, {.rule = Adam{.learning_rate = 0.1}},
               {.forward = {}, .reduce = {}, .followers = true});
  };
  const auto program = make(), reference = make();
  std::vector<std::vector<float>> expected = {values(*reference)};
  for (std::uint64_t launch = 0; launch < 4; ++launch) {
    stage(*reference, launch, 3);
    reference->begin().value();
    reference->finish().value();
    expected.push_back(values(*reference));
  }

  // Before the first launch; taken behind the second.
  program->begin_snapshot("net").value();
  for (std::uint64_t launch = 0; launch < 2; ++launch) {
    stage(*program, launch, 3);
    program->begin().value();
    program->finish().value();
  }
  std::optional<Snapshot> got;
  while (!got) got = program->snapshot().value();
  EXPECT_EQ(got->step, 0);
  EXPECT_EQ(copy(*got), expected[0]);

  // While the third is under way; the fourth begins before it is taken.
  stage(*program, 2, 3);
  program->begin().value();
  program->begin_snapshot("net").value();
  while (!program->finished()) EXPECT_FALSE(program->snapshot().value());
  for (int asked = 0; asked < 20; ++asked) {
    EXPECT_FALSE(program->snapshot().value()) << "its step is not known before the launch is finished";
  }
  program->finish().value();
  stage(*program, 3, 3);
  program->begin().value();
  got.reset();
  while (!got) got = program->snapshot().value();
  EXPECT_EQ(got->step, 9);
  EXPECT_EQ(copy(*got), expected[3]);
  program->finish().value();
  EXPECT_EQ(copy(*got), expected[3]) << "until the next one begins";
  EXPECT_EQ(values(*program), expected[4]);
}

TEST_F(SnapshotsTest, NobodyWaitsForOne) {
  const auto program = net({.device = kGpu}, {.rule = Adam{}});
  stage(*program, 1, 2);
  program->begin().value();
  const std::int64_t kernels = emulator().kernels();
  program->begin_snapshot("net").value();
  EXPECT_EQ(emulator().kernels(), kernels);
  program->finish().value();
  int asked = 0;
  while (!program->snapshot().value()) ++asked;
  if (!on_emulator()) return;
  EXPECT_GT(asked, 0) << "the launch is done, and the copy to the host was not waited for";
}

TEST_F(SnapshotsTest, AllocateOnce) {
  const auto program = net({.device = kGpu}, {.rule = Adam{}}, {.forward = {}, .reduce = {}, .followers = true});
  const auto take = [&](const char* group) {
    program->begin_snapshot(group).value();
    while (!program->snapshot().value()) continue;
  };
  take("net");
  const std::int64_t alive = emulator().alive(), allocations = emulator().allocations();
  for (int i = 0; i < 5; ++i) take(i % 2 == 0 ? "net" : "net.target");
  EXPECT_EQ(emulator().alive(), alive);
  EXPECT_EQ(emulator().allocations(), allocations);
}

TEST_F(SnapshotsTest, OfALostGpuAreNone) {
  if (!on_emulator()) GTEST_SKIP() << "no GPU fails on demand";
  const auto program = net({.device = kGpu}, {.rule = Adam{}});
  stage(*program, 1, 2);
  emulator().fail_kernel(3);
  program->begin().value();
  program->begin_snapshot("net").value();
  EXPECT_FALSE(program->finish().ok());
  const auto got = program->snapshot();
  ASSERT_FALSE(got.ok());
  EXPECT_THAT(got.error().message, HasSubstr("cuda:0"));
  EXPECT_FALSE(program->begin_snapshot("net").ok());
  lost_ = true;
}

}  // namespace
}  // namespace troupe::learner
