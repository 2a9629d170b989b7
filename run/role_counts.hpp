#pragma once
// What a run's roles ask of the nodes that host them: how many instances there are, over how many nodes they are
// spread and what each needs there. Who makes nodes (apps/cluster) knows no role by name; what it needs of one is here.
#include <cstdint>
#include <string>
#include <vector>

#include <troupe/run/train_options.hpp>

namespace troupe::actors {

struct RoleCount {
  std::string role;
  std::int64_t count = 0;
  std::string key;         ///< of the configuration, that says how many nodes; empty: always with the chief
  std::string node;        ///< what its nodes are called
  std::int64_t nodes = 0;  ///< 0: with the chief
  /// The type of TF_CONFIG's tasks that host it: "ps", "worker" or "evaluator"; empty: the chief does.
  std::string task = {};
  bool fills = false;          ///< it takes the places that nobody else has asked for: env actors
  std::string count_key = {};  ///< of the configuration, that says how many instances; of those that fill
  std::int64_t threads = 0;    ///< of an instance, that have work all the time; 0: it mostly waits
  /// What its instances compute on, as the configuration has it: instance i uses all of the i-th, modulo their count.
  std::vector<std::vector<std::string>> devices = {};
};

/// The roles of a run besides metrics (which is always the chief's), in the order in which nodes are made for them.
std::vector<RoleCount> role_counts(const TrainOptions& options);

}  // namespace troupe::actors
