#pragma once
// Writes a node's part of a cut to disk, on a thread of its own, while the roles go on. One for each node that has
// somewhere to write; spawned and asked by the NodeActor.
#include <functional>
#include <memory>

#include <troupe/actors/protocol.hpp>
#include <troupe/core/error.hpp>

namespace troupe::actors {

/// Writes a cut where it belongs; may block for the disk.
using CutWriterFunction = std::function<Status(std::shared_ptr<const Cut>)>;

/// Understands write_atom with a cut; answers written_atom with a WrittenMessage.
class CutWriter final : public caf::event_based_actor {
 public:
  CutWriter(caf::actor_config& config, CutWriterFunction write)
      : caf::event_based_actor(config), write_(std::move(write)) {}

  caf::behavior make_behavior() override;
  const char* name() const override { return "troupe.cut_writer"; }

 private:
  CutWriterFunction write_;
};

}  // namespace troupe::actors
