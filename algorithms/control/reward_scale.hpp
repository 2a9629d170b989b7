#pragma once
// Rewards in units of the returns that a policy gets, so that values fit a fixed support whatever the task pays:
// FlashSAC's, after PPO's (Engstrom et al. 2020, arXiv 2005.12729, section 3). Replay keeps rewards as they were and
// with each item the return at its end (replay/return_adder.hpp); the learner has the moments of these and scales what
// it has drawn, so old items count by today's scale.
#include <troupe/learner/graph/graph.hpp>
#include <troupe/learner/replicate/replica.hpp>

namespace troupe::learner::control {

/// Moves variance and peak by a step's returns, [rows], of all replicas where these meet, else of this one.
void learn_returns(ReplicaContext& context, Var returns);

/// reward / max(sqrt(variance + 1e-8), peak / most), [rows], by the variance of the returns and by the greatest
/// absolute one that the learner has seen, this step's included if learn_returns() comes first. So no return exceeds
/// `most` by what has been seen.
Var scaled_rewards(Graph& graph, Var reward, double most);

}  // namespace troupe::learner::control
