#pragma once
// What a parameter server holds of a replica's model and which of its shards holds what. Workers and shards build the
// same replica and so compute the same plan; the hash that travels with every message proves it.
//
// All parameter groups stand behind one another in one flat space, each with its layout. Groups that are optimised are
// cut by a partitioner (learner/replicate/param_partition.hpp); one that follows another (a target, an average) is cut
// in the same way, so that a shard can follow by itself. Groups that never change stay with the workers.
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <troupe/core/error.hpp>
#include <troupe/learner/graph/graph.hpp>
#include <troupe/learner/graph/optimizer.hpp>
#include <troupe/learner/replicate/param_partition.hpp>

namespace troupe::learner {

struct ServedGroup {
  std::string name;  ///< in the program
  ParamLayout layout;
  std::int64_t offset = 0;  ///< of its first element in the model's flat space
  std::optional<OptimizerSpec> optimizer;
  // Without an optimiser it follows a group before it:
  std::size_t online = 0;
  std::int64_t every_updates = 1;  ///< becomes that group's values after every so many updates,
  double decay = 0;                ///< or, above 0: decay * its own + (1 - decay) * those, when they change
};

/// A tensor of rows of which a batch touches few (learner/ops/embedding.hpp): its gradient travels as those rows, and
/// the others' slots stay as they are too ("lazy" momentum and Adam: a row that no batch has touched for long does not
/// drift, unlike in a dense update).
struct SparseTable {
  std::size_t group = 0;
  std::int64_t offset = 0;  ///< in the model's flat space
  std::int64_t rows = 0;
  std::int64_t columns = 0;
};

struct ServedModel {
  std::vector<ServedGroup> groups;
  std::vector<SparseTable> tables;  ///< by offset
  std::int64_t elements = 0;

  /// Puts a group behind the others.
  void add(ServedGroup group);
  /// Of all groups' names, layouts and places, and of the tables.
  std::uint64_t hash() const;
  /// The groups of a replica's graph. Errors: the graph's.
  static Result<ServedModel> of(const Graph& graph);
};

/// A part of a shard that is handled in one way; consecutive elements of the model.
struct ShardSegment {
  enum class Kind : std::uint8_t { kDense, kSparse, kFollower };
  Kind kind = Kind::kDense;
  std::size_t group = 0;
  std::int64_t model_offset = 0;
  std::int64_t local_offset = 0;  ///< in the shard's values
  std::int64_t group_offset = 0;  ///< in the shard's part of the group, in which its slots stand
  std::int64_t elements = 0;
  std::size_t table = 0;          ///< kSparse
  std::int64_t first_row = 0;     ///< kSparse: of the table
  std::int64_t online_local = 0;  ///< kFollower: local offset of what it follows
};

struct ShardPlan {
  messages::ParametersPiece piece;
  std::vector<ShardSegment> segments;        ///< ascending; together they are the piece
  std::vector<std::int64_t> group_elements;  ///< of each group, here
  std::int64_t elements = 0;
  std::int64_t dense_elements = 0;  ///< of all kDense segments
};

/// By shard. shards > 0.
std::vector<ShardPlan> plan_shards(const ServedModel& model, std::size_t shards, ParamPartition how,
                                   std::int64_t part_bytes = kDefaultPartBytes);

}  // namespace troupe::learner
