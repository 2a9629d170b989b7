#pragma once
// Writes a node's part of a cut to disk, on a thread of its own, while the roles go on; removes old ones and verifies
// those that a run is to go on from. One for each node that has somewhere to write; spawned and asked by the NodeActor.
#include <functional>
#include <memory>
#include <utility>

#include <troupe/actors/control/committed_cuts.hpp>
#include <troupe/actors/runtime/protocol.hpp>
#include <troupe/core/error.hpp>

namespace troupe::actors {

/// Writes a cut where it belongs; may block for the disk.
using CutWriterFunction = std::function<Status(std::shared_ptr<const Cut>)>;

/// Understands write_atom with a cut (answers written_atom with a WrittenMessage), keep_atom with the numbers of the
/// cuts whose parts are to stay, and check_atom with PartNames (answers with PartsChecked).
class CutWriter final : public caf::event_based_actor {
 public:
  CutWriter(caf::actor_config& config, CutWriterFunction write, CutParts parts)
      : caf::event_based_actor(config), write_(std::move(write)), parts_(std::move(parts)) {}

  caf::behavior make_behavior() override;
  const char* name() const override { return "troupe.cut_writer"; }

 private:
  CutWriterFunction write_;
  CutParts parts_;
};

}  // namespace troupe::actors
