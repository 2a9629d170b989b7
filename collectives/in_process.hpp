#pragma once
// Communicator between threads of one process: ranks meet in shared memory, and whoever waits reduces, chunk by chunk,
// straight from and to the ranks' own buffers. Used when replicas are threads (one machine without NCCL, and all
// tests).
#include <cstdint>
#include <memory>

#include <troupe/collectives/communicator.hpp>

namespace troupe::collectives {

/// Where the ranks of one set of replicas meet. Shared by all of them; safe to call from any thread.
class InProcessHub {
 public:
  InProcessHub();
  ~InProcessHub();
  InProcessHub(const InProcessHub&) = delete;
  InProcessHub& operator=(const InProcessHub&) = delete;

  /// A communicator that is in no group yet: reform() puts it in one. The hub must outlive it.
  std::unique_ptr<Communicator> make();

  /// The same in one step: joins the group of view.epoch as view.rank and waits until all view.size ranks have.
  /// Errors: as Communicator::reform; kAlreadyExists when the rank has been taken.
  Result<std::unique_ptr<Communicator>> join(const GroupView& view, Duration timeout);

 private:
  friend class InProcessCommunicator;
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace troupe::collectives
