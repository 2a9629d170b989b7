#pragma once
// The models of apps/configs under every replicator: what changes are words of the configuration.
#include <ostream>
#include <string>
#include <vector>

#include <troupe/core/config.hpp>
#include <troupe/run/train_schema.hpp>
#include <troupe/tests/actors/train_replica.hpp>
#include <troupe/tests/paths.hpp>

namespace troupe::apps {

struct ReplicatorCase {
  std::string name;
  std::vector<std::string> keys;  ///< "KEY=VALUE" of the group's section
  bool meets = true;              ///< replicas do within a step, so that batch norm can be of all of them
};
inline std::ostream& operator<<(std::ostream& out, const ReplicatorCase& one) { return out << one.name; }

/// Every row of the table in docs/replicas.md; multi_device once for each way to reduce.
inline std::vector<ReplicatorCase> replicator_cases() {
  return {
      {"one_device", {}},
      {"multi_device_collective", {"replicator=multi_device", "count=2", "reduce=collective"}},
      {"multi_device_hierarchical_copy", {"replicator=multi_device", "count=2", "reduce=hierarchical_copy"}},
      {"multi_device_reduction_to_one", {"replicator=multi_device", "count=2", "reduce=reduction_to_one"}},
      {"multi_worker", {"replicator=multi_worker", "count=2"}},
      {"central_storage", {"replicator=central_storage", "count=2"}},
      {"parameter_server", {"replicator=parameter_server", "count=2", "ps_shards=2", "staleness=scale"}, false},
      {"sync_replicas", {"replicator=sync_replicas", "count=3", "backup_workers=1"}, false},
      {"model_parallel", {"replicator=model_parallel", "devices=2"}},
      {"model_parallel_of_several", {"replicator=model_parallel", "count=2", "devices=2"}},
  };
}

/// What the evaluator of apps/configs/FILE.toml's group GROUP says at the end. more: further keys.
inline Result<std::vector<Scalar>> evaluation_under(const std::string& file, const std::string& group,
                                                    const ReplicatorCase& one, const std::vector<std::string>& more) {
  std::vector<std::string> overrides;
  for (const auto& keys : {one.keys, more}) {
    for (const std::string& key : keys) overrides.push_back("replicas." + group + "." + key);
  }
  const std::string path = source_dir() + "/apps/configs/" + file + ".toml";
  TROUPE_ASSIGN(const Config config, load_config(path, overrides, train_schema(shipped())));
  TROUPE_ASSIGN(const actors::TrainOptions options, to_train_options(config, shipped()));
  const actors::ReplicaRun& run = options.replicas.at(0);
  TROUPE_ASSIGN(const actors::ReplicaModel model, actors::model_of(run));
  TROUPE_ASSIGN(const actors::ReplicaSummary trained, actors::testing::train_replica(model, run.group));
  return trained.evaluation;
}

/// The classifier's test accuracy at the end. more: further keys.
inline Result<double> accuracy_under(const ReplicatorCase& one, const std::vector<std::string>& more = {}) {
  TROUPE_ASSIGN(const std::vector<Scalar> evaluation, evaluation_under("classifier", "classifier", one, more));
  for (const Scalar& metric : evaluation) {
    if (metric.name == "accuracy") return metric.value;
  }
  return Error{Code::kNotFound, "no evaluation has an accuracy"};
}

}  // namespace troupe::apps
