// The conformance suite on the NCCL back end over a simulated NCCL, with threads as ranks, each with a device of its
// own. After each test nothing of NCCL's or CUDA's is left, and nobody but its owner has touched a communicator.
#include <gtest/gtest.h>

#include <troupe/collectives/in_process.hpp>
#include <troupe/collectives/nccl.hpp>
#include <troupe/tests/collectives/conformance.hpp>
#include <troupe/tests/collectives/simulated_nccl/simulated_nccl.hpp>

namespace troupe::collectives {
namespace {

class NcclWorld {
 public:
  NcclWorld() { simulated_nccl::reset(); }
  ~NcclWorld() {
    const simulated_nccl::Counts left = simulated_nccl::counts();
    EXPECT_EQ(left.communicators, 0);
    EXPECT_EQ(left.streams, 0);
    EXPECT_EQ(left.events, 0);
    EXPECT_EQ(left.foreign_calls, 0);
    EXPECT_EQ(left.misuses, 0);
  }

  Result<std::unique_ptr<Communicator>> join(const GroupView& view, Duration timeout) {
    TROUPE_ASSIGN(std::unique_ptr<Communicator> communicator,
                  make_nccl_communicator(hub_.make(), {.device = view.rank, .library = TROUPE_SIMULATED_NCCL}));
    TROUPE_TRY(communicator->reform(view, timeout));
    return communicator;
  }

 private:
  InProcessHub hub_;
};

}  // namespace

template <>
struct Documented<NcclWorld> {
  static constexpr bool kTree = false;  // sums go in NCCL's order
  static constexpr bool kBf16 = false;  // NCCL would add up in bfloat16 as well
};

namespace {

INSTANTIATE_TYPED_TEST_SUITE_P(SimulatedNccl, CommunicatorConformance, NcclWorld);

}  // namespace
}  // namespace troupe::collectives
