#include <troupe/actors/roles/replay_feed.hpp>

#include <algorithm>
#include <cmath>
#include <utility>

namespace troupe::actors {

std::vector<double> priorities_after(learner::Replicator& replicator, const std::string& output, int step) {
  const bool skipped = replicator.program().skipped(step);
  std::vector<double> priorities;
  for (const float value : replicator.output(output, step)) {
    priorities.push_back(skipped && !std::isfinite(value) ? 0 : value);
  }
  return priorities;
}

FeedSpec replay_feed(ReplayFeedOptions options) {
  return {.inlets = ReplayBatches::inlets(),
          .outlets = ReplayBatches::outlets(),
          .make = [options = std::move(options)](const RoleIdentity&) -> Result<std::unique_ptr<Feed>> {
            TROUPE_ASSIGN(auto feed, ReplayFeed::make(options));
            return {std::move(feed)};
          }};
}

ReplayFeed::ReplayFeed(const ReplayFeedOptions& options)
    : options_(options), slot_(options.signature), batches_(options.batches) {}

Result<std::unique_ptr<ReplayFeed>> ReplayFeed::make(const ReplayFeedOptions& options) {
  std::unique_ptr<ReplayFeed> feed(new ReplayFeed(options));
  const auto input = [&slot = feed->slot_](const learner::InputContext& context) { return slot.pipeline(context); };
  TROUPE_ASSIGN(feed->replica_, options.make_replica(input));
  return feed;
}

Status ReplayFeed::take(RoleContext& context, learner::Replicator& replicator, std::int64_t most, bool) {
  TROUPE_TRY(batches_.send_priorities(context));
  const std::int64_t wanted = std::min<std::int64_t>(most, replicator.steps_per_launch());
  while (static_cast<std::int64_t>(taken_.size() - under_way_) < wanted) {
    TROUPE_ASSIGN(auto batch, batches_.next(context));
    if (!batch) return {};
    std::vector<float> weights = std::exchange(weights_, {});  // of the batch before, which may be needed again
    taken_.push_back(*std::move(batch));                       // first: what is staged is the frame's
    const BatchView view = batches_.columns(taken_.back(), weights_);
    Status staged = slot_.offer(view);
    if (staged.ok()) staged = replicator.stage();
    if (!staged.ok()) {
      taken_.pop_back();
      weights_ = std::move(weights);
      if (staged.error().code != Code::kShapeMismatch) return staged.error();
      context.refuse("batches", staged.error());
      continue;
    }
    last_batch_ = view;
  }
  return {};
}

Result<std::int64_t> ReplayFeed::begin(learner::Replicator& replicator, std::int64_t) {
  if (taken_.empty()) return std::int64_t{0};
  if (replicator.staged() == 0) {  // a group that has a new size takes its inputs anew
    TROUPE_TRY(slot_.offer(last_batch_));
    TROUPE_TRY(replicator.stage());
  }
  TROUPE_TRY(replicator.begin());
  under_way_ = taken_.size();
  return static_cast<std::int64_t>(under_way_);
}

Status ReplayFeed::done(learner::Replicator& replicator) {
  for (std::size_t step = 0; step < under_way_; ++step) {
    if (options_.batches.prioritised) {
      batches_.answer(taken_.front(), priorities_after(replicator, options_.priority_output, static_cast<int>(step)));
    }
    taken_.pop_front();
  }
  under_way_ = 0;
  if (taken_.empty()) last_batch_ = {};  // its frame has gone
  return {};
}

void ReplayFeed::save(RoleState& state) const { batches_.save(state); }
Status ReplayFeed::restore(const RoleState& state) { return batches_.restore(state); }

}  // namespace troupe::actors
