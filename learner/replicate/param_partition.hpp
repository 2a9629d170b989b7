#pragma once
// Which shard of a parameter server holds which part of a parameter group: tf.distribute's partitioners (fixed,
// min-size, max-size), over one flat buffer. Used by learner/replicate/parameter_server.
#include <cstddef>
#include <cstdint>
#include <vector>

#include <troupe/learner/graph/param_buffer.hpp>
#include <troupe/messages/parameters.hpp>

namespace troupe::learner {

/// Tensors are cut along their first axis, evenly; the parts go round the shards, counting on over all tensors.
enum class ParamPartition {
  kPartitioned,  ///< into as many parts as there are shards, or rows when they are fewer (FixedShardsPartitioner)
  kMinSize,      ///< into at most as many, none below `part_bytes` unless it is the whole (MinSizePartitioner)
  kMaxSize,      ///< into the fewest of at most `part_bytes`, or of one row each (MaxSizePartitioner)
};

/// What tf.distribute's MinSizePartitioner takes when nobody says another.
inline constexpr std::int64_t kDefaultPartBytes = 256 << 10;

/// The pieces, by shard. Together they cover every element of the layout exactly once; the padding behind a tensor goes
/// with its end. With more shards than there is to place, some pieces are empty. shards > 0. part_bytes > 0, of float32
/// values, for kMinSize and kMaxSize.
std::vector<messages::ParametersPiece> partition(const ParamLayout& layout, std::size_t shards, ParamPartition how,
                                                 std::int64_t part_bytes = kDefaultPartBytes);

}  // namespace troupe::learner
