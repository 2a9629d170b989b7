// The conformance suite on shared memory, with threads as ranks, and what is this back end's own.
#include <troupe/collectives/shared_memory.hpp>

#include <gtest/gtest.h>

#include <condition_variable>
#include <map>
#include <mutex>

#include <troupe/tests/collectives/conformance.hpp>

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

INSTANTIATE_TYPED_TEST_SUITE_P(SharedMemory, CommunicatorConformance, SharedMemoryWorld);

}  // namespace
}  // namespace troupe::collectives
