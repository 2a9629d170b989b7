#pragma once
// What a replica's role says to other roles around its steps, when it does not train alone: the seam through which
// ReplicaActor serves for both sides of a GAN (actors/roles/split_gan.hpp).
#include <functional>
#include <memory>
#include <vector>

#include <troupe/actors/runtime/role.hpp>
#include <troupe/actors/runtime/topology.hpp>
#include <troupe/core/error.hpp>
#include <troupe/learner/engine/program.hpp>
#include <troupe/learner/replicate/replica.hpp>

namespace troupe::actors {

/// Belongs to one instance of the role and lives on its thread. What a step may have to do without (another role's
/// newest parameters) it keeps as it is; a restarted instance begins with a new one.
class ReplicaExchange {
 public:
  virtual ~ReplicaExchange() = default;
  /// What the instance trains; its input may come through this exchange.
  virtual learner::Replica& replica() = 0;
  /// Takes into the program, and keeps for the input, what has come. False: the step has to wait for a channel, and the
  /// role is to idle.
  virtual Result<bool> before_step(RoleContext& context, learner::Program& program) = 0;
  /// Sends what the step has made of that batch. first: this member speaks for its group.
  virtual Status after_step(RoleContext& context, learner::Program& program, const BatchView& batch, bool first) = 0;
  virtual void report(Report&) const {}
};

struct ReplicaExchangeSpec {
  std::function<Result<std::unique_ptr<ReplicaExchange>>()> make;  ///< called on the role's thread, once an instance
  std::vector<Port> inlets;
  std::vector<Port> outlets;
};

}  // namespace troupe::actors
