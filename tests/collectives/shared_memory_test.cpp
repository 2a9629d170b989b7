// The conformance suite on shared memory, with threads as ranks, and what is this back end's own.
#include <troupe/collectives/shared_memory.hpp>

#include <gtest/gtest.h>

#include <condition_variable>
#include <map>
#include <mutex>

#include <troupe/tests/collectives/conformance.hpp>
#include <troupe/tests/collectives/in_shareable_memory.hpp>

namespace troupe::collectives {
namespace {

/// Brings tickets by memory of this process.
class SharedMemoryWorld {
 public:
  std::unique_ptr<Communicator> make() {
    return make_shared_memory_communicator(
        [this](const GroupView& view, std::string mine, auto deadline) -> Result<std::string> {
          std::unique_lock lock(mutex_);
          if (view.rank == 0) tickets_[view.epoch] = std::move(mine);
          came_.notify_all();
          if (!came_.wait_until(lock, deadline, [&] { return tickets_.contains(view.epoch); })) {
            return Error{Code::kDeadlineExceeded, "rank 0 did not come"};
          }
          return tickets_[view.epoch];
        });
  }
  Result<std::unique_ptr<Communicator>> join(const GroupView& view, Duration timeout) {
    std::unique_ptr<Communicator> communicator = make();
    TROUPE_TRY(communicator->reform(view, timeout));
    return communicator;
  }

 private:
  std::mutex mutex_;
  std::condition_variable came_;
  std::map<std::uint64_t, std::string> tickets_;
};

/// Values in shareable memory, which ranks take where they lie: of every rank, or of every other one.
template <int kEvery>
class ShareableWorld {
 public:
  Result<std::unique_ptr<Communicator>> join(const GroupView& view, Duration timeout) {
    TROUPE_ASSIGN(std::unique_ptr<Communicator> communicator, world_.join(view, timeout));
    if (view.rank % kEvery == 0) communicator = std::make_unique<InShareableMemory>(std::move(communicator));
    return communicator;
  }

 private:
  SharedMemoryWorld world_;
};

INSTANTIATE_TYPED_TEST_SUITE_P(SharedMemory, CommunicatorConformance, SharedMemoryWorld);
INSTANTIATE_TYPED_TEST_SUITE_P(ShareableMemory, CommunicatorConformance, ShareableWorld<1>);
INSTANTIATE_TYPED_TEST_SUITE_P(PartlyShareableMemory, CommunicatorConformance, ShareableWorld<2>);

}  // namespace
}  // namespace troupe::collectives
