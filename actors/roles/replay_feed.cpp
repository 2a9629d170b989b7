#include <troupe/actors/roles/replay_feed.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <utility>

namespace troupe::actors {
namespace {

std::string mix_counter(std::size_t shard, std::string_view what) {
  return fmt::format("replay_shard_{}_{}", shard, what);
}

}  // namespace

FeedSpec replay_feed(ReplayFeedOptions options) {
  return {.inlets = {{"batches", "Batch"}},
          .outlets = {{"priorities", "Priorities"}},
          .make = [options = std::move(options)](const RoleIdentity&) -> Result<std::unique_ptr<Feed>> {
            TROUPE_ASSIGN(auto feed, ReplayFeed::make(options));
            return {std::move(feed)};
          }};
}

ReplayFeed::ReplayFeed(const ReplayFeedOptions& options)
    : options_(options), slot_(options.signature), mix_(options.shards), priorities_(options.shards) {}

Result<std::unique_ptr<ReplayFeed>> ReplayFeed::make(const ReplayFeedOptions& options) {
  std::unique_ptr<ReplayFeed> feed(new ReplayFeed(options));
  const auto input = [&slot = feed->slot_](const learner::InputContext& context) { return slot.pipeline(context); };
  TROUPE_ASSIGN(feed->replica_, options.make_replica(input));
  return feed;
}

Status ReplayFeed::take(RoleContext& context, learner::Replicator& replicator, std::int64_t most, bool) {
  TROUPE_TRY(send_priorities(context));
  const std::int64_t wanted = std::min<std::int64_t>(most, replicator.steps_per_launch());
  while (static_cast<std::int64_t>(taken_.size() - under_way_) < wanted) {
    TROUPE_ASSIGN(const auto shard, next_shard(context));
    if (!shard) return {};
    TROUPE_ASSIGN(const auto batch,
                  messages::read_batch(context.in("batches").take(*shard)));  // next_shard() has read it
    if (options_.prioritised && !(mix_.items() > 0 && mix_.share(*shard) > 0)) {
      context.refuse("batches", Error{Code::kInvalidArgument, "batch: of a table without items or without mass"});
      continue;
    }
    std::vector<float> weights = std::exchange(weights_, {});  // of the batch before, which may be needed again
    const BatchView view = options_.prioritised ? with_weights(batch, mix_.share(*shard)) : batch.columns();
    taken_.push_back({batch, *shard});  // first: what is staged is the frame's
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
  const learner::Program& program = replicator.program();
  for (std::size_t step = 0; step < under_way_; ++step) {
    if (options_.prioritised) {
      const auto keys = taken_.front().batch.rows().keys;
      const auto values = replicator.output(options_.priority_output, static_cast<int>(step));
      const bool skipped = program.skipped(static_cast<int>(step));
      messages::PriorityUpdate& update = priorities_[taken_.front().shard];
      update.keys.insert(update.keys.end(), keys.begin(), keys.end());
      for (const float value : values) update.priorities.push_back(skipped && !std::isfinite(value) ? 0 : value);
    }
    taken_.pop_front();
  }
  under_way_ = 0;
  if (taken_.empty()) last_batch_ = {};  // its frame has gone
  return {};
}

Status ReplayFeed::send_priorities(RoleContext& context) {
  for (std::size_t shard = 0; shard < priorities_.size(); ++shard) {
    if (priorities_[shard].keys.empty() || !context.out("priorities").ready(shard)) continue;
    TROUPE_ASSIGN(Frame frame, messages::make_priorities(context.pool(), priorities_[shard]));
    context.out("priorities").send_to(shard, std::move(frame));
    priorities_[shard] = {};
  }
  return {};
}

Result<std::optional<std::size_t>> ReplayFeed::next_shard(RoleContext& context) {
  Inlet& batches = context.in("batches");
  std::vector<bool> available(options_.shards, false);
  for (std::size_t shard = 0; shard < available.size(); ++shard) {
    auto read = Result<messages::SampledBatchView>(Error{});
    const Frame* frame = nullptr;
    while ((frame = batches.peek(shard)) != nullptr && !(read = messages::read_batch(*frame)).ok()) {
      (void)batches.take(shard);
      context.refuse("batches", read.error());
    }
    if (frame == nullptr) continue;
    const messages::SampledBatchView& batch = *read;
    mix_.observe(shard, batch.info().table_items, batch.info().table_mass);
    available[shard] =
        !options_.prioritised || (priorities_[shard].keys.empty() && context.out("priorities").ready(shard));
  }
  return mix_.pick(available);
}

BatchView ReplayFeed::with_weights(const messages::SampledBatchView& batch, double share) {
  const auto& rows = batch.rows();
  const double items = static_cast<double>(mix_.items());
  weights_.resize(rows.probabilities.size());
  float largest = 0;
  for (std::size_t i = 0; i < weights_.size(); ++i) {
    weights_[i] =
        static_cast<float>(std::pow(1 / (items * share * rows.probabilities[i]), options_.importance_exponent));
    largest = std::max(largest, weights_[i]);
  }
  for (float& weight : weights_) weight /= largest;

  BatchView view = batch.columns();
  if (weighted_signature_.empty()) {
    weighted_signature_ = *view.signature;
    weighted_signature_.push_back({"weight", DType::kF32, {}});
  }
  view.signature = &weighted_signature_;
  view.columns.push_back(std::as_bytes(std::span(weights_)));
  return view;
}

void ReplayFeed::save(RoleState& state) const {
  if (mix_.shards().size() == 1) return;
  for (std::size_t s = 0; s < mix_.shards().size(); ++s) {
    const replay::ShardMix::Shard& shard = mix_.shards()[s];
    state.counters.push_back({mix_counter(s, "items"), shard.items});
    state.counters.push_back({mix_counter(s, "mass_bits"), std::bit_cast<std::int64_t>(shard.mass)});
    state.counters.push_back({mix_counter(s, "deficit_bits"), std::bit_cast<std::int64_t>(shard.deficit)});
  }
}

Status ReplayFeed::restore(const RoleState& state) {
  if (mix_.shards().size() == 1) return {};
  for (std::size_t s = 0; s < mix_.shards().size(); ++s) {
    TROUPE_ASSIGN(const std::int64_t items, state.counter(mix_counter(s, "items")));
    TROUPE_ASSIGN(const std::int64_t mass, state.counter(mix_counter(s, "mass_bits")));
    TROUPE_ASSIGN(const std::int64_t deficit, state.counter(mix_counter(s, "deficit_bits")));
    mix_.shards()[s] = {items, std::bit_cast<double>(mass), std::bit_cast<double>(deficit)};
  }
  return {};
}

}  // namespace troupe::actors
