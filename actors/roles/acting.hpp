#pragma once
// How an env actor gets what its policy says: from a policy of its own, or from an inference server that runs one
// policy for many env actors (SEED RL, Espeholt et al. 2020). The env actor is the same: it chooses actions
// (algorithms/acting/exploration.hpp) and steps its environments.
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
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
  /// Writes the policy's outputs for `inputs`, all rows at once, and returns the version that gave them. Nullopt: there
  /// are none yet, step() will be called again when that may have changed; ask then again, for the same inputs.
  /// Errors end the instance.
  virtual Result<std::optional<std::int64_t>> act(RoleContext& context, const BatchView& inputs,
                                                  const MutableBatchView& outputs) = 0;
  /// Why there were no outputs the last time; empty: there were some.
  virtual std::string waiting_for() const = 0;
  virtual void report(Report& report) const = 0;
};

/// A policy for as many rows, on a device.
using MakePolicy = std::function<Result<std::unique_ptr<learner::Policy>>(std::int64_t rows, learner::Device device)>;

/// A way of acting: what is said and heard, the ports that it adds to the env actor's, and how an instance is made that
/// acts for `rows` environments.
struct ActingSpec {
  learner::PolicyColumns columns;
  std::vector<Port> inlets, outlets;
  std::function<Result<std::unique_ptr<Acting>>(const RoleIdentity&, std::int64_t rows)> make;
};

/// The env actor has the policy itself, on the processor, with these columns. Ports: those of VersionedPolicy.
ActingSpec local_acting(learner::PolicyColumns columns, MakePolicy make_policy, StalenessContract staleness);

/// The env actor calls an inference server. Port: out inference (request, InferenceRequest). A call has a deadline of 1
/// s; one that fails is made again, at once after a deadline and 0.1 s after a refusal, so that an episode outlives the
/// server's restart. When 5 min go by without an answer, act() fails with the last call's error. The staleness contract
/// is the server's.
ActingSpec remote_acting(learner::PolicyColumns columns);

}  // namespace troupe::actors
