#pragma once
// Where a trainer's steps come from (actors/roles/trainer.hpp): batches that replay sends (replay_feed), replay that
// the trainer holds itself, on its GPU (gpu_replay_feed) or another device (kept_replay_feed), the replica's own data
// (input_feed), or the other side of a GAN (split_gan). The trainer asks for steps in launches, so that a GPU works on
// one while the host sees to what the one before has put out and the next one needs:
//
//   take()   while a launch is under way        begin()   once it is done        done()   with its results
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <troupe/actors/runtime/role.hpp>
#include <troupe/actors/runtime/topology.hpp>
#include <troupe/core/error.hpp>
#include <troupe/learner/replicate/replica.hpp>
#include <troupe/learner/replicate/replicator.hpp>

namespace troupe::actors {

/// Owned by one Trainer, or one worker of a parameter server, whose thread calls it; it outlives the replicator that is
/// fed. A restarted instance has a new one.
class Feed {
 public:
  virtual ~Feed() = default;

  /// What is trained on it: a replica whose input comes from here, or that has data of its own.
  virtual learner::Replica& replica() = 0;
  /// connect() is called once, when the replicator of that replica is there and before restore(); disconnect() is
  /// called before the replicator goes.
  virtual Status connect(learner::Replicator&) { return {}; }
  virtual void disconnect(learner::Replicator&) {}

  /// Takes in what has come, stages as much as one launch of at most `most` steps can use, and sends what others must
  /// know about the launch before. `first`: this member speaks for its group. Waits for nothing. Errors: those of
  /// Replicator::stage() but kUnavailable.
  virtual Status take(RoleContext& context, learner::Replicator& replicator, std::int64_t most, bool first) = 0;
  /// Begins as many steps as there is data for, at most `most`, and returns how many: by default those that take() has
  /// staged. No launch is under way then. Errors: those of Replicator::begin(), after which the same data comes again.
  virtual Result<std::int64_t> begin(learner::Replicator& replicator, std::int64_t most);
  /// Called when the launch has ended well, while its results are still in the program.
  virtual Status done(learner::Replicator&) { return {}; }
  /// The last batch of a launch that failed. It has no columns when it never was on the host.
  virtual BatchView last_batch(const learner::Replicator& replicator) const { return replicator.batch(); }

  virtual std::string waiting_for() const { return {}; }
  virtual void report(const learner::Replicator&, Report&) const {}
  /// Adds its state to the role's, and takes it from there again.
  virtual void save(RoleState&) const {}
  virtual Status restore(const RoleState&) { return {}; }
  virtual void committed() {}
};

/// A way to be fed: the ports that it adds to the trainer's, and how an instance is made, on the instance's thread.
struct FeedSpec {
  std::vector<Port> inlets, outlets;
  std::function<Result<std::unique_ptr<Feed>>(const RoleIdentity&)> make;
};

inline Result<std::int64_t> Feed::begin(learner::Replicator& replicator, std::int64_t) {
  const std::int64_t steps = replicator.staged();
  if (steps > 0) TROUPE_TRY(replicator.begin());
  return steps;
}

/// Makes a replica whose input_fn is given from outside.
using MakeFedReplica = std::function<Result<std::unique_ptr<learner::Replica>>(learner::InputFn)>;

}  // namespace troupe::actors
