#pragma once
// Writes a node's part of a cut to disk, on a thread of its own, while the roles go on; removes old ones and verifies
// those that a run is to go on from. One for each node that has somewhere to write; spawned and asked by the NodeActor.
#include <functional>
#include <memory>

#include <troupe/actors/control/runtime_options.hpp>
#include <troupe/actors/runtime/protocol.hpp>

namespace troupe::actors {

/// Understands write_atom with a cut (answers written_atom with a WrittenMessage), keep_atom with the numbers of the
/// cuts whose parts are to stay, and check_atom with PartNames (answers with PartsChecked).
class CutWriter final : public caf::event_based_actor {
 public:
  /// `options` outlives the actor.
  CutWriter(caf::actor_config& config, const RuntimeOptions& options)
      : caf::event_based_actor(config), write_(options.write_cut), parts_(options.node.parts) {}

  caf::behavior make_behavior() override;
  const char* name() const override { return "troupe.cut_writer"; }

 private:
  const std::function<Status(std::shared_ptr<const Cut>)>& write_;
  const CutParts& parts_;
};

}  // namespace troupe::actors
