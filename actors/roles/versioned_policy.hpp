#pragma once
// The policy of everyone who acts for replay, with the version of its parameters and the contract on their staleness.
// Env actors that act by themselves have one, and so do inference servers. The parameter store feeds it: it is the last
// station of the flow learner -> parameter store -> actor.
//
// How it knows what is newest: the store announces each version on a channel of its own, ahead of the parameters. The
// announcement is tiny, so it is there long before a large frame of parameters is. What counts is what the learner has
// published, not its step now: between two publications there is nothing newer to wait for. So a wait always ends, even
// with a bound of 0 and a learner that itself waits for data, since what was announced is on its way.
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <troupe/actors/runtime/topology.hpp>
#include <troupe/learner/engine/policy.hpp>

namespace troupe::actors {

struct StalenessContract {
  /// How many versions older than the newest published ones the acting parameters may be; < 0: no bound.
  std::int64_t max_versions = -1;
  /// Roles that newer parameters come from. While one of them is not alive nobody waits for it: acting with old
  /// parameters is better than not at all.
  std::vector<std::string> sources;
};

/// Ports: in parameters (latest, Parameters), versions (latest, ParametersVersion).
class VersionedPolicy {
 public:
  static std::vector<Port> inlets();

  VersionedPolicy(std::unique_ptr<learner::Policy> policy, StalenessContract staleness);

  /// Takes what has come in, and returns whether the policy may act now: it has parameters, not past the bound.
  /// Errors: of reading and loading parameters.
  Result<bool> refresh(RoleContext& context);
  std::int64_t version() const { return version_; }  ///< -1 before the first parameters
  learner::Policy& policy() { return *policy_; }

  /// Why refresh() was false the last time; empty: it was not.
  std::string waiting_for() const;
  /// Counter stale_wait_s: time during which parameters past the bound kept from acting.
  void report(Report& report) const;

 private:
  /// Has the policy act with these parameters when they are newer than what it has.
  Status load(const Frame& frame);
  bool past_bound(const RoleContext& context) const;

  std::unique_ptr<learner::Policy> policy_;
  StalenessContract staleness_;
  std::int64_t version_ = -1;
  /// The version that was announced last, not the greatest ever: should store and learner both come back from an older
  /// checkpoint, the versions that they announce then are the newest.
  std::int64_t newest_ = -1;
  Duration stale_since_{-1};  ///< < 0: not waiting
  Duration stale_wait_{};
};

}  // namespace troupe::actors
