#include <troupe/actors/roles/kept_replay_feed.hpp>

#include <algorithm>
#include <utility>
#include <vector>

#include <troupe/actors/roles/replay_feed.hpp>

namespace troupe::actors {
namespace {

/// Rows on their way to the device, of images a few megabytes.
constexpr std::int64_t kSentTogether = 64;

class KeptReplayFeed final : public HeldReplayFeed {
 public:
  KeptReplayFeed(const HeldReplayFeedOptions& options, const RoleIdentity& identity)
      : HeldReplayFeed(options, identity) {}

  Status connect(learner::Replicator& replicator) override {
    const auto make_table = [](replay::TableOptions made) {
      // As many as fit with whole rows: of those that share planes the host would hold more.
      const auto bytes = static_cast<std::int64_t>(row_bytes(made.signature));
      if (made.max_bytes > 0)
        made.max_items = std::min(made.max_items, std::max(made.max_bytes / bytes, std::int64_t{1}));
      return replay::Table::make(std::move(made));
    };
    TROUPE_TRY(make_intake(make_table, learner::to_string(replicator.program().device())));
    return keep_rows(replicator.program());
  }

  Result<std::int64_t> begin(learner::Replicator& replicator, std::int64_t most) override {
    learner::Program& program = replicator.program();
    if (program.kept_rows() == 0) TROUPE_TRY(keep_rows(program));  // that of a group of another size
    if (program.staged() == 0) {                                   // else those that a group did not come to take
      TROUPE_TRY(send_rows(program));
      drawn_.clear();
      const std::int64_t steps = steps_ready(std::min(most, std::int64_t{replicator.steps_per_launch()}));
      for (std::int64_t step = 0; step < steps; ++step) TROUPE_TRY(draw(program));
    }
    const int steps = program.staged();
    if (steps > 0) TROUPE_TRY(replicator.begin(steps));
    return std::int64_t{steps};
  }

  Status done(learner::Replicator& replicator) override {
    if (options_.importance_exponent == 0) return {};
    std::vector<replay::Key> keys(batch());
    for (std::size_t step = 0; step * batch() < drawn_.size(); ++step) {
      for (std::size_t row = 0; row < batch(); ++row) keys[row] = drawn_[step * batch() + row].key;
      TROUPE_TRY(intake_->table().update_priorities(
          keys, priorities_after(replicator, options_.priority_output, static_cast<int>(step))));
    }
    return {};
  }

 private:
  std::size_t batch() const { return static_cast<std::size_t>(options_.replay.batch); }
  const replay::Table& table() const { return intake_->table(); }
  std::int64_t place(replay::Key key) const {
    return static_cast<std::int64_t>(key % static_cast<replay::Key>(table().options().max_items));
  }

  Status keep_rows(learner::Program& program) {
    sent_ = 0;
    return program.keep_rows(table().options().signature, table().options().max_items);
  }

  /// Those that have come and not gone since the last time, by their places, which begin anew behind the last one.
  Status send_rows(learner::Program& program) {
    const replay::TableInfo info = table().info();
    const auto end = static_cast<replay::Key>(info.inserts);  // keys count inserts
    sent_ = std::max(sent_, static_cast<replay::Key>(info.inserts - info.items));
    while (sent_ < end) {
      const std::int64_t room = table().options().max_items - place(sent_);
      const std::int64_t rows = std::min({static_cast<std::int64_t>(end - sent_), room, kSentTogether});
      const Signature& signature = table().options().signature;
      BatchBuffer sent(signature, rows);
      std::vector<double> priorities(static_cast<std::size_t>(rows));
      TROUPE_TRY(table().read(sent_, sent.mutable_view(), priorities));
      TROUPE_TRY(program.store_rows(place(sent_), sent.view()));
      sent_ += static_cast<replay::Key>(rows);
    }
    return {};
  }

  Status draw(learner::Program& program) {
    items_.resize(batch());
    TROUPE_TRY(intake_->table().draw(items_));
    numbers_.clear();
    for (const replay::SampledItem& item : items_) numbers_.push_back(static_cast<std::int32_t>(place(item.key)));
    BatchView rest;
    if (options_.importance_exponent > 0) {
      probabilities_.clear();
      for (const replay::SampledItem& item : items_) probabilities_.push_back(item.probability);
      weights_.resize(batch());
      importance_weights(probabilities_, static_cast<double>(items_[0].table_items), options_.importance_exponent,
                         weights_);
      rest = {&weight_, options_.replay.batch, {std::as_bytes(std::span(weights_))}};
    }
    TROUPE_TRY(program.stage_rows(numbers_, rest));
    drawn_.insert(drawn_.end(), items_.begin(), items_.end());
    return {};
  }

  const Signature weight_ = {{"weight", DType::kF32, {}}};
  replay::Key sent_ = 0;                    ///< rows before this one are on the device, as far as they are in the table
  std::vector<replay::SampledItem> drawn_;  ///< of the launch
  std::vector<replay::SampledItem> items_;  ///< of one step, as all below
  std::vector<std::int32_t> numbers_;
  std::vector<double> probabilities_;
  std::vector<float> weights_;
};

}  // namespace

FeedSpec kept_replay_feed(HeldReplayFeedOptions options) {
  return held_replay_feed<KeptReplayFeed>(std::move(options));
}

}  // namespace troupe::actors
