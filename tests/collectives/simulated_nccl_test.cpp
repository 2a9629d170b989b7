// That the simulated NCCL has NCCL's rules, by its own functions: what the tests of the back end rely on. Whoever waits
// here does so for a moment, since what hangs would do so for ever.
#include <cuda_runtime_api.h>
#include <gtest/gtest.h>
#include <nccl.h>

#include <chrono>
#include <thread>
#include <vector>

#include <troupe/tests/collectives/simulated_nccl/simulated_nccl.hpp>

namespace troupe::collectives {
namespace {

using namespace std::chrono_literals;

ncclResult_t state_of(ncclComm_t comm) {
  ncclResult_t state = ncclInternalError;
  EXPECT_EQ(ncclCommGetAsyncError(comm, &state), ncclSuccess);
  return state;
}

/// What becomes of it, or still ncclInProgress.
ncclResult_t settled(ncclComm_t comm, std::chrono::milliseconds within = 2s) {
  const auto end = std::chrono::steady_clock::now() + within;
  ncclResult_t state = state_of(comm);
  while (state == ncclInProgress && std::chrono::steady_clock::now() < end) {
    std::this_thread::sleep_for(100us);
    state = state_of(comm);
  }
  return state;
}

/// Two ranks of one thread, on devices 0 and 1.
class SimulatedNccl : public testing::Test {
 protected:
  void SetUp() override {
    simulated_nccl::reset();
    ASSERT_EQ(ncclGetUniqueId(&id_), ncclSuccess);
  }
  void TearDown() override {
    for (int rank = 0; rank < 2; ++rank) {
      if (comms_[rank]) ncclCommAbort(comms_[rank]);
      if (streams_[rank]) cudaStreamDestroy(streams_[rank]);
    }
    EXPECT_EQ(simulated_nccl::counts().communicators, 0);
  }
  void come(int rank, int device) {
    ASSERT_EQ(cudaSetDevice(device), cudaSuccess);
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;
    ASSERT_EQ(ncclCommInitRankConfig(&comms_[rank], 2, id_, rank, &config), ncclInProgress);
    ASSERT_EQ(cudaStreamCreateWithFlags(&streams_[rank], cudaStreamNonBlocking), cudaSuccess);
  }
  void both_come() {
    come(0, 0);
    come(1, 1);
    ASSERT_EQ(settled(comms_[0]), ncclSuccess);
    ASSERT_EQ(settled(comms_[1]), ncclSuccess);
  }
  void reduce(int rank, std::vector<float>& x, ncclRedOp_t op = ncclSum) {
    const ncclResult_t begun = ncclAllReduce(x.data(), x.data(), x.size(), ncclFloat, op, comms_[rank], streams_[rank]);
    ASSERT_TRUE(begun == ncclSuccess || begun == ncclInProgress);
  }
  bool is_done(int rank, std::chrono::milliseconds within) {
    const auto end = std::chrono::steady_clock::now() + within;
    while (cudaStreamQuery(streams_[rank]) == cudaErrorNotReady) {
      if (std::chrono::steady_clock::now() >= end) return false;
      (void)state_of(comms_[rank]);
      std::this_thread::sleep_for(100us);
    }
    return true;
  }

  ncclUniqueId id_{};
  ncclComm_t comms_[2] = {};
  cudaStream_t streams_[2] = {};
};

TEST_F(SimulatedNccl, InitIsInProgressUntilTheLastRankComes) {
  come(0, 0);
  EXPECT_EQ(settled(comms_[0], 20ms), ncclInProgress);
  come(1, 1);
  EXPECT_EQ(settled(comms_[0]), ncclSuccess);
  EXPECT_EQ(settled(comms_[1]), ncclSuccess);
}

TEST_F(SimulatedNccl, RefusesTwoRanksOnOneDevice) {
  come(0, 3);
  come(1, 3);
  EXPECT_EQ(settled(comms_[1]), ncclInvalidUsage);
  EXPECT_STREQ(ncclGetLastError(comms_[1]), "Duplicate GPU detected : rank 1 and rank 0 both on CUDA device 3");
}

TEST_F(SimulatedNccl, ReducesOnceAllRanksHaveCalled) {
  both_come();
  std::vector<float> x(5, 1.0f);
  std::vector<float> y(5, 2.0f);
  reduce(0, x);
  EXPECT_EQ(settled(comms_[0], 20ms), ncclInProgress) << "the first call connects";
  EXPECT_FALSE(is_done(0, 20ms));
  reduce(1, y);
  EXPECT_EQ(settled(comms_[0]), ncclSuccess);
  EXPECT_TRUE(is_done(0, 2s));
  EXPECT_TRUE(is_done(1, 2s));
  EXPECT_EQ(x, std::vector<float>(5, 3.0f));
  EXPECT_EQ(y, x);
  EXPECT_EQ(simulated_nccl::collectives(), 1);
}

TEST_F(SimulatedNccl, HangsWhereRanksCallDifferentThings) {
  both_come();
  std::vector<float> x(5, 1.0f);
  std::vector<float> y(5, 2.0f);
  reduce(0, x, ncclSum);
  reduce(1, y, ncclMax);
  EXPECT_EQ(settled(comms_[0]), ncclSuccess);
  EXPECT_FALSE(is_done(0, 50ms));
  EXPECT_FALSE(is_done(1, 1ms));
  EXPECT_EQ(state_of(comms_[0]), ncclSuccess) << "and nobody is told";
  EXPECT_EQ(x, std::vector<float>(5, 1.0f));
}

TEST_F(SimulatedNccl, AnAbortEndsWhatWaitsAMomentLater) {
  both_come();
  std::vector<float> x(5, 1.0f);
  std::vector<float> y(5, 1.0f);
  simulated_nccl::stop_device(1);
  reduce(0, x);
  reduce(1, y);
  EXPECT_EQ(settled(comms_[0]), ncclSuccess);
  EXPECT_FALSE(is_done(0, 20ms));
  EXPECT_EQ(ncclCommAbort(comms_[0]), ncclSuccess);
  comms_[0] = nullptr;
  EXPECT_EQ(cudaStreamQuery(streams_[0]), cudaErrorNotReady);
  std::this_thread::sleep_for(10ms);
  EXPECT_EQ(cudaStreamQuery(streams_[0]), cudaSuccess);
  EXPECT_NE(x[0], x[0]) << "it wrote until it ended";
}

TEST_F(SimulatedNccl, ARevokedCommunicatorTakesNoCallAndCanBeAborted) {
  both_come();
  std::vector<float> x(5, 1.0f);
  EXPECT_EQ(ncclCommRevoke(comms_[0], 0), ncclSuccess);
  EXPECT_EQ(ncclCommRevoke(comms_[0], 0), ncclInvalidArgument);
  EXPECT_EQ(ncclAllReduce(x.data(), x.data(), x.size(), ncclFloat, ncclSum, comms_[0], streams_[0]), ncclInvalidUsage);
}

TEST_F(SimulatedNccl, TellsTheOthersOfAProcessThatDied) {
  both_come();
  std::vector<float> x(5, 1.0f);
  std::vector<float> y(5, 1.0f);
  reduce(0, x);
  simulated_nccl::kill_device(1, 20ms);
  EXPECT_NE(state_of(comms_[0]), ncclRemoteError);
  std::this_thread::sleep_for(30ms);
  EXPECT_EQ(state_of(comms_[0]), ncclRemoteError);
  EXPECT_FALSE(is_done(0, 5ms)) << "what waits on the device does not hear of it";
}

TEST_F(SimulatedNccl, CountsWhatIsNotAllowed) {
  both_come();
  std::vector<float> x(5, 1.0f);
  EXPECT_EQ(simulated_nccl::counts().foreign_calls, 0);
  std::thread([&] { (void)state_of(comms_[0]); }).join();
  EXPECT_EQ(simulated_nccl::counts().foreign_calls, 1);
  EXPECT_EQ(simulated_nccl::counts().misuses, 0);
  reduce(0, x);
  EXPECT_EQ(ncclAllReduce(x.data(), x.data(), x.size(), ncclFloat, ncclSum, comms_[0], streams_[0]),
            ncclInvalidArgument)
      << "while the first is in progress";
  EXPECT_EQ(simulated_nccl::counts().misuses, 1);
}

TEST_F(SimulatedNccl, MultipliesWithEachRanksFactor) {
  both_come();
  std::vector<float> x(5, 1.0f);
  std::vector<float> y(5, 2.0f);
  ncclRedOp_t ops[2] = {};
  float factors[2] = {10, 100};
  for (int rank = 0; rank < 2; ++rank) {
    ASSERT_EQ(ncclRedOpCreatePreMulSum(&ops[rank], &factors[rank], ncclFloat, ncclScalarHostImmediate, comms_[rank]),
              ncclSuccess);
  }
  reduce(0, x, ops[0]);
  reduce(1, y, ops[1]);
  EXPECT_EQ(settled(comms_[0]), ncclSuccess);
  EXPECT_EQ(settled(comms_[1]), ncclSuccess);
  EXPECT_TRUE(is_done(0, 2s));
  EXPECT_EQ(x, std::vector<float>(5, 210.0f));
  EXPECT_EQ(simulated_nccl::counts().operators, 2);
  EXPECT_EQ(ncclRedOpDestroy(ops[0], comms_[0]), ncclSuccess);
  EXPECT_EQ(ncclRedOpDestroy(ops[0], comms_[0]), ncclInvalidArgument);
}

}  // namespace
}  // namespace troupe::collectives
