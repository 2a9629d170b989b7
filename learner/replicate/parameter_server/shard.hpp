#pragma once
// One shard of a parameter server (DistBelief, Dean et al. 2012; tf.distribute's ParameterServerStrategy): holds its
// piece of a model's parameters and optimiser slots, applies the gradients that workers push and hands out immutable
// versions. Passive: actors/roles/ps_actor gives it a mailbox. Its version counts its updates; a step of Adam's bias
// correction, of a learning-rate schedule or of a target is one update. A group that is trained in every n-th step
// (OptimizerSpec::every_steps: a GAN's generator) takes the gradient of every n-th update.
//
// Asynchronous: each gradient is an update. It was computed at an older version, by its staleness = version now -
// version it was computed at; StalePolicy says what follows from that.
// Synchronous with backup workers (Chen et al. 2016; tf.train.SyncReplicasOptimizer): an update takes the first
// `gradients_per_update` gradients of the newest version, weighted by samples, so that the mean is that of the rows it
// is made of; those that come later are stale and dropped. Shards choose apart, as tf's accumulators do: each takes the
// first that reach it, so two shards may take a step from different workers.
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include <troupe/core/aligned.hpp>
#include <troupe/core/error.hpp>
#include <troupe/learner/replicate/parameter_server/served_model.hpp>
#include <troupe/messages/gradient.hpp>
#include <troupe/messages/parameters.hpp>
#include <troupe/messages/safetensors.hpp>

namespace troupe::learner {

class UpdateRule;

enum class StalePolicy : std::uint8_t {
  kNone,   ///< all gradients are equal
  kDrop,   ///< those that are more than `max_staleness` versions old are dropped
  kScale,  ///< the learning rate is divided by the staleness, if that is above 1 (Zhang et al. 2016, section 3.2)
};

struct ParameterShardOptions {
  std::size_t workers = 1;
  DType transfer = DType::kF32;  ///< of the parameters that are handed out: or kBF16. The shard's own are float32.
  StalePolicy stale = StalePolicy::kNone;
  std::int64_t max_staleness = 0;
  std::size_t gradients_per_update = 0;              ///< 0: asynchronous; else synchronous, 1 .. workers
  std::int64_t max_updates = 0;                      ///< what comes after so many is dropped; 0: never
  std::shared_ptr<LendableMemory> memory = nullptr;  ///< as FramePoolOptions::memory: of the versions
};

/// Since the shard was made.
struct ParameterShardCounts {
  std::int64_t applied = 0;  ///< gradients, in synchronous mode those of finished updates
  std::int64_t stale = 0;    ///< dropped: too old, or late for their step
  std::int64_t unknown = 0;  ///< dropped: of versions from before a restart
  double staleness_sum = 0;  ///< over all that were applied, or dropped as too old
  std::int64_t staleness_max = 0;
};

/// Not thread-safe. Memory: the piece with its slots, one copy for each version that somebody still holds (at most two
/// a worker, four and 64 MiB more, else the pool says kUnavailable), in synchronous mode the gradients of the step.
class ParameterShard {
 public:
  /// Values start at zero: load() or restore() follows.
  ParameterShard(std::shared_ptr<const ServedModel> model, ShardPlan plan, const ParameterShardOptions& options);
  ~ParameterShard();

  /// Sets the values of a group, all of its flat buffer, of which this shard takes its own. Before the first version
  /// is handed out.
  void load(std::size_t group, std::span<const float> values);

  /// Takes a gradient. One that is refused, or dropped, has changed nothing. In synchronous mode a second one of a
  /// worker takes the place of its first, which that worker has given up. Errors: kInvalidArgument or kShapeMismatch:
  /// it is not one of this shard; kUnavailable: the pool's bound, to be
  /// tried again when readers have given versions back.
  Result<messages::GradientOutcome> push(const messages::GradientView& gradient);

  /// The parameters of the present version: one immutable copy, however many ask. O(1) after the first call for a
  /// version; in float32 nothing is copied then either, the next update writes to a new place.
  Result<messages::Frame> parameters();

  std::int64_t version() const { return version_; }
  bool finished() const { return options_.max_updates > 0 && version_ >= options_.max_updates; }
  const ParameterShardCounts& counts() const { return counts_; }
  const ShardPlan& plan() const { return plan_; }
  std::uint64_t model_hash() const { return model_hash_; }

  // Synchronous mode.

  /// Gradients that wait for the others of the step.
  std::size_t taken() const { return taken_.size(); }
  /// Ends the step with those that there are, at least one: its time is up. Workers that have not come are not waited
  /// for any more until they are heard of: then steps take as many gradients as there are other workers, if these are
  /// fewer than `gradients_per_update`. Errors: the pool's.
  Status close_step();
  /// Such a worker is back.
  void heard_of(std::size_t worker) { absent_.erase(worker); }

  /// Values and slots of each group ("policy", "policy.adam_m", ...) and what they belong to. They point into the
  /// shard.
  std::vector<messages::TensorBytes> save() const;
  /// What must be equal for save()'s tensors to fit.
  std::uint64_t fingerprint() const;
  /// Overwrites values, slots and version. Errors: kNotFound, kShapeMismatch, kInvalidArgument; nothing changed.
  Status restore(std::span<const messages::TensorBytes> tensors, std::int64_t version, std::uint64_t fingerprint);

 private:
  struct Part;  ///< a gradient and its share of the mean
  struct Group {
    std::vector<std::string> slot_names;
    std::vector<AlignedArray<float>> slots;
    std::vector<UpdateStretch> stretches;  ///< of the whole group; LARS's rates are those of the present update
  };

  Status check(const messages::GradientView& gradient) const;
  Status apply(std::span<const Part> parts, double rate_factor);
  /// Whether the next update changes a group: one with OptimizerSpec::every_steps n changes in each n-th.
  bool moves(std::size_t group) const;
  /// Finds LARS's rates of the variables in a segment.
  void find_rates(const ShardSegment& segment, std::int64_t dense_offset, std::span<const Part> parts, const Lars& lars,
                  const float* from);
  /// Calls visit(begin, count, gradient) for blocks of a dense segment from `begin` to `end`: the gradient is the mean
  /// of the parts, in memory that the next call overwrites.
  template <typename Visit>
  void for_each_block(std::int64_t dense_offset, std::int64_t begin, std::int64_t end, std::span<const Part> parts,
                      const Visit& visit);
  void update_dense(const ShardSegment& segment, std::int64_t dense_offset, std::span<const Part> parts,
                    const UpdateRule& rule, const float* from, float* to);
  void update_sparse(const ShardSegment& segment, std::span<const Part> parts, const UpdateRule& rule, float* to);
  void follow(const ShardSegment& segment, const float* from, float* to) const;
  /// Applies the rule to `count` elements of a segment.
  void update(const ShardSegment& segment, std::int64_t offset, std::int64_t count, const float* gradient,
              const UpdateRule& rule, const float* from, float* to);
  const float* values() const;
  Result<messages::ParametersBuilder> new_message();

  std::shared_ptr<const ServedModel> model_;
  ShardPlan plan_;
  ParameterShardOptions options_;
  std::uint64_t model_hash_;
  messages::FramePool pool_;
  std::vector<Group> groups_;
  std::vector<float> scratch_;
  std::int64_t version_ = 0;
  // Values that travel as float32 stand in a message that is still written until somebody asks for the version, then in
  // that message until the next update fills another one. Before the first version, and as bfloat16, they are apart.
  std::optional<messages::ParametersBuilder> open_;
  std::optional<messages::ParametersView> published_;  ///< of the present version
  AlignedArray<float> own_;                            ///< null: the values stand in a message
  std::vector<messages::GradientView> taken_;
  std::set<std::size_t> absent_;
  ParameterShardCounts counts_;
};

}  // namespace troupe::learner
