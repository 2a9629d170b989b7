#pragma once
// What the feeds have in common whose trainer holds replay: trajectories go to the trainer's node and into a table
// there, which lives and dies with the trainer, whose part of a checkpoint holds it. Where its rows lie, and who draws
// them, is the business of gpu_replay_feed (a table in a GPU's memory) and kept_replay_feed (rows in that of a device
// behind a PJRT plug-in).
//
// Of a group each trainer has a table of its own, which is a shard of the whole (replay/shards.hpp) whatever the others
// hold, and draws its rows of a step from there: a batch is then drawn in strata of equal size, one a shard. Env actors
// deal out their trajectories, first to whoever has room. A trainer whose shard admits no batch keeps the others
// waiting, as any member of a group does that has no input.
#include <cstdint>
#include <memory>
#include <string>

#include <troupe/actors/roles/feed.hpp>
#include <troupe/actors/roles/replay_intake.hpp>

namespace troupe::actors {

struct HeldReplayFeedOptions {
  MakeFedReplica make_replica;
  Signature signature;  ///< of the replica's input: the table's columns and, when it is prioritised, "weight"
  ReplayActorOptions replay;
  /// The exponent of the weights in the step's input "weight", see importance_weights(). 0: there is no such input, and
  /// priorities stay as they came. Else the step's output `priority_output` gives the new ones.
  double importance_exponent = 0;
  std::string priority_output = "td_error";
};

/// Port: in trajectories (stream, Trajectory), see ReplayIntake.
class HeldReplayFeed : public Feed {
 public:
  /// Once, before all else. Errors: those of the options' make_replica.
  Status make_replica();
  learner::Replica& replica() override { return *replica_; }

  Status take(RoleContext& context, learner::Replicator&, std::int64_t, bool) override;
  BatchView last_batch(const learner::Replicator&) const override { return {}; }
  std::string waiting_for() const override;
  void report(const learner::Replicator&, Report& report) const override { intake_->report(report); }
  void save(RoleState& state) const override { intake_->save(state); }
  Status restore(const RoleState& state) override { return intake_->restore(state); }
  void committed() override { intake_->committed(); }

 protected:
  HeldReplayFeed(const HeldReplayFeedOptions& options, RoleIdentity identity);

  /// The table, in connect(), on a device that is called so. Errors: those of ReplayIntake::make().
  Status make_intake(const MakeTable& make_table, const std::string& device);
  /// For how many steps the table has rows now, at most `most`.
  std::int64_t steps_ready(std::int64_t most) const;

  const HeldReplayFeedOptions options_;
  const RoleIdentity identity_;
  std::unique_ptr<ReplayIntake> intake_;

 private:
  learner::BatchSlot slot_;
  std::unique_ptr<learner::Replica> replica_;
};

/// Of a class of such feeds.
template <typename T>
FeedSpec held_replay_feed(HeldReplayFeedOptions options) {
  return {.inlets = {{"trajectories", "Trajectory"}},
          .make = [options = std::move(options)](const RoleIdentity& identity) -> Result<std::unique_ptr<Feed>> {
            auto feed = std::make_unique<T>(options, identity);
            TROUPE_TRY(feed->make_replica());
            return {std::move(feed)};
          }};
}

}  // namespace troupe::actors
