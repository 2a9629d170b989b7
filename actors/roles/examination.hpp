#pragma once
// How one version of what was learnt is judged: by whole episodes of an agent's environment, or by a model's own data.
// Passive: the evaluator (actors/roles/evaluator.hpp) says when, and how far.
#include <functional>
#include <memory>

#include <troupe/actors/roles/episode_runner.hpp>
#include <troupe/actors/roles/replica_model.hpp>
#include <troupe/actors/runtime/role.hpp>
#include <troupe/core/error.hpp>
#include <troupe/learner/judging/judge.hpp>
#include <troupe/messages/parameters.hpp>

namespace troupe::actors {

/// prepare() until it is true; then for each version begin(), advance() until it is done, verdict().
class Examination {
 public:
  virtual ~Examination() = default;

  /// Does a bounded slice of what is needed once, before the first version. True when nothing is left.
  virtual Result<bool> prepare() { return true; }
  /// Takes the parameters in. An error is about the message; nothing has changed then.
  virtual Status begin(const messages::ParametersView& parameters) = 0;
  /// Works for some milliseconds. kIdle: there is no data yet, ask again after kInputPatience; kDone: this was the last
  /// slice.
  virtual Result<Progress> advance() = 0;
  /// Called once, after the last slice.
  virtual Result<learner::Verdict> verdict() = 0;
};

using MakeExamination = std::function<Result<std::unique_ptr<Examination>>(const RoleIdentity&)>;

/// Judges by whole episodes without exploration noise; gives the values of values_of_returns(). The start states follow
/// from the identity's seed and from how many versions were judged before.
MakeExamination examine_by_episodes(EpisodeRunnerOptions options);
/// Runs the model's evaluation over all of its data, in the same order each time, and gives what its judge says.
MakeExamination examine_by_data(ReplicaModel model);

}  // namespace troupe::actors
