#pragma once
// Where the steps of the learner role come from: batches that replay sends (actors/roles/replay_batches), or a table in
// the memory of the learner's own GPU (actors/roles/gpu_replay). The learner actor asks for steps in launches, so that
// a GPU works on one while the host sees to what the one before has put out and the next one needs:
//
//   take()   while a launch is under way        begin()   once it is done        done()   with its results
#include <cstdint>
#include <string>

#include <troupe/actors/runtime/role.hpp>
#include <troupe/algorithms/d4pg/learner.hpp>

namespace troupe::actors {

/// Owned by one LearnerActor, whose thread calls it.
class LearnerInput {
 public:
  virtual ~LearnerInput() = default;

  /// Takes in what has come, as far as one launch of at most `most` steps can use it, and sends what replay is to know.
  /// Waits for nothing.
  virtual Status take(RoleContext& context, learner::d4pg::Learner& learner, std::int64_t most) = 0;
  /// Begins as many steps as there is data for, at most `most`; returns how many. None is under way. Errors: those of
  /// Learner::begin(), after which the same data comes again.
  virtual Result<std::int64_t> begin(learner::d4pg::Learner& learner, std::int64_t most) = 0;
  /// The launch has ended well: its results are still the learner's.
  virtual Status done(const learner::d4pg::Learner& learner) = 0;
  /// The last batch of a launch that failed; without columns where it never was on the host.
  virtual BatchView last_batch() const = 0;

  virtual std::string waiting_for() const { return {}; }
  virtual void report(Report&) const {}
  /// Adds its state to the role's, and takes it from there again.
  virtual void save(RoleState& state) const = 0;
  virtual Status restore(const RoleState& state) = 0;
  virtual void committed() {}
};

}  // namespace troupe::actors
