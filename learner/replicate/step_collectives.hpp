#pragma once
// The collectives inside of a step, forward and backward, as joints of one replica's graph: what ReplicaContext emits.
// With f_i = w_i up to a factor that all replicas share, a collective y = c(x) needs dx_i = sum_j f_j dy_j (dy_j /
// dx_i) / f_i, so that the weighted mean of the replicas' gradients is the gradient of the weighted mean of their
// losses.
//
// On the GPUs of a group whose values are there they stay there, but for extrema and map_reduce, which compare others'
// values with their own; NCCL says nothing of what an extremum makes of a NaN. Which of both, depends on nothing that
// differs between ranks. Each one but the maps also says what it is in StableHLO, for engines that compile
// the whole group into one program.
#include <cstddef>
#include <cstdint>
#include <string>

#include <troupe/collectives/communicator.hpp>
#include <troupe/learner/graph/op.hpp>

namespace troupe::learner {

/// How this replica meets the others in one of them.
struct Meeting {
  collectives::Communicator* communicator = nullptr;  ///< null: it is alone
  std::size_t replicas = 1;
  std::size_t rank = 0;
  double per_row = 1;  ///< w_i = per_row rows_i, so that equal shares have 1, which scales nothing
  std::string name;
};

struct StepCollective {
  JointFn forward, backward;
};

StepCollective all_reduce(const Meeting& meeting, collectives::ReduceOp op);
/// row: elements of one of the batch's rows, of a value that is split by rows; else 0.
StepCollective all_gather(const Meeting& meeting, std::size_t row);
/// kSum or kMean.
StepCollective reduce_scatter(const Meeting& meeting, collectives::ReduceOp op);
StepCollective broadcast(const Meeting& meeting, int root);

/// Of results that were computed here and there: item i by replica i mod replicas, as its number i / replicas of
/// `slots`, filled up with zeros, [slots, elements]. Gathered: [items, elements]. Reduced over items in an order that
/// does not depend on the replicas: [elements].
struct MapShape {
  std::size_t items = 0, slots = 0, elements = 0;
};
StepCollective map_gather(const Meeting& meeting, const MapShape& shape);
StepCollective map_reduce(const Meeting& meeting, const MapShape& shape, collectives::ReduceOp op);

}  // namespace troupe::learner
