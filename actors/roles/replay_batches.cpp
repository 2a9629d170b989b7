#include <troupe/actors/roles/replay_batches.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <string>
#include <string_view>
#include <utility>

namespace troupe::actors {
namespace {

std::string mix_counter(std::size_t shard, std::string_view what) {
  return fmt::format("replay_shard_{}_{}", shard, what);
}

}  // namespace

void importance_weights(std::span<const double> probabilities, double items, double exponent,
                        std::span<float> weights) {
  float largest = 0;
  for (std::size_t i = 0; i < weights.size(); ++i) {
    weights[i] = static_cast<float>(std::pow(1 / (items * probabilities[i]), exponent));
    largest = std::max(largest, weights[i]);
  }
  for (float& weight : weights) weight /= largest;
}

ReplayBatches::ReplayBatches(const ReplayBatchesOptions& options)
    : options_(options), mix_(options.shards), priorities_(options.shards) {}

Result<std::optional<ReplayBatch>> ReplayBatches::next(RoleContext& context) {
  for (;;) {
    const auto shard = next_shard(context);
    if (!shard) return std::optional<ReplayBatch>();
    TROUPE_ASSIGN(auto batch, messages::read_batch(context.in("batches").take(*shard)));  // next_shard() has read it
    if (!options_.prioritised || (mix_.items() > 0 && mix_.share(*shard) > 0)) {
      return std::optional(ReplayBatch{std::move(batch), *shard});
    }
    context.refuse("batches", Error{Code::kInvalidArgument, "batch: of a table without items or without mass"});
  }
}

std::optional<std::size_t> ReplayBatches::next_shard(RoleContext& context) {
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

BatchView ReplayBatches::columns(const ReplayBatch& of, std::vector<float>& weights) {
  BatchView view = of.batch.columns();
  if (!options_.prioritised) return view;
  const auto& rows = of.batch.rows();
  weights.resize(rows.probabilities.size());
  // A row's probability among all shards is its shard's share times that within it.
  importance_weights(rows.probabilities, static_cast<double>(mix_.items()) * mix_.share(of.shard),
                     options_.importance_exponent, weights);

  if (weighted_signature_.empty()) {
    weighted_signature_ = *view.signature;
    weighted_signature_.push_back({"weight", DType::kF32, {}});
  }
  view.signature = &weighted_signature_;
  view.columns.push_back(std::as_bytes(std::span(weights)));
  return view;
}

void ReplayBatches::answer(const ReplayBatch& of, std::span<const double> priorities) {
  messages::PriorityUpdate& update = priorities_[of.shard];
  const auto keys = of.batch.rows().keys;
  update.keys.insert(update.keys.end(), keys.begin(), keys.end());
  update.priorities.insert(update.priorities.end(), priorities.begin(), priorities.end());
}

Status ReplayBatches::send_priorities(RoleContext& context) {
  for (std::size_t shard = 0; shard < priorities_.size(); ++shard) {
    if (priorities_[shard].keys.empty() || !context.out("priorities").ready(shard)) continue;
    TROUPE_ASSIGN(Frame frame, messages::make_priorities(context.pool(), priorities_[shard]));
    context.out("priorities").send_to(shard, std::move(frame));
    priorities_[shard] = {};
  }
  return {};
}

void ReplayBatches::save(RoleState& state) const {
  if (mix_.shards().size() == 1) return;
  for (std::size_t s = 0; s < mix_.shards().size(); ++s) {
    const replay::ShardMix::Shard& shard = mix_.shards()[s];
    state.counters.push_back({mix_counter(s, "items"), shard.items});
    state.counters.push_back({mix_counter(s, "mass_bits"), std::bit_cast<std::int64_t>(shard.mass)});
    state.counters.push_back({mix_counter(s, "deficit_bits"), std::bit_cast<std::int64_t>(shard.deficit)});
  }
}

Status ReplayBatches::restore(const RoleState& state) {
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
