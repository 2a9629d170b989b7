#pragma once
// The checkpointer asks the supervisor for a cut every period, or when told to, and writes it on a thread of its own
// while the roles go on. Spawned by the runtime when there is something to write with.
#include <functional>
#include <optional>
#include <vector>

#include <troupe/actors/protocol.hpp>
#include <troupe/core/clock.hpp>
#include <troupe/core/error.hpp>

namespace troupe::actors {

/// Writes a cut where it belongs; may block for the disk. A failure is logged, and the next period tries again.
using CutWriter = std::function<Status(std::shared_ptr<const Cut>)>;

/// Understands checkpoint_atom: writes one now, answered with CheckpointDone when it is on disk or has failed. Requests
/// that come while one is being taken share the next one.
class Checkpointer final : public caf::event_based_actor {
 public:
  Checkpointer(caf::actor_config& config, caf::actor supervisor, CutWriter writer, Duration period);

  caf::behavior make_behavior() override;
  void on_exit() override { supervisor_ = nullptr; }
  const char* name() const override { return "troupe.checkpointer"; }

 private:
  void ask();
  void write(const CutMessage& message);

  caf::actor supervisor_;
  CutWriter writer_;
  Duration period_;
  bool asked_ = false;
  std::vector<caf::response_promise> waiting_;  ///< answered by the cut that has been asked for
  std::vector<caf::response_promise> next_;     ///< by the one after it; at most as many as there are callers
};

}  // namespace troupe::actors
