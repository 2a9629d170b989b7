#pragma once
// Which shard of a parameter store holds which part of a parameter group: tf.distribute's placements (round-robin,
// greedy by bytes) and its fixed-shards partitioner, over one flat buffer. Used by the learner actor, which publishes
// one piece for each shard; readers need not know the rule, since every piece says what it is made of.
#include <cstddef>
#include <optional>
#include <string_view>
#include <vector>

#include <troupe/learner/param_buffer.hpp>
#include <troupe/messages/parameters.hpp>

namespace troupe::learner {

enum class ParamPartition {
  kRoundRobin,   ///< tensor i goes to shard i mod shards
  kGreedy,       ///< each tensor, in order, goes to the shard that has the fewest bytes so far
  kPartitioned,  ///< tensors are cut along their first axis, evenly; the parts go round, counting on over all tensors
};

/// "round_robin", "greedy", "partitioned"; empty for any other name.
std::optional<ParamPartition> param_partition(std::string_view name);

/// The pieces, by shard. Together they cover every element of the layout exactly once; the padding behind a tensor goes
/// with its end. With more shards than there is to place, some pieces are empty. shards > 0.
std::vector<messages::ParametersPiece> partition(const ParamLayout& layout, std::size_t shards, ParamPartition how);

}  // namespace troupe::learner
