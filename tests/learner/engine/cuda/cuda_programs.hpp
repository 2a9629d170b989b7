#pragma once
// Programs on the emulated device (tests/gpu/emulator), for the tests of what they compute and of how they are
// launched. With TROUPE_TEST_GPU=1 in the environment they run on the first GPU of this machine instead, but for those
// that ask the emulator.
#include <gtest/gtest.h>

#include <cstdint>
#include <cstdlib>

#include <troupe/tests/gpu/emulator/emulator.h>
#include <troupe/learner/engine/program.hpp>
#include <troupe/tests/learner/engine/nets.hpp>

namespace troupe::learner {

inline const Device kGpu = gpu_device(0);

inline const TroupeEmulator& emulator() { return *troupe_cuda_emulator(); }

inline bool on_emulator() { return std::getenv("TROUPE_TEST_GPU") == nullptr; }

class CudaProgramTest : public testing::Test {
 public:
  static void SetUpTestSuite() {
    if (on_emulator()) setenv("TROUPE_PLUGIN_PATH", EMULATED_PLUGINS, 1);
  }

 protected:
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

}  // namespace troupe::learner
