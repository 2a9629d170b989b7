#include <troupe/actors/roles/held_replay_feed.hpp>

#include <fmt/format.h>

#include <utility>

#include <troupe/core/log.hpp>
#include <troupe/core/stacks.hpp>

namespace troupe::actors {

HeldReplayFeed::HeldReplayFeed(const HeldReplayFeedOptions& options, RoleIdentity identity)
    : options_(options), identity_(std::move(identity)), slot_(options.signature) {}

Status HeldReplayFeed::make_replica() {
  // Nothing is ever offered: the inputs are filled on the device.
  TROUPE_ASSIGN(replica_,
                options_.make_replica([&slot = slot_](const learner::InputContext&) { return slot.pipeline(); }));
  return {};
}

Status HeldReplayFeed::make_intake(const MakeTable& make_table, const std::string& device) {
  TROUPE_ASSIGN(intake_, ReplayIntake::make(options_.replay, identity_, make_table));
  const replay::TableOptions& table = intake_->table().options();
  log::info("{}: replay on {}, for {} items of {} bytes", identity_.name(), device, table.max_items,
            row_bytes(table.signature));
  if (Stacks(table.signature).any()) {
    log::warn("TRP-W303 {}: replay on {} holds whole stacks, {} bytes an item; on the host each plane is kept once",
              identity_.name(), device, row_bytes(table.signature));
  }
  return {};
}

Status HeldReplayFeed::take(RoleContext& context, learner::Replicator&, std::int64_t, bool) {
  TROUPE_TRY(intake_->take(context));
  return {};
}

std::int64_t HeldReplayFeed::steps_ready(std::int64_t most) const {
  const std::int64_t batch = options_.replay.batch;
  return intake_->table().sampleable(most * batch) / batch;
}

std::string HeldReplayFeed::waiting_for() const {
  return intake_ != nullptr ? intake_->waiting_for(options_.replay.batch) : "";
}

}  // namespace troupe::actors
