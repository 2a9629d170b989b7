#pragma once
// What a trainer hands out of what it has learnt, and when: every so many versions to those who act
// (policy_publication), or every so many steps to those who judge (evaluation_publication). A station of the flow
// trainer -> parameter store -> actor.
#include <functional>
#include <memory>
#include <vector>

#include <troupe/actors/runtime/group_member.hpp>
#include <troupe/actors/runtime/role.hpp>
#include <troupe/actors/runtime/topology.hpp>
#include <troupe/core/error.hpp>
#include <troupe/learner/engine/program.hpp>

namespace troupe::actors {

/// Owned by one Trainer, or one worker of a parameter server, whose thread calls it. In a group the member that speaks
/// for it publishes, and any member may be the next to do so. `program` may be another one when a group has a new size.
class Publication {
 public:
  virtual ~Publication() = default;

  /// Waits for what is on its way out of the program. Called before the group takes up a new epoch, in which the
  /// program may go.
  virtual Status settle(RoleContext&, learner::Program&) { return {}; }
  /// Makes the members of a new epoch agree on what they publish; they agree on the parameters already.
  virtual Status join(const GroupMember&, learner::Program&) { return {}; }
  /// Takes in what has come, and sends what has become ready. Called once in each step() of the trainer.
  virtual Status advance(RoleContext&, learner::Program&) { return {}; }
  /// Publishes if it is due; `last`: it is due because there is no later step. Returns whether nothing is left to
  /// publish; false: call again when a consumer has room. No launch is under way.
  virtual Result<bool> publish_if_due(RoleContext& context, learner::Program& program, const GroupMember& member,
                                      bool last) = 0;
  /// Whether something is on its way out of the program.
  virtual bool pending() const { return false; }

  virtual void report(const learner::Program&, const GroupMember&, Report&) const {}
  /// The program goes on from a checkpoint of this step.
  virtual void restore(std::int64_t) {}
};

/// A way to publish: the ports that it adds to the trainer's, and how an instance is made.
struct PublicationSpec {
  std::vector<Port> inlets, outlets;
  std::function<Result<std::unique_ptr<Publication>>(const RoleIdentity&)> make;  ///< null: nobody wants to know
};

}  // namespace troupe::actors
