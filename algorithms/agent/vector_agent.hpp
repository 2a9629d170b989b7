#pragma once
// What agents have alike that see one vector of floats, act by one vector of numbers and learn from n-step transitions:
// D4PG, TD3, SAC, DMPO, and one of your own.
#include <cstdint>
#include <string>
#include <vector>

#include <troupe/algorithms/agent/algorithm.hpp>
#include <troupe/envs/environment.hpp>

namespace troupe {

/// Fills in wrap, columns, greedy and adder; policy, explores and make_replica are the algorithm's own.
/// flattened: the environment, by envs::flattened(). The policy gives "action", which is what a greedy agent does, and
/// then the outputs of `more`, each as large as an action: what the action is drawn from.
Algorithm vector_agent(const envs::EnvSpec& flattened, std::int64_t n_step, double discount,
                       const std::vector<std::string>& more = {});

}  // namespace troupe
