#pragma once
// The inference server: one policy for many env actors (SEED RL, Espeholt et al. 2020), which call it with a row for
// each of their environments. It runs the policy for a batch of rows at once, since a batched forward pass costs far
// less than as many single ones, and env actors then need neither the network nor its parameters.
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <troupe/actors/roles/acting.hpp>
#include <troupe/actors/roles/versioned_policy.hpp>
#include <troupe/actors/runtime/topology.hpp>
#include <troupe/messages/inference.hpp>

namespace troupe::actors {

struct InferenceActorOptions {
  std::int64_t producers = 1;   ///< instances of the role that calls
  std::int64_t rows = 1;        ///< of a request at most: environments of an env actor
  std::int64_t batch_size = 1;  ///< a batch is run when it holds so many rows,
  Duration max_wait{};          ///< or when its first row has waited so long
  MakePolicy make_policy;
  StalenessContract staleness;
  std::vector<learner::Device> devices = {};  ///< server i acts on the i-th modulo their count
};

/// Ports: in requests (request, InferenceRequest) and those of VersionedPolicy. Requests wait while there are no
/// parameters that may act. A newer request of a producer takes the place of its older one, which that producer has
/// given up, so no more wait than there are producers. A request is refused (kCancelled) and counted when the policy
/// cannot take it or its producer does not exist.
class InferenceActor final : public Role {
 public:
  static RoleSpec spec(std::string name, std::int64_t count, const InferenceActorOptions& options);
  static Result<std::unique_ptr<Role>> make(const InferenceActorOptions& options, const RoleIdentity& identity);

  Result<Progress> step(RoleContext& context) override;
  std::string waiting_for() const override { return policy_.waiting_for(); }
  void report(Report& report) const override;

 private:
  InferenceActor(const InferenceActorOptions& options, const RoleIdentity& identity,
                 std::unique_ptr<learner::Policy> policy);

  Status check(const messages::InferenceRequest& request);
  void take_requests(RoleContext& context);
  std::int64_t waiting_rows() const;
  /// Answers the oldest requests, as many as fit.
  Status run_batch(RoleContext& context);

  struct Waiting {
    Frame frame;
    messages::InferenceRequest request;  // leads into the frame
    std::function<void(Frame)> answer;
    Duration since{};
  };

  InferenceActorOptions options_;
  RoleIdentity identity_;
  VersionedPolicy policy_;
  std::vector<Waiting> waiting_;            // oldest first
  std::shared_ptr<const Signature> given_;  // columns of an answer
  BatchBuffer inputs_, outputs_;
  std::int64_t requests_ = 0;  // answered
  std::int64_t batches_ = 0;
  std::int64_t refused_ = 0;
};

}  // namespace troupe::actors
