#pragma once
// The role of a parameter server's shard: a shell around learner/replicate/parameter_server/shard. Its state is part of
// every cut, and a restarted instance goes on from the last one.
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include <troupe/actors/roles/parameter_server.hpp>

namespace troupe::actors {

/// Ports: in pull (request, ParametersPull; answered with Parameters), push (request, Gradient; answered with
/// GradientAnswer). A pull waits until its version is there; a newer one of the same worker takes its place, so no more
/// wait than there are workers. A gradient that is not for this shard, or not finite, is refused (kCancelled) and
/// counted.
class PsActor final : public Role {
 public:
  static RoleSpec spec(const ParameterServerOptions& options);
  static Result<std::unique_ptr<Role>> make(const ParameterServerOptions& options, const RoleIdentity& identity);

  Result<Progress> step(RoleContext& context) override;
  std::string waiting_for() const override;
  void report(Report& report) const override;
  Result<RoleState> save() const override;
  Status restore(const RoleState& state) override;

 private:
  PsActor(const ParameterServerOptions& options, const RoleIdentity& identity,
          std::unique_ptr<learner::ParameterShard> shard);

  /// Takes one gradient, unless the shard has no memory for another version. Returns whether it has dealt with one.
  Result<bool> take_gradient(RoleContext& context);
  void take_pulls(RoleContext& context);
  void answer_pulls(RoleContext& context);
  /// Ends a synchronous step whose time is up.
  Status end_late_step(RoleContext& context);
  void refuse(const Error& error);

  struct Push {
    Frame frame;
    std::function<void(Frame)> answer;
  };
  struct Pull {
    messages::ParametersPull request;
    std::function<void(Frame)> answer;
  };

  ParameterServerOptions options_;
  RoleIdentity identity_;
  std::unique_ptr<learner::ParameterShard> shard_;
  std::optional<Push> push_;            ///< waits for memory
  std::vector<Pull> pulls_;             ///< in the order of arrival
  std::optional<Duration> step_began_;  ///< synchronous: when the first gradient of the step came
  std::int64_t refused_ = 0;
  std::int64_t late_steps_ = 0;  ///< that ended by straggler_timeout
  std::int64_t push_bytes_ = 0, pull_bytes_ = 0;
};

}  // namespace troupe::actors
