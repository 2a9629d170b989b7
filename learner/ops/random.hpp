#pragma once
// Random numbers within a step: noise of a policy, dropout. A number follows from the program's seed, the count of the
// step, the name of the operation and the row's place within the batch of all replicas, by a counter-based generator
// (Threefry-2x32, Salmon et al. 2011, as JAX has it), so neither stripes, threads, devices nor the number of replicas
// change it. Seed and count are state of the graph: a run that is resumed goes on in the same sequence.
#include <string_view>

#include <troupe/core/tensor.hpp>
#include <troupe/learner/graph/graph.hpp>

namespace troupe::learner {

/// Uniform in [0, 1), multiples of 2^-24: [batch, row_shape...]. `name` is unique within the graph; it tells sequences
/// apart. Errors (the graph's): kInvalidArgument when the batches of all replicas have 2^32 elements or more.
Var random_uniform(Graph& graph, std::string_view name, const Shape& row_shape);
/// Normal with mean 0 and deviation 1, at most 5.9 from 0 (Box and Muller 1958).
Var random_normal(Graph& graph, std::string_view name, const Shape& row_shape);
/// Elements of x become 0 with probability `rate`, and the others x / (1 - rate) (Srivastava et al. 2014, in PyTorch's
/// form). x is split by rows. Only for training: the network of a policy leaves it out.
Var dropout(Var x, std::string_view name, double rate);

}  // namespace troupe::learner
