#pragma once
// The role of a parameter server's worker: a shell around learner/replicate/parameter_server/worker, which takes its
// steps on what its feed gives as a Trainer's replicator does (actors/roles/trainer.hpp). Pulls the parameters of all
// shards, computes a gradient at them, pushes a piece of it to each, and begins again, shard by shard as their answers
// come. The data of the next step comes meanwhile.
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <troupe/actors/roles/parameter_server.hpp>

namespace troupe::actors {

/// Ports: out pull (request, ParametersPull), push (request, Gradient), and those of its feed and its publication. Done
/// when every shard has made its last update. A call that fails is not repeated but begun anew: after a lost push with
/// a pull, after a lost pull with another one. Fails when a shard has answered nothing for kGiveUpAfter, or has refused
/// kMaxRefused gradients in a row.
class PsWorkerActor final : public Role {
 public:
  static RoleSpec spec(const ParameterServerOptions& options);
  static Result<std::unique_ptr<Role>> make(const ParameterServerOptions& options, const RoleIdentity& identity);

  Result<Progress> step(RoleContext& context) override;
  std::string waiting_for() const override;
  void report(Report& report) const override;
  /// Replica state and how many batches it has taken, so that its input goes on behind them; and its feed's.
  Result<RoleState> save() const override;
  Status restore(const RoleState& state) override;

  /// Longer than any restart of a shard.
  static constexpr Duration kGiveUpAfter = std::chrono::minutes(5);
  static constexpr std::int64_t kMaxRefused = 10;

 private:
  /// Where this worker stands with one shard.
  struct Shard {
    enum class State : std::uint8_t { kPull, kPulling, kLoaded, kPush, kPushing };
    State state = State::kPull;
    std::int64_t at_least = 0;  ///< kPull
    Frame gradient;             ///< kPush
    Duration not_before{};      ///< kPull: after a refusal
    Duration answered{};        ///< when it last did, or this worker began to wait for it
    std::int64_t refused = 0;   ///< in a row
    std::string last_error;
    std::optional<messages::ParametersView> parameters;  ///< came, and are not loaded yet
  };

  PsWorkerActor(const ParameterServerOptions& options, const RoleIdentity& identity)
      : options_(options), identity_(identity), shards_(static_cast<std::size_t>(options.shards)) {}

  bool is_first() const { return identity_.index == 0; }
  /// Builds the replica. Not in make(), because where its input begins is known only after restore().
  Status start();
  Status restore_program();
  /// Moves on with each shard as far as that goes.
  Status talk(RoleContext& context);
  Status pull(RoleContext& context, std::size_t index);
  void push(RoleContext& context, std::size_t index);
  void pushed(Shard& shard, std::int64_t version, const Result<Frame>& answer);
  bool all(Shard::State state) const;
  /// Whether nothing is left to publish of the version that is loaded.
  Result<bool> publish_if_due(RoleContext& context, bool last);
  /// A gradient at the parameters that are loaded, to be pushed, if there is data for one.
  Result<Progress> compute(RoleContext& context);

  ParameterServerOptions options_;
  RoleIdentity identity_;
  GroupMember alone_{nullptr};  ///< workers meet at their server, in no group
  std::unique_ptr<Feed> feed_;
  std::unique_ptr<Publication> publication_;                ///< null: nobody wants to know
  std::unique_ptr<learner::ParameterServerWorker> worker_;  ///< after the feed, whose replica it runs
  std::vector<Shard> shards_;
  RoleState restored_;     ///< until the start
  std::int64_t lost_ = 0;  ///< pushes without an answer
};

}  // namespace troupe::actors
