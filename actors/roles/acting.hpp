#pragma once
// How an env actor gets its actions: from a policy of its own, or from an inference server that runs one policy for
// many env actors (SEED RL, Espeholt et al. 2020). The env actor is the same; it adds noise and steps its environment.
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <troupe/actors/roles/versioned_policy.hpp>
#include <troupe/actors/runtime/topology.hpp>

namespace troupe::actors {

class Acting {
 public:
  virtual ~Acting() = default;
  /// Takes what has come in. Once in each step() of the env actor, also in one that cannot act: parameters that are
  /// left waiting keep newer ones back.
  virtual Status refresh(RoleContext& context) = 0;
  /// Writes the policy's action for `observation`, without noise, and returns the version that chose it. Nullopt: there
  /// is none yet, step() will be called again when that may have changed; ask then again, for the same observation.
  /// Errors end the instance.
  virtual Result<std::optional<std::int64_t>> act(RoleContext& context, std::span<const float> observation,
                                                  std::span<float> action) = 0;
  /// Why there was no action the last time; empty: there was one.
  virtual std::string waiting_for() const = 0;
  virtual void report(Report& report) const = 0;
};

/// A way of acting: the ports that it adds to the env actor's, and how an instance is made.
struct ActingSpec {
  std::vector<Port> inlets, outlets;
  std::function<Result<std::unique_ptr<Acting>>(const RoleIdentity&)> make;
};

/// With a policy in the env actor. Ports: those of VersionedPolicy.
ActingSpec local_acting(std::function<Result<std::unique_ptr<learner::Policy>>()> make_policy,
                        StalenessContract staleness);

/// By calls to an inference server. Port: out inference (request, InferenceRequest). A call has a deadline of 1 s; one
/// that fails is made again, at once after a deadline and 0.1 s after a refusal, so that an episode outlives the
/// server's restart. When 5 min go by without an answer, act() fails with the last call's error. The staleness contract
/// is the server's.
ActingSpec remote_acting();

}  // namespace troupe::actors
